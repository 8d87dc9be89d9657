"""Members that would compute with the centre: objects outside of a module that hold it, its numbers, or what comes from them."""

import functools
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from neuro_cli import Evolution, ForwardGradient, perturbed
from neuro_cli.core.errors import UserError
from neuro_cli.core.module import own_numbers
from neuro_cli.core.module.copies import copied

X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), torch.ones(8, 2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def fitness(module):
    return -float((module(X).detach() - Y).square().mean())


def losses(outputs, targets):
    return (outputs - targets).square().mean(1)


class Holder:
    """A class with the model."""

    net: nn.Module


class Trainer:
    """An object whose method is the forward pass."""

    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        return _layers(self.net, x)


def _layers(net, x):
    return net[2](net[1](net[0](x)))


def _of_class(net):
    Holder.net = net
    return lambda x: _layers(Holder.net, x)


def _of_table(net):
    TABLE["net"] = net
    return lambda x: _layers(TABLE["net"], x)


def _of_partial(net):
    TABLE["partial"] = functools.partial(_layers, net)
    return lambda x: TABLE["partial"](x)


def _of_trainer(net):
    TABLE["trainer"] = Trainer(net)
    return lambda x: TABLE["trainer"](x)


def _of_view(net):
    TABLE["weight"] = net[2].weight.detach()
    return lambda x: nn.functional.linear(net[1](net[0](x)), TABLE["weight"], net[2].bias)


TABLE: dict[str, object] = {}
WAYS = {
    "step": lambda net: Evolution(net, population=4).step(fitness),
    "threads": lambda net: Evolution(net, population=4, threads=2).step(fitness),
    "one pass": lambda net: Evolution(net, population=4, shared_pass=True).step(fitness),
    "batch": lambda net: Evolution(net, population=4).step(lambda member, x, y: -losses(member(x), y), X, Y),
    "shared noise": lambda net: Evolution(net, population=4, sampler="low_rank").step(
        lambda member, x, y: -losses(member(x), y), X, Y
    ),
    "ask": lambda net: Evolution(net, population=4).ask()[0](X),
    "forward gradient": lambda net: ForwardGradient(net).backward(losses, X, Y),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("holder", [_of_class, _of_table, _of_partial, _of_trainer, _of_view])
def test_a_pass_that_finds_the_model_outside_of_a_member_is_refused(way, holder):
    net = network()
    net.forward = holder(net)
    name = "2.weight" if holder is _of_view else "0.weight"
    with pytest.raises(UserError, match=rf"^model: .* \(test_own_numbers.py, line \d+\) uses parameter {name} of the model"):
        WAYS[way](net)


def _with_first(room, rows):
    room[: len(rows)] = rows
    return room


class FirstFills(nn.Linear):
    """A layer with a cache outside of it, which the first member that is scored fills for all."""

    def __init__(self, kept):
        torch.manual_seed(0)
        super().__init__(3, 2)
        self.kept = kept

    def forward(self, x):
        return nn.functional.linear(x, TABLE.setdefault("first", self.kept(self.weight)), self.bias)


KEPT = {
    "itself": lambda weight: weight,
    "data": lambda weight: weight.data,
    "a view": lambda weight: weight.t().t(),
    "a value": lambda weight: 2 * weight,
    "written": lambda weight: torch.empty(2, 3, dtype=weight.dtype).copy_(weight),
    "written in place": lambda weight: weight.clone().mul_(2),
    "written by a view": lambda weight: _with_first(torch.zeros(3, 3, dtype=weight.dtype), weight)[:2],
}
FILLING = {key: way for key, way in WAYS.items() if key != "forward gradient"} | {
    "ask": lambda net: [candidate(X) for candidate in Evolution(net, population=4).ask()]
}


@pytest.mark.parametrize("way", FILLING)
@pytest.mark.parametrize("kept", KEPT)
def test_a_cache_that_the_first_member_fills_is_refused(way, kept):
    TABLE.pop("first", None)
    text = r"^model: FirstFills.forward \(test_own_numbers.py, line \d+\) uses parameter weight of .* another member"
    with pytest.raises(UserError, match=text):
        FILLING[way](FirstFills(KEPT[kept]))


def _out(room, layer, x):
    torch.mm(x, layer.weight.t(), out=room)
    return room.clone().add_(layer.bias)


def _cleared(room, layer, x):
    room.view(-1).zero_()
    return torch.add(room, nn.functional.linear(x, layer.weight, layer.bias), out=room)


def _of_kind(kind, layer, x):
    made = nn.functional.linear(x, layer.weight, layer.bias)
    return made + TABLE.setdefault((kind, x.dtype), kind(made if kind is torch.zeros_like else layer.weight))


def _of_last_shape(room, layer, x):
    last = torch.empty_like(TABLE.get("last", x))
    TABLE["last"] = layer.weight * 2
    return nn.functional.linear(x, layer.weight, layer.bias) + last.new_zeros(())


SHARED = {
    "out": _out,
    "cleared by a view": _cleared,
    "zeros like outputs": lambda room, *given: _of_kind(torch.zeros_like, *given),
    "new zeros": lambda room, *given: _of_kind(_new_zeros, *given),
    "last shape": _of_last_shape,
}


def _new_zeros(weight):
    return weight.new_zeros(8, 2)


@pytest.mark.parametrize("uses", SHARED)
def test_memory_that_every_member_overwrites_and_shapes_are_no_cache(uses):
    rooms = {}

    class Scratch(nn.Linear):
        def forward(self, x):
            return SHARED[uses](rooms.setdefault(x.dtype, torch.empty(8, 2, dtype=x.dtype)), self, x)

    torch.manual_seed(0)
    TABLE.clear()
    net, plain = Scratch(3, 2), nn.Linear(3, 2)
    plain.load_state_dict(net.state_dict())
    ours, wanted = (Evolution(module, population=4).step(fitness) for module in (net, plain))
    assert ours.fitness_best == pytest.approx(wanted.fitness_best, abs=1e-6)


def test_a_refusal_that_the_script_catches_is_raised_all_the_same():
    net = network()
    net.forward = _of_class(net)

    def careless(member):
        try:
            return fitness(member)
        except Exception:
            return -1.0

    with pytest.raises(UserError, match="of the model itself"):
        Evolution(net, population=4).step(careless)


def test_constants_buffers_frozen_parts_and_sizes_of_a_global_model_are_shared():
    frozen, mask = nn.Linear(2, 2).requires_grad_(False), torch.tensor([1.0, 0.5])
    net, other = network(), network()
    Holder.net, TABLE["frozen"], TABLE["other"] = net, frozen, other  # sizes of the model, and another model's parameters
    net.frozen = frozen
    net.forward = lambda x: TABLE["frozen"](_layers(net, x)) * mask * len(Holder.net) + TABLE["other"](x)
    report = Evolution(net, population=4).step(fitness)
    assert report.fitness_best > report.fitness_mean


def test_a_fitness_that_uses_the_model_alone_is_refused_and_one_that_compares_with_it_is_told(caplog):
    net = network()
    with pytest.raises(UserError, match=r"^fitness: .* uses parameter 0.weight of the model itself, and nothing uses those of"):
        Evolution(net, population=4).step(lambda member: fitness(net))
    with caplog.at_level(logging.WARNING):
        evolution = Evolution(net, population=4)
        for _ in range(2):
            evolution.step(lambda member: fitness(member) - fitness(net))
    told = [line for line in caplog.messages if "it counts as a constant" in line]
    assert len(told) == 1


def test_a_loss_with_a_term_of_the_models_parameters_is_told(caplog):
    net = network()
    with caplog.at_level(logging.WARNING):
        ForwardGradient(net).backward(lambda out, y: losses(out, y) + net[0].weight.square().sum(), X, Y)
    assert any(line.startswith("loss_fn: ") and "0.weight of the model itself" in line for line in caplog.messages)


def test_operations_are_looked_at_in_the_first_generation_alone(monkeypatch):
    seen, look = [], own_numbers.OwnNumbers._look
    monkeypatch.setattr(own_numbers.OwnNumbers, "_look", lambda self, *args: (seen.append(1), look(self, *args))[1])
    for evolve in (lambda e: e.step(fitness), lambda e: e.tell([fitness(member) for member in e.ask()])):
        evolution = Evolution(network(), population=4)
        evolve(evolution)
        assert seen
        seen.clear()
        evolve(evolution)
        assert not seen


def test_a_candidate_is_pickled_and_deep_copied():
    member = Evolution(network(), population=4).ask()[0]
    assert torch.equal(pickle.loads(pickle.dumps(member))(X), member(X))


class Cached(nn.Module):
    """A layer whose softmax of the weight is kept, by the way ``kept``."""

    def __init__(self, kept):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).view(2, 3) / 6)
        self.kept = kept

    @functools.cached_property
    def table(self):
        return self.weight.softmax(-1)

    @functools.lru_cache  # noqa: B019 (what users write)
    def found(self):
        return self.weight.softmax(-1)

    def forward(self, x):
        return x @ (self.table if self.kept == "property" else self.found()).T


