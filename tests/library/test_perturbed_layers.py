"""Perturbed layers alone: one pass answers for the members, each with parameters of its own, and combine sums their noise."""

import logging

import numpy as np
import pytest
import torch
from support.configs import SAMPLERS
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.errors import UserError

MEMBERS, EXAMPLES, SIGMA = 8, 3, 0.1


def net(image: bool) -> tuple[nn.Module, tuple[int, ...]]:
    if image:
        return nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)), (2, 8, 8)
    return nn.Sequential(nn.Linear(10, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3)), (10,)


@pytest.mark.parametrize("image", [False, True], ids=["features", "images"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_member_answers_with_its_own_parameters(name, image):
    """Against torch's functional call with the member's noise, which combine gives for a weight of 1 on that member."""
    model, shape = net(image)
    sampler = neuro.sampler.NoiseTable(size=100_000) if name == "noise_table" else name
    parameters = dict(model.named_parameters())
    rows = torch.randn(MEMBERS * EXAMPLES, *shape)
    with neuro.perturbed(model, sampler, MEMBERS, sigma=SIGMA, seed=4, generation=2) as noise:
        outputs = model(rows)
    steps = [noise.combine(np.eye(MEMBERS)[member]) for member in range(MEMBERS)]
    weights = np.linspace(-1, 1, MEMBERS)
    for key, total in noise.combine(weights).items():  # the sum of the members' noise
        wanted = sum(float(weight) * step[key] for weight, step in zip(weights, steps, strict=True))
        torch.testing.assert_close(total, wanted, rtol=1e-4, atol=1e-5)
    assert all(step[key].shape == parameter.shape for step in steps for key, parameter in parameters.items())
    sampler = neuro.sampler.NoiseTable(size=100_000) if name == "noise_table" else name
    with neuro.perturbed(model, sampler, MEMBERS, sigma=SIGMA, seed=4, generation=2, shared=True):
        shared = model(rows[:EXAMPLES])
    with torch.no_grad():
        for member, step in enumerate(steps):
            own = {key: parameter + SIGMA * step[key] for key, parameter in parameters.items()}
            part = slice(member * EXAMPLES, (member + 1) * EXAMPLES)
            torch.testing.assert_close(outputs[part], torch.func.functional_call(model, own, (rows[part],)), rtol=1e-4, atol=1e-5)
            wanted = torch.func.functional_call(model, own, (rows[:EXAMPLES],))
            torch.testing.assert_close(shared[part], wanted, rtol=1e-4, atol=1e-5)
    # outside, the module is the user's again
    assert torch.is_grad_enabled()
    assert model(rows).requires_grad
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_what_does_not_fit_is_said_in_one_line_and_leaves_nothing_behind():
    model, _ = net(False)
    with neuro.perturbed(model, "iid", MEMBERS) as noise:
        with pytest.raises(neuro.UserError, match="perturbed: 9 rows for 8 members"):
            model(torch.randn(9, 10))
        with pytest.raises(neuro.UserError, match="combine: weights of shape"):
            noise.combine([1.0])
        assert model(torch.randn(8, 10)).shape == (8, 3)

    with pytest.raises(neuro.ConfigError, match="population=7: antithetic pairs need"):
        neuro.perturbed(model, neuro.sampler.LowRank(antithetic=True), 7)
    with pytest.raises(neuro.ConfigError, match="new noise for every 2 directions"):
        neuro.perturbed(model, neuro.sampler.SignFlip(directions_per_noise=2), MEMBERS)


def test_a_parameter_too_large_to_be_written_out_is_named_once_and_members_answer_one_by_one(caplog):
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.zeros(600, 500))

        def forward(self, x):
            return x + self.places[: x.shape[1]]

    large, x = Large(), torch.randn(8, 2, 500)
    for generation in range(2):
        with neuro.perturbed(large, "low_rank", MEMBERS, generation=generation, sigma=SIGMA) as noise:
            outputs = large(x)
    wanted = torch.stack([part + SIGMA * noise.combine(row)["places"][:2] for part, row in zip(x, np.eye(MEMBERS), strict=True)])
    torch.testing.assert_close(outputs, wanted)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    use = "add uses parameter places of 300,000 values: at most 262,144 in such a use"
    assert said == f"perturbed: members answer one by one, slower: Large: {use}"
    assert large(torch.ones(1, 2, 500)).requires_grad
    assert "forward" not in vars(large)


def test_what_a_module_cannot_do_is_a_user_error_that_names_it():
    class Bad(nn.Linear):
        def forward(self, x):
            raise IndexError("no such row\n  with a long story")

    class Alone(nn.Linear):
        def forward(self, x):
            return torch.distributions.Normal(super().forward(x), 1.0)

    for bad, message in (
        (Bad(3, 2), "^perturbed: Bad: no such row$"),
        (Alone(3, 2), "^perturbed: Alone: its output is a Normal without tensors$"),
    ):
        with neuro.perturbed(bad, "low_rank", MEMBERS), pytest.raises(neuro.UserError, match=message):
            bad(torch.randn(8, 3))
    net = nn.Linear(3, 2)
    with neuro.perturbed(net, "iid", MEMBERS), pytest.raises(neuro.UserError, match="no tensor with rows for 8 members"):
        net()
    with pytest.raises(neuro.ConfigError, match=r"^sampler=activation: its noise is on activations"):
        neuro.perturbed(net, "activation", MEMBERS)
    with pytest.raises(neuro.UserError, match=r"^model: parameter 0.weight has no size yet .*: call the module once"):
        neuro.perturbed(nn.Sequential(nn.LazyLinear(2)), "iid", MEMBERS)


def test_an_output_that_is_no_tensor_is_refused_where_it_is_used():
    class Cached(nn.Linear):
        def forward(self, x):
            return {"logits": super().forward(x), "cache": iter(())}

    net = Cached(3, 2)
    with neuro.perturbed(net, "low_rank", MEMBERS):
        made = net(torch.randn(8, 3))
    assert made["logits"].shape == (8, 2)
    for use in (len, bool, list, lambda cache: cache.layers, lambda cache: cache[0]):
        with pytest.raises(neuro.UserError, match="an output that is a tuple_iterator is not there"):
            use(made["cache"])


def test_random_numbers_of_dropout_are_drawn_and_no_reason_to_step_aside(caplog):
    net = nn.Sequential(nn.Linear(10, 64), nn.Dropout(0.5), nn.Linear(64, 3))
    with neuro.perturbed(net, "low_rank", MEMBERS):
        x = torch.randn(MEMBERS, 10)
        assert not torch.equal(net(x), net(x))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_modes_and_shapes_are_tried_anew(caplog):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x) if self.training else self.a(x) * (1 + self.a(x).mean(0))

    net = Two()
    with neuro.perturbed(net, "low_rank", MEMBERS, sigma=SIGMA) as noise:
        x = torch.randn(16, 4)
        net(x)
        net.eval()
        outputs = net(x)
    for member, row in enumerate(np.eye(MEMBERS)):
        own = {name: value + SIGMA * noise.combine(row)[name] for name, value in net.named_parameters()}
        rows = slice(2 * member, 2 * member + 2)
        torch.testing.assert_close(outputs[rows], torch.func.functional_call(net, own, (x[rows],)), rtol=1e-4, atol=1e-5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("sparse", ["to_sparse", "to_sparse_csr"])
def test_a_sparse_buffer_is_shared_by_the_members(sparse):
    """As the links of a graph."""

    class Linked(nn.Linear):
        def __init__(self):
            super().__init__(4, 3)
            self.register_buffer("links", getattr(torch.eye(4).roll(1, 0), sparse)())

        def forward(self, x):
            return super().forward((self.links @ x.T).T)

    net, x = Linked(), torch.randn(MEMBERS, 4)
    with neuro.perturbed(net, "low_rank", MEMBERS, sigma=SIGMA) as noise, torch.no_grad():
        outputs = net(x)
    for member, row in enumerate(np.eye(MEMBERS)):
        own = {name: value + SIGMA * noise.combine(row)[name] for name, value in net.named_parameters()}
        wanted = torch.func.functional_call(net, own, (x[member : member + 1],))
        torch.testing.assert_close(outputs[member : member + 1], wanted, rtol=1e-4, atol=1e-5)
    assert torch.equal(net.links.to_dense(), torch.eye(4).roll(1, 0))


def test_settings_that_refuse_to_be_written_to_stay():
    """As those of diffusers, which refuse an update and not a clear: the module was left without settings."""

    class Frozen(dict):
        def update(self, *_: object, **__: object) -> None:
            raise TypeError("frozen")

    net = nn.Linear(3, 2)
    net.settings = Frozen(width=3)
    with neuro.perturbed(net, "low_rank", 4, sigma=0.1), torch.no_grad():
        net(torch.ones(8, 3))
    assert net.settings == {"width": 3}


def test_a_cache_that_the_user_filled_serves_no_member_and_stays():
    class Caches(nn.Linear):
        def __init__(self):
            super().__init__(4, 3)
            self.bias_cache = {}

        def forward(self, x):
            if "table" not in self.bias_cache:
                self.bias_cache["table"] = self.bias * 2
            return x @ self.weight.T + self.bias_cache["table"]

    net, x = Caches(), torch.randn(MEMBERS, 4)
    net(x)
    table = net.bias_cache["table"]
    with neuro.perturbed(net, "low_rank", MEMBERS, sigma=SIGMA) as noise:
        outputs = net(x)
    assert net.bias_cache["table"] is table
    for member, row in enumerate(np.eye(MEMBERS)):
        weight, bias = (value + SIGMA * noise.combine(row)[name] for name, value in net.named_parameters())
        torch.testing.assert_close(outputs[member], x[member] @ weight.T + 2 * bias, rtol=1e-4, atol=1e-5)


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(3, 2), nn.Linear(3, 2)

    def encode(self, x: Tensor) -> Tensor:
        return self.image(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x)


def test_another_method_than_forward_is_refused():
    """``encode_image`` of open_clip gave the outputs of the module without noise, for all members."""
    module, x = Towers(), torch.ones(4, 3)
    before = module.encode(x)
    with neuro.perturbed(module, "low_rank", members=4):
        first = module(x)
        with pytest.raises(UserError, match=r"^perturbed: image of Towers is called outside of the forward pass of Towers"):
            module.encode(x)
        assert torch.equal(module(x), first)
    assert (first - before).abs().max() > 1e-4
    assert torch.equal(module.encode(x), before)
    assert not module.image._forward_pre_hooks
