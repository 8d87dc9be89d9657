"""Evolution in the user's own loop: the runner's bits, any number of ranks, ask and tell, states, errors."""

import copy
import inspect
import re
import signal
import threading
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hydra.utils import get_class
from support.configs import ALGOS, OF_ANY_FITNESS, SAMPLERS, composed
from support.thread_ranks import on_ranks
from torch import nn

import neuro_cli as neuro
from neuro_cli.core.schedule import Schedule
from neuro_cli.core.seeds import seeded
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import build, make_model
from neuro_cli.runner.config import LAYOUTS
from neuro_cli.runner.options import Options
from neuro_cli.scoring.passes.forward import CentreParameter


@pytest.fixture
def examples():
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(32, 6, generator=generator)
    return inputs, (inputs.sum(1) > 0).long()


def net(seed: int = 5) -> nn.Module:
    with seeded(seed):  # ranks are threads here, and torch has one generator for all
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


def log_likelihoods(module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(module(inputs), targets, reduction="none")


def small(sampler: str):
    return neuro.sampler.NoiseTable(size=100_000) if sampler == "noise_table" else sampler


def trained(examples, generations=4, world=None, module=None, closure=False, **options) -> torch.Tensor:
    """Centre after some generations."""
    inputs, targets = examples
    with neuro.Evolution(module or net(), world=world, population=12, threads=1, **options) as es:
        for _ in range(generations):
            if closure:
                es.step(lambda member: log_likelihoods(member, inputs, targets))
            else:
                es.step(log_likelihoods, inputs, targets)
        return es.centre


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=MNIST_10K", "precision=float32"),
        ("model=MNIST_10K", "precision=bfloat16", "algo=snes"),
        ("model=MLP_270K", "sampler=sign_flip", "layout=per_example", "population=16", "batch_size=32"),
        ("model=MNIST_10K", "sampler=low_rank", "layout=per_example", "population=16", "batch_size=16"),
    ],
)
def test_a_loop_has_the_bits_of_the_runner(overrides):
    """Both forms of fitness, on the run's own batches, give what the runner gives; a closure has no share of a batch."""
    config = composed("population=16", "batch_size=24", "threads=2", "device=cpu", *overrides)
    parts = build(Options(config), SingleProcess())
    batches = [parts.task.batch(generation, 0, config["batch_size"]) for generation in range(3)]
    for generation in range(3):
        parts.distribution.step(generation)
    wanted = parameters_sha256(parts.algo.centre)
    given = dict(override.split("=") for override in overrides)
    names = {"algo": given.get("algo", "openai_es"), "sampler": given.get("sampler", "antithetic")}
    for closure in (False, True) if config["layout"] == "shared_batch" else (False,):
        options = {key: config[key] for key in ("population", "seed", "generations", "layout", "precision", "threads")}
        with neuro.Evolution(make_model(config), **names, **options) as es:
            for batch in batches:
                if closure:
                    es.step(lambda member, batch=batch: log_likelihoods(member, batch.inputs, batch.targets))
                else:
                    es.step(log_likelihoods, batch.inputs, batch.targets)
            assert parameters_sha256(es._population.algo.centre) == wanted
            # the module itself holds the centre, in its own shapes
            other = make_model(config)
            es._population.layout.load(other, es._population.algo.centre)
            assert all(torch.equal(a, b) for a, b in zip(es.module.parameters(), other.parameters(), strict=True))
    parts.threads.close()


@pytest.mark.parametrize(
    "distribution", ["auto", "chromosome_updates", "semi_updates", "replicated", "data_parallel", neuro.distribution.SemiUpdates]
)
def test_ranks_give_the_bits_of_one_process(examples, distribution):
    def work(world, closure=False):
        chosen = distribution() if isinstance(distribution, type) else distribution
        # a script that does not seed: rank 0's initial numbers count
        return trained(
            examples, world=world, module=net(5 + world.rank), closure=closure, distribution=chosen, sampler="low_rank"
        )

    alone = trained(examples, distribution="local", sampler="low_rank")
    for size in (2, 3):
        for centre in on_ranks(size, work):
            # sums of ranks that are added up in other orders may round otherwise: semi-updates
            exact = distribution in ("auto", "chromosome_updates", "replicated")
            assert torch.equal(centre, alone) if exact else torch.allclose(centre, alone, atol=1e-5)
    if distribution == "auto":
        assert all(torch.equal(centre, alone) for centre in on_ranks(2, partial(work, closure=True)))