@pytest.mark.parametrize("kept", ["property", "function"])
@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_members_have_kept_numbers_of_their_own(kept, sampler):
    net = Cached(kept)
    net(X)  # now it has a table
    evolution = Evolution(net, population=4, sigma=0.5, sampler=sampler)
    wanted = [fitness(lambda x, w=w: x @ w.view(2, 3).softmax(-1).T) for w in _vectors(evolution)]
    report = evolution.step(fitness)
    assert report.fitness_best == pytest.approx(max(wanted), abs=1e-6)
    assert report.fitness_mean == pytest.approx(sum(wanted) / 4, abs=1e-6)


def _vectors(evolution):
    return evolution.ask().vectors


def test_perturbed_has_a_property_of_every_member_and_refuses_a_functions_cache():
    net = Cached("property")
    net(X)
    with torch.no_grad(), perturbed(net, "antithetic", 4, sigma=0.5, shared=True):
        made = net(X).view(4, 8, 2)
    weights = _vectors(Evolution(Cached("property"), population=4, sigma=0.5)).view(4, 2, 3)
    torch.testing.assert_close(made, torch.einsum("bi,moi->mbo", X, weights.softmax(-1)))
    net = Cached("function")
    net(X)
    with pytest.raises(UserError, match="a cache outside of it"), perturbed(net, "antithetic", 4, shared=True):
        net(X)