@pytest.mark.parametrize("algo", OF_ANY_FITNESS)
def test_ask_and_tell_have_the_bits_of_steps(examples, algo):
    inputs, targets = examples
    size = 12

    def told(world):
        with neuro.Evolution(net(), algo=algo, population=size, world=world, threads=1) as es:
            for _ in range(3):
                candidates = es.ask()
                assert len(candidates) == len(candidates.vectors) == len(es.members)
                es.tell([float(log_likelihoods(member, inputs, targets).double().sum() / 32) for member in candidates])
            return es.centre

    # members one by one: those of a batch share passes, and round otherwise
    stepped = trained(examples, 3, closure=True, algo=algo, distribution="replicated")
    assert torch.equal(told(SingleProcess()), stepped)
    assert all(torch.equal(centre, stepped) for centre in on_ranks(3, told))


def test_candidates_of_images_have_the_order_of_the_parameters():
    # a step with images chooses weights that lie channels-last in the flat vector
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, (1, 2)), nn.Flatten(), nn.Linear(2 * 4 * 3, 2))
    inputs, targets = torch.randn(4, 2, 6, 6), torch.randn(4, 2)
    with neuro.Evolution(model, sampler="low_rank", population=4, threads=1) as es:
        es.step(lambda member, x, y: -(member(x) - y).square().mean(1), inputs, targets)
        candidates = es.ask()
        assert candidates[0][0].weight.is_contiguous(memory_format=torch.channels_last)
        vectors = candidates.vectors
        for vector, member in zip(vectors, candidates, strict=True):
            assert torch.equal(vector, torch.cat([parameter.reshape(-1) for parameter in member.parameters()]))
        es.tell([0.0, 1.0, 3.0, 2.0])
        assert torch.equal(es.best.vector, vectors[2])


def test_candidates_are_the_centre_and_its_perturbations():
    es = neuro.Evolution(torch.arange(5.0), sampler="antithetic", population=6, sigma=0.5)
    candidates = es.ask()
    vectors = candidates.vectors
    assert torch.equal(vectors, torch.stack([member() for member in candidates]))
    assert torch.allclose(vectors[::2] + vectors[1::2], 2 * torch.arange(5.0).expand(3, 5), atol=1e-5)
    noise = es._sampler.explicit(0, 1)
    assert torch.allclose(vectors[2], torch.arange(5.0) + 0.5 * noise)
    assert [type(member) for member in candidates[:2]] == [type(es.module)] * 2
    es.tell([0.0, 1.0] * 3)
    with pytest.raises(neuro.UserError, match="an earlier generation"):
        candidates[0]


@pytest.mark.parametrize("size", [1, 3])
def test_the_best_candidate_is_that_of_all_generations_and_ranks(size):
    def searched(world):
        es = neuro.Evolution(torch.ones(2), population=8, sigma=0.3, lr=0.3, minimise=True, world=world)
        assert es.best is None
        seen = []
        for generation in range(6):
            vectors = es.ask().vectors
            losses = (vectors**2).sum(1)
            report = es.tell(losses)
            seen.append((losses, vectors, generation, report.fitness_best))
        other = neuro.Evolution(torch.ones(2), population=8, sigma=0.3, lr=0.3, minimise=True, world=world)
        other.load_state_dict(es.state_dict())
        assert other.best.fitness == es.best.fitness
        return seen, es.best, es.centre

    results = on_ranks(size, searched) if size > 1 else [searched(SingleProcess())]
    lowest = min((float(losses.min()), generation) for seen, _, _ in results for losses, _, generation, _ in seen)
    vectors = [rows[losses.argmin()] for seen, _, _ in results for losses, rows, at, _ in seen if (losses.min(), at) == lowest]
    for seen, best, centre in results:
        assert (best.fitness, best.generation) == lowest
        assert torch.equal(best.vector, vectors[0])
        assert min(row[3] for row in seen) == pytest.approx(best.fitness)  # reports have the user's sign
        assert (centre**2).sum() < 2.0