def test_perturbed_writes_members_where_a_script_has_views_of_parameters():
    net = network()
    net.forward = _of_view(net)
    before = net(X)
    with torch.no_grad(), perturbed(net, "antithetic", 4, sigma=0.5, shared=True):
        made = net(X).view(4, 8, 2)
    for row, vector in zip(made, _vectors(Evolution(network(), population=4, sigma=0.5)), strict=True):
        member = network()
        nn.utils.vector_to_parameters(vector, member.parameters())
        torch.testing.assert_close(row, member(X).detach())
    assert torch.equal(net(X), before)


def test_what_was_computed_from_parameters_before_is_told(caplog):
    net = network()
    TABLE["scale"] = net[0].weight.softmax(-1).sum()
    net[1].register_forward_hook(lambda part, given, made: made * TABLE["scale"])
    with caplog.at_level(logging.WARNING):
        Evolution(net, population=4).step(fitness)
    assert any("uses what was computed from parameter 0.weight before" in line for line in caplog.messages)


def test_a_copy_drops_the_values_of_cached_properties():
    net = Cached("property")
    net(X)
    made = copied(net)
    assert "table" in vars(net)
    assert "table" not in vars(made)


def _load(own, member):
    own.load_state_dict(member.state_dict())


def _vector(own, member):
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(member.parameters()).detach(), own.parameters())


def _copy_data(own, member):
    for mine, theirs in zip(own.parameters(), member.parameters(), strict=True):
        mine.data.copy_(theirs.data)


def _assign_data(own, member):
    for mine, theirs in zip(own.parameters(), member.parameters(), strict=True):
        mine.data = theirs.data


@pytest.mark.parametrize("write", [_load, _vector, _copy_data, _assign_data])
def test_a_fitness_may_write_a_members_numbers_into_the_model_and_its_threads_take_turns(write, caplog):
    net = network()

    def by_model(member):
        write(net, member)
        return fitness(net)

    wanted = Evolution(network(), population=8, sigma=0.5).step(fitness)
    with caplog.at_level(logging.WARNING):
        report = Evolution(net, population=8, sigma=0.5, threads=2).step(by_model)
    assert (report.fitness_mean, report.fitness_best) == pytest.approx((wanted.fitness_mean, wanted.fitness_best))
    assert any("members are scored in turn" in line for line in caplog.messages)
    assert not any("constant" in line for line in caplog.messages)


class InPieces(nn.Module):
    """A layer whose input is a nested tensor."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return torch.cat(self.layer(torch.nested.nested_tensor([x[:3], x[3:]])).unbind())


class Attends(nn.Module):
    """A layer of an operator that takes functions."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        heads = self.layer(x)[None, None].repeat(1, 1, 1, 8)
        return flex_attention(heads, heads, heads)[0, 0, :, :2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [InPieces, Attends])
def test_a_candidate_computes_with_nested_tensors_and_with_operators_of_functions(kind):
    evolution = Evolution(kind(), population=4)
    guarded, plain = evolution.ask()[0](X), evolution.ask()[0](X)
    torch.testing.assert_close(guarded, plain)


def test_an_interrupted_pass_of_a_candidate_leaves_no_guard_behind():
    net = network()
    member = Evolution(net, population=4).ask()[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    handle = member[1].register_forward_hook(interrupted)
    with pytest.raises(KeyboardInterrupt):
        member(X)
    handle.remove()
    assert net(X).shape == member(X).shape  # net computes with its own parameters


def test_a_fitness_may_compare_with_the_model_while_another_thread_has_the_member(caplog):
    net = network()
    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING):

        def compared(member):
            return pool.submit(fitness, member).result() - fitness(net)

        report = Evolution(net, population=4, sigma=0.5).step(compared)
    assert report.fitness_best > report.fitness_mean
    assert any("it counts as a constant" in line for line in caplog.messages)


def test_a_fitness_of_the_model_alone_is_refused_though_it_draws_numbers():
    net = network()
    with pytest.raises(UserError, match="nothing uses those of the module"):
        Evolution(net, population=4).step(lambda member: fitness(net) + torch.rand(()).item())


def test_a_pass_that_cannot_be_guarded_draws_the_same_numbers():
    drawn = []

    def unguarded():
        drawn.append(torch.rand(()).item())
        if _len_torch_dispatch_stack():
            raise RuntimeError("not in a mode")

    own_numbers.with_own_numbers(copied(network()), unguarded)
    assert drawn[0] == drawn[1]


def test_parameters_are_found_by_any_part_of_their_memory():
    net = network()
    watch = own_numbers.OwnNumbers(copied(net))
    for name, parameter in net.named_parameters():
        assert watch._given_name(parameter.detach().flatten()[-1:]) == name
    apart = torch.zeros(4, 3)
    assert watch._given_name(apart) is None


def _copy_of_numbers(net):
    TABLE["copy"] = net[0].weight.detach().clone()
    return lambda x: net[2](torch.tanh(x @ TABLE["copy"].T))


def _array_of_numbers(net):
    TABLE["array"] = net[0].weight.detach().numpy().copy()
    return lambda x: net[2](torch.tanh(x @ torch.from_numpy(TABLE["array"]).T))