def test_step_minimises_a_loss_of_each_example(examples):
    inputs, targets = examples
    maximised, minimised = (neuro.Evolution(net(), population=12, threads=1, minimise=minimise) for minimise in (False, True))
    for _ in range(2):
        up = maximised.step(log_likelihoods, inputs, targets)
        down = minimised.step(lambda *given: -log_likelihoods(*given), inputs, targets)
    assert torch.equal(maximised.centre, minimised.centre)
    assert (down.fitness_mean, down.fitness_best) == (-up.fitness_mean, -up.fitness_best)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_state_goes_on_with_the_same_bits(examples, sampler, layout, tmp_path):
    """Saved and read as torch users do, and on another number of ranks."""
    inputs, targets = (rows[:24] for rows in examples)
    made = partial(neuro.Evolution, population=12, threads=1, distribution="replicated", layout=layout)
    es = made(net(), sampler=small(sampler), algo="snes")
    for _ in range(2):
        es.step(log_likelihoods, inputs, targets)
    torch.save(es.state_dict(), tmp_path / "state.pt")
    for _ in range(2):
        es.step(log_likelihoods, inputs, targets)

    def resumed(world):
        other = made(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)), sampler=small(sampler), algo="snes", world=world)
        other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        assert other.generation == 2
        for _ in range(2):
            other.step(log_likelihoods, inputs, targets)
        return other.centre

    for centre in on_ranks(2, resumed):
        assert torch.equal(centre, es.centre)


def test_a_state_before_the_first_generation_holds_the_module(examples):
    inputs, targets = examples
    es = neuro.Evolution(net(), population=12, threads=1)
    state = es.state_dict()
    es.step(log_likelihoods, inputs, targets)
    once = es.centre
    es.load_state_dict(state)
    assert es.generation == 0
    es.step(log_likelihoods, inputs, targets)
    assert torch.equal(es.centre, once)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 2}, "seed=2: the saved state has 1"),
        ({"population": 14}, "population=14: the saved state has 12"),
        ({"algo": "snes"}, "algo=SNES: the saved state has OpenAIES"),
        ({"sampler": neuro.sampler.LowRank(rank=2)}, "rank=2.*the saved state has LowRank.*rank=1"),
    ],
)
def test_a_state_of_another_evolution_is_refused(examples, changed, said):
    es = neuro.Evolution(net(), population=12, sampler="low_rank", threads=1)
    other = neuro.Evolution(net(), **{"population": 12, "sampler": "low_rank", "threads": 1, **changed})
    with pytest.raises(neuro.ConfigError, match=said):
        other.load_state_dict(es.state_dict())


def test_batches_may_differ_in_length_and_images_get_the_format_that_they_take():
    class Convolution(nn.Module):
        def __init__(self, flat):
            super().__init__()
            self.convolution, self.head, self.flat = nn.Conv2d(2, 3, 3), nn.Linear(48, 2), flat

        def forward(self, x):
            hidden = torch.relu(self.convolution(x))
            return self.head(self.flat(hidden))

        def own_method(self):
            return self.head.out_features

    for flat, channels_last in ((lambda x: x.flatten(1), True), (lambda x: x.view(len(x), -1), False)):
        es = neuro.Evolution(Convolution(flat), population=8)
        for size in (6, 4):
            x, y = torch.randn(size, 2, 6, 6), torch.arange(size) % 2
            report = es.step(log_likelihoods, x, y)
            assert report.loss is None
            es.step(lambda member, x=x, y=y: -F.cross_entropy(member(x), y) + 0.0 * member.own_method())
        assert es.generation == 4
        assert (es._task.memory_format is torch.channels_last) == channels_last


@pytest.mark.parametrize(
    ("fitness", "error", "said"),
    [
        (lambda member: 1 / 0, ZeroDivisionError, "division by zero"),
        (lambda member: float("nan"), neuro.CandidateError, "fitness of member 0 in generation 1 is nan"),
        (lambda member: member(torch.zeros(2, 6)), neuro.UserError, "gave a tensor of shape 2x2; a number, or"),
        (lambda member: "high", neuro.UserError, "gave str; a number"),
        (3, neuro.ConfigError, "fitness=3: must be a function"),
    ],
)
def test_a_bad_fitness_is_one_error_on_every_rank_and_changes_nothing(examples, fitness, error, said):
    inputs, targets = examples

    def work(world):
        es = neuro.Evolution(net(), population=12, threads=1, world=world)
        if world.size > 1 and callable(fitness):  # on one rank only
            bad = fitness if world.rank == 1 or error is neuro.CandidateError else (lambda member: 0.0)
        else:
            bad = fitness
        before = es.centre
        with pytest.raises(Exception) as caught:
            es.step(bad)
        assert es.generation == 0
        assert torch.equal(es.centre, before)
        es.step(log_likelihoods, inputs, targets)
        return caught.value, es.centre

    alone, centre = work(SingleProcess())
    assert isinstance(alone, error)
    assert str(alone).startswith(said) or said in str(alone)
    for raised, other in on_ranks(2, work):
        assert isinstance(raised, neuro.UserError)
        assert said in str(raised)
        assert torch.allclose(other, centre)