def _list_of_numbers(net):
    Holder.net = net
    return lambda x: net[2](torch.tanh(x @ torch.tensor(Holder.net[0].weight.tolist()).T))


@pytest.mark.parametrize("kept", [_copy_of_numbers, _array_of_numbers, _list_of_numbers])
def test_a_copy_of_the_models_numbers_in_a_pass_is_told(kept, caplog):
    net = network()
    net.forward = kept(net)
    with caplog.at_level(logging.WARNING):
        Evolution(net, population=4, sigma=0.5).step(fitness)
    assert any("outside of the module and equal parameter 0.weight" in line for line in caplog.messages)


class Teaching(nn.Module):
    """A network beside a copy of its numbers in a ``holder``: a buffer, a part without gradients, a list or an array."""

    def __init__(self, holder):
        super().__init__()
        self.net, self.holder = network(), holder
        self.teacher = network().requires_grad_(False) if holder == "part" else nn.Sequential(nn.Linear(3, 4))
        self.register_buffer("first", self.net[0].weight.detach().clone() if holder == "buffer" else None)
        self.list = [self.net[0].weight.detach().clone() if holder == "list" else None]
        self.array = self.net[0].weight.detach().numpy().copy() if holder == "array" else np.zeros(1)

    def forward(self, x):
        held = {"buffer": self.first, "part": self.teacher[0].weight, "list": self.list[0], "array": self.array}[self.holder]
        own = torch.as_tensor(held).clone().to(x.dtype)
        return self.net(x) + (x @ own.T)[:, :2]


class Regular(nn.Module):
    """A layer whose parameter begins as a regular table, which its pass also computes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x):
        return (x @ (self.weight + torch.eye(3, dtype=x.dtype)))[:, :2]


def test_a_table_that_a_pass_computes_from_no_tensor_is_no_copy_of_parameters(caplog):
    with caplog.at_level(logging.WARNING):
        Evolution(Regular(), population=4, sigma=0.5).step(fitness)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("holder", ["buffer", "part", "list", "array"])
def test_a_copy_of_its_numbers_that_a_module_holds_is_its_own(holder, caplog):
    with caplog.at_level(logging.WARNING):
        Evolution(Teaching(holder), population=4, sigma=0.5).step(fitness)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _by_thread(net):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fitness, net).result()


@pytest.mark.parametrize("alone", [lambda net: -sum(map(sum, net[0].weight.tolist())), _by_thread, lambda _: 1.0])
def test_a_fitness_that_no_parameter_of_its_module_changes_is_told(alone, caplog):
    net = network()
    with caplog.at_level(logging.WARNING):
        Evolution(net, population=4, sigma=0.5).step(lambda member: alone(net))
    assert (
        sum("its result is the same with other parameters of the module that it is given" in line for line in caplog.messages)
        == 1
    )


def test_a_fitness_that_fails_with_other_parameters_is_not_called_independent(caplog):
    def of_array(member):
        weight = member[0].weight.data.numpy()
        if weight[0, 0] * sign < 0:
            raise ArithmeticError
        return float(weight.sum())

    net = network()
    sign = float(net[0].weight[0, 0])
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(1) as pool:  # torch's modes are of one thread
        Evolution(net, population=4, sigma=1e-3).step(lambda member: pool.submit(of_array, member).result())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_fitness_that_reads_lists_of_its_module_depends_on_it(caplog):
    with caplog.at_level(logging.WARNING):
        Evolution(network(), population=4, sigma=0.5).step(lambda member: -sum(map(sum, member[0].weight.tolist())))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_tensor_without_memory_has_nobodys_numbers():
    assert not own_numbers._equal(torch.ones(4, 3), torch._efficientzerotensor((4, 3)))  # a tangent of forward derivatives
    assert own_numbers._equal(torch.ones(4, 3), torch.ones(4, 3))