@pytest.mark.parametrize("sampler", ["antithetic", "iid", "low_rank", "sign_flip"])
def test_closures_share_a_forward_pass(examples, sampler, caplog):
    """What single members give but for rounding; the same bits on any number of ranks, whatever their shares of a chunk are."""
    made = partial(trained, examples, closure=True, sampler=sampler)
    shared = made(shared_pass=True)
    torch.testing.assert_close(shared, made(shared_pass=False), rtol=1e-3, atol=1e-5)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    for size in (2, 3):
        for centre in on_ranks(size, lambda world: made(world=world, shared_pass=True, distribution="replicated")):
            assert torch.equal(centre, shared)


@pytest.mark.parametrize(
    "output",
    [lambda member, x: member.eval()(x), lambda member, x: torch.func.jvp(member, (x,), (x,))[1]],
    ids=["mode", "derivative"],
)
def test_a_closure_with_a_mode_or_a_derivative_of_its_own_is_scored_by_single_members(examples, output, caplog):
    def centre(shared_pass):
        with neuro.Evolution(nn.Sequential(nn.BatchNorm1d(6), net()), population=12, threads=1, shared_pass=shared_pass) as es:
            es.step(lambda member: -output(member, examples[0]).square().mean())
            return es.centre

    assert torch.equal(centre(True), centre(False))
    assert "uses more of its member than outputs" in caplog.text


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_a_closure_that_asks_for_a_parameters_shape_or_device_shares_a_pass(examples, sampler, caplog):
    inputs, targets = examples
    module, classes = net(), set()

    def fitness(member):
        weight = next(member.parameters())
        classes.add(type(weight))
        loss = log_likelihoods(member, inputs.to(weight.device), targets).mean()
        return loss / weight.shape[0] + weight.numel() * (loss > 0)

    def centre(shared_pass):
        with neuro.Evolution(copy.deepcopy(module), population=12, threads=1, sampler=sampler, shared_pass=shared_pass) as es:
            es.step(fitness)
            es.step(fitness)
            assert {type(parameter) for candidate in es.ask() for parameter in candidate.parameters()} == {nn.Parameter}
            return es.centre

    torch.testing.assert_close(centre(True), centre(False), rtol=1e-4, atol=1e-6)
    assert CentreParameter in classes
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def caught(use):
    try:
        return use()
    except Exception:
        return 0.0


@torch.jit.script
def squares(weight: torch.Tensor) -> torch.Tensor:
    return weight.square().sum()


LATER = {
    "square uses": lambda member, _: 1e-6 * member[0].weight.square().sum(),
    "norm uses": lambda member, _: caught(lambda: 1e-4 * member[0].weight.norm()),
    "__setitem__ uses": lambda member, _: member[0].weight.__setitem__(0, 0.5) or 0.0,
    "__repr__ uses": lambda member, _: 1e-6 * len(repr(member[0].weight)),
    "untyped_storage uses": lambda member, _: 1e-6 * member[0].weight.untyped_storage()[3],
    # what torch does not announce to a class of parameters
    "detach.default uses": lambda member, _: 1e-4 * float(torch.tensor(member[0].weight).square().sum()),
    "alias.default uses": lambda member, _: 1e-4 * (torch.FloatTensor(member[0].weight) > 0.3).sum(),
    "TorchScript": lambda member, _: 1e-4 * squares(member[0].weight),
    "__array__ uses": lambda member, _: 1e-4 * np.abs(np.asarray(member[0].weight)).sum(),
    "tolist uses": lambda member, _: 1e-4 * caught(lambda: sum(map(sum, member[0].weight.tolist()))),
    "inputs of their own": lambda member, x: caught(lambda: 1e-4 * member(x + 1).square().sum()),
}


@pytest.mark.parametrize("use", LATER)
def test_a_closure_that_later_uses_a_parameter_is_scored_by_single_members(examples, caplog, use):
    """The comparison of the first generation has seen none of it, so the parameters themselves refuse."""
    inputs, targets = examples

    def centre(shared_pass):
        generation = 0

        def fitness(member):
            score = log_likelihoods(member, inputs, targets).mean()
            with torch.no_grad():
                return score - (LATER[use](member, inputs) if generation == 2 else 0.0)

        with neuro.Evolution(net(), population=12, threads=1, shared_pass=shared_pass) as es:
            for generation in range(4):  # noqa: B007 (the closure reads it)
                es.step(fitness)
            return es.centre

    torch.testing.assert_close(centre(True), centre(False), rtol=1e-4, atol=1e-6)
    assert re.search(f"scored one by one, slower: .*{use}", caplog.text)


def test_closures_of_the_same_code_that_enclose_others_are_each_compared(examples):
    inputs, targets = examples
    penalties = {"none": lambda member: 0.0, "hidden": lambda member: hidden_square(member, inputs)}

    def made(kind):
        return lambda member: log_likelihoods(member, inputs, targets).mean() - 0.1 * penalties[kind](member)

    def centre(shared_pass):
        with neuro.Evolution(net(), population=12, threads=1, shared_pass=shared_pass) as es:
            for kind in penalties:
                es.step(made(kind))
            return es.centre

    torch.testing.assert_close(centre(True), centre(False), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared_pass", [True, False])
def test_a_mode_that_a_closure_sets_is_not_that_of_the_next_closure(examples, shared_pass):
    inputs, targets = examples

    def centre(evaluated):
        torch.manual_seed(0)
        module = nn.Sequential(nn.BatchNorm1d(6), net())
        with neuro.Evolution(module, population=12, threads=1, shared_pass=shared_pass) as es:
            es.step(lambda member: log_likelihoods(evaluated(member), inputs, targets).mean())
            es.step(lambda member: log_likelihoods(member, inputs, targets).mean())
            return es.centre

    assert torch.equal(centre(lambda member: member.eval()), centre(lambda member: copy.deepcopy(member).eval()))


def test_a_compiled_module_is_trained_without_a_compilation_for_each_copy(examples, caplog):
    compiled = torch.compile(net(), backend="eager")
    centre = trained(examples, module=compiled, closure=True)
    assert torch.equal(centre, trained(examples, module=net(), closure=True))
    assert torch.equal(torch.cat([parameter.flatten() for parameter in compiled.parameters()]), centre)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def hidden_square(member, x):
    """The mean square of hidden activations, as a hook sees them where the member itself is called."""
    seen = []
    with member[0].register_forward_hook(lambda part, given, made: seen.append(made)):
        member(x)
    return sum(made.square().mean() for made in seen)


@pytest.mark.parametrize(
    ("penalty", "reason"),
    [
        (lambda member, x: -0.1 * member[0].weight.square().sum(), "square uses parameter 0.weight outside"),
        (lambda member, x: member[2](torch.relu(member[0](x))).mean(), "linear uses parameter 0.weight outside"),
        (lambda member, x: member(x + member[0].bias.detach()[0]).mean(), "detach uses parameter 0.bias outside"),
        (lambda member, x: member(torch.randn(4, 6, generator=torch.Generator().manual_seed(1))).mean(), "inputs of their own"),
        (hidden_square, "uses more of its member than outputs"),
    ],
)
def test_a_closure_that_cannot_share_a_pass_is_scored_by_single_members(examples, penalty, reason, caplog):
    """Nothing that a member's own parameters would change is answered by those of the centre."""
    inputs, targets = examples

    def fitness(member):
        return log_likelihoods(member, inputs, targets).mean() + penalty(member, inputs)

    def centre(world=None, **options):
        with neuro.Evolution(net(), population=12, threads=1, world=world, sampler="low_rank", **options) as es:
            for _ in range(3):
                es.step(fitness)
            return es.centre

    single = centre(shared_pass=False)
    assert torch.equal(centre(shared_pass=True), single)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 1
    assert said[0].startswith("members are scored one by one, slower: ")
    assert reason in said[0]
    for other in on_ranks(2, lambda world: centre(world, shared_pass=True, distribution="replicated")):
        assert torch.equal(other, single)


def test_ranks_on_unlike_examples_are_refused(examples):
    inputs, targets = examples

    def work(world, closure):
        es = neuro.Evolution(net(), population=12, threads=1, world=world)
        order = torch.randperm(32, generator=torch.Generator().manual_seed(world.rank))
        x, y = inputs[order], targets[order]
        with pytest.raises(neuro.UserError, match="ranks 0 and 1 scored their members on different examples"):
            es.step(*((lambda member: log_likelihoods(member, x, y),) if closure else (log_likelihoods, x, y)))
        # where each member has inputs of its own, as in an environment, nothing is compared
        es.step(lambda member: float(member(torch.full((1, 6), float(member[0].bias[0]))).sum()))
        return True

    for closure in (False, True):
        assert on_ranks(2, partial(work, closure=closure)) == [True, True]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampler": "sgn_flip"}, "sampler=sgn_flip: no such option; did you mean sign_flip"),
        ({"sampler": neuro.algo.SNES}, "must make a neuro_cli.sampler.base.Estimator"),
        ({"algo": "sgd"}, "algo=sgd: is an option of neuro train alone; here are ars, cma_es, "),
        ({"algo": "snes", "lr": 0.1}, "lr=0.1: algo=snes has none; valid are layers, learning_rate, "),
        ({"sigma": -1.0}, "algo.sigma=-1.0: must be a number > 0"),
        ({"population": 7}, "population=7: antithetic pairs need an even population"),
        ({"distribution": "logits_tree"}, "distribution=logits_tree: is an option of neuro train alone; here are auto, "),
        ({"layout": "mine"}, "layout=mine: must be one of shared_batch, per_example"),
        ({"seed": 1.5}, "seed=1.5: must be an integer"),
        ({"algo": neuro.algo.OpenAIES(), "sigma": 0.1}, r"sigma=0.1: give it to OpenAIES\(\.\.\.\), or algo= by its name"),
    ],
)
def test_wrong_options_have_the_command_lines_message(options, said):
    with pytest.raises(neuro.ConfigError, match=said) as error:
        neuro.Evolution(net(), **options)
    assert isinstance(error.value, ValueError)


def test_parts_serve_one_evolution():
    sampler = neuro.sampler.SignFlip(sides="outputs")
    es = neuro.Evolution(net(), sampler=sampler, population=4)
    with pytest.raises(neuro.ConfigError, match="sampler=SignFlip: another Evolution uses it"):
        neuro.Evolution(net(), sampler=sampler, population=4)
    del es
    neuro.Evolution(net(), sampler=sampler, population=4)


def test_nothing_of_the_process_is_changed(examples):
    """Threads, signal handlers, generators and gradients are the user's."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
        drawn, threads = torch.random.get_rng_state(), threading.active_count()
        torch.manual_seed(11)
        drawn = torch.random.get_rng_state()
        model = nn.Sequential(nn.Linear(6, 2))
        torch.random.set_rng_state(drawn)
        with neuro.Evolution(model, population=12, threads=2) as es:
            es.step(log_likelihoods, *examples)
            es.tell([0.0] * len(es.ask()))
            es.load_state_dict(es.state_dict())
            assert es.module is model
        assert torch.get_num_threads() == 2
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == handlers
        assert torch.equal(torch.random.get_rng_state(), drawn)
        assert threading.active_count() == threads
        assert model(torch.zeros(1, 6)).requires_grad
        assert not model._forward_pre_hooks
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("group", ["sampler", "algo"])
def test_objects_have_the_defaults_of_conf(group):
    """``neuro.algo.SNES()`` is ``algo=snes``, but for schedules, which need to know the number of generations."""
    options = SAMPLERS if group == "sampler" else ALGOS
    for name in options:
        node = composed(f"{group}={name}")[group]
        if not node["_target_"].startswith(f"neuro_cli.{group}.{name}."):
            continue  # other settings of another option's class
        defaults = inspect.signature(get_class(node["_target_"])).parameters
        for key, value in node.items():
            if key == "_target_" or "schedule" in key or name == "antithetic":
                continue
            default = defaults[key].default
            if key == "optimizer":
                assert default.keywords == {"lr": value["lr"]}
                assert default.func is get_class(value["_target_"])
            else:
                assert default == value, (name, key)
        assert all(isinstance(p.default, Schedule) for key, p in defaults.items() if "schedule" in key)
