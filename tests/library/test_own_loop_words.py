"""What a script may write wrongly in its first loop: arguments, optimizers, losses; and a learning rate by a function."""

import os
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import neuro_cli as neuro
from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, State
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.library import named
from neuro_cli.sampler.dense import Dense

INPUTS = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
TARGETS = (INPUTS[:, 0] > 0).long()


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Linear(4, 2)


def fitness(member: torch.nn.Module) -> torch.Tensor:
    return -F.cross_entropy(member(INPUTS), TARGETS)


class Named(neuro.algo.SNES):
    """Constructor of a user's own that passes on what it is given."""

    def __init__(self, **options) -> None:
        super().__init__(**options)


def centre(steps: int, **options) -> torch.Tensor:
    es = neuro.Evolution(network(), population=8, threads=1, **options)
    for _ in range(steps):
        es.step(fitness)
    return es.centre


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: neuro.Evolution(network(), poplation=8), r"Evolution\(\) has no argument poplation; did you mean population"),
        (lambda: neuro.ForwardGradient(network(), draw=8), r"ForwardGradient\(\) has no argument draw; did you mean draws"),
        (lambda: neuro.AskTell([1.0], minimize=True), r"AskTell\(\) has no argument minimize; did you mean minimise"),
        (lambda: neuro.Stopping(evaluation=8), r"Stopping\(\) has no argument evaluation; did you mean evaluations"),
        (lambda: neuro.sampler.LowRank(rnak=8), r"^LowRank\(\) has no argument rnak; did you mean rank"),
        (lambda: neuro.sampler.Iid(pairs=True), r"^Iid\(\) has no argument pairs; valid are antithetic"),
        (lambda: neuro.algo.SNES(sigm=8), r"^SNES\(\) has no argument sigm; did you mean sigma"),
        (lambda: Named(sigm=8), r"^SNES\(\) has no argument sigm; did you mean sigma"),
        (lambda: neuro.Bounds(-1, upper=8), r"Bounds\(\) has no argument upper; valid are high, how, low"),
    ],
)
def test_an_unknown_argument_gets_the_nearest_name(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def test_an_algorithm_of_a_script_may_call_its_arguments_as_it_likes():
    class Own(neuro.algo.SNES):
        def __init__(self, first, rest=0, /, **options):
            super().__init__(**options)
            self.given = first, rest

    class Next(neuro.algo.SNES):
        def __init__(self, first=0, *others, construct=1):
            super().__init__()
            self.given = first, construct

    assert Own(1, 2, sigma=0.5).given == (1, 2)
    assert Next(first=3, construct=4).given == (3, 4)
    with pytest.raises(TypeError, match=r"^Next\(\) has no argument others; valid are construct, first$"):
        Next(others=8)


@pytest.mark.parametrize("optimizer", ["adam", torch.optim.SGD([torch.zeros(1)], 0.1), partial(torch.optim.SGD, 1)])
def test_an_optimizer_that_is_no_class(optimizer):
    with pytest.raises(ConfigError, match=r"^optimizer=.*: must be a class such as torch\.optim\.Adam"):
        neuro.Evolution(network(), population=8, optimizer=optimizer)


def test_a_batch_in_place_of_the_loss():
    with pytest.raises(ConfigError, match=r"^loss_fn=Tensor: must be a function: backward\(loss_fn, inputs, targets\)$"):
        neuro.ForwardGradient(network(), threads=1).backward(INPUTS, TARGETS)


def test_a_module_in_half_precision():
    said = r"^model=parameters in torch\.bfloat16: must be float32; precision='bfloat16' runs the passes in half precision$"
    with pytest.raises(ConfigError, match=said):
        neuro.ForwardGradient(network().bfloat16(), threads=1)


@pytest.mark.parametrize("name", ["lr", "sigma", "population"])
def test_an_argument_is_not_set_later(name):
    es = neuro.Evolution(network(), population=8, threads=1)
    with pytest.raises(AttributeError, match=f"^{name} is an argument of Evolution"):
        setattr(es, name, 16)


def test_a_learning_rate_by_a_function_of_the_generation():
    options = {"optimizer": torch.optim.SGD, "sigma": 0.1}
    assert torch.equal(centre(3, lr=lambda generation: 0.5, **options), centre(3, lr=0.5, **options))
    assert torch.equal(centre(3, lr=lambda generation: 0.5 * (generation < 1), **options), centre(1, lr=0.5, **options))
    with pytest.raises(ConfigError, match=r"^lr\(1\)=-1: must be a number >= 0$"):
        centre(2, lr=lambda generation: -generation)
    with pytest.raises(ConfigError, match=r"^lr=.*: algo=snes has none"):
        centre(1, algo="snes", lr=lambda generation: 0.1)


def test_a_run_folder_with_such_a_learning_rate_continues(tmp_path):
    def run(folder: str, *ends: int) -> torch.Tensor:
        for end in ends:
            with neuro.Evolution(
                network(), population=8, lr=lambda g: 0.1 / (g + 1), folder=tmp_path / folder, checkpoint={"every": 1}, threads=1
            ) as es:
                while es.generation < end:
                    es.step(fitness)
        return es.centre

    assert torch.equal(run("one", 4), run("two", 2, 4))


class Half(PopulationAlgorithm):
    """Mean of the better half; ``weights`` replaces what ``combination`` returns."""

    def __init__(self, weights=None) -> None:
        self.weights = weights

    def start(self, centre, layout, population, seed) -> None:
        self._centre = centre.clone()

    @property
    def centre(self):
        return self._centre

    def ask(self, generation):
        return Proposal.around(self._centre, 0.1)

    def combination(self, generation, fitness):
        weights = (fitness > np.median(fitness)) / len(fitness)
        return Combination(weights[None], (1,)) if self.weights is None else self.weights

    def tell(self, generation, sums) -> None:
        self._centre.add_(sums[0])

    def state(self):
        return State({"centre": self._centre})

    def restore(self, state) -> None:
        self._centre.copy_(state.tensors["centre"])


class Drawn(Dense):
    """Noise of another shape than asked for."""

    def draw(self, generation, first, count, dtype):
        return torch.zeros(self.noise.size)


@pytest.mark.parametrize(
    ("parts", "error", "said"),
    [
        ({"algo": Half}, ConfigError, r"^algo=Half: give an object of it, Half\(\.\.\.\), or an option's name$"),
        (
            {"algo": Half(np.ones(8))},
            UserError,
            r"^Half\.combination: it gave ndarray; needed is Combination\(weights, moments\)",
        ),
        (
            {"algo": Half(Combination(np.ones((1, 3)), (1,)))},
            UserError,
            r"weights \(1, 3\) for moments \(1,\); .*, 8\)$",
        ),
        ({"sampler": Drawn(antithetic=True)}, UserError, r"^Drawn\.draw: .* shape \(10,\); needed is \(1, 10\)"),
    ],
)
def test_an_own_algorithm_or_sampler_that_gives_something_else(parts, error, said):
    with pytest.raises(error, match=said):
        centre(1, **parts)


def test_an_own_algorithm_by_ask_and_tell():
    search = neuro.AskTell([1.0, 1.0], algo=Half(Combination(np.ones((2, 6)), (1,))), population=6)
    with pytest.raises(UserError, match=r"it gave weights \(2, 6\) for moments \(1,\)"):
        search.tell([float(x @ x) for x in search.ask()])
    moved = centre(1, algo=Half())
    assert not torch.equal(moved, torch.cat([part.flatten() for part in network().parameters()]))


@pytest.mark.parametrize("lr", [0.1, lambda generation: 0.1])
def test_an_optimizer_with_a_rate_of_its_own_is_given_no_other(lr):
    """A number had no effect, and a function was a factor on the optimizer's rate."""
    with pytest.raises(ConfigError, match=r"^lr=.*: the optimizer has lr=0\.5 of its own: give one of the two$"):
        neuro.Evolution(network(), population=8, optimizer=partial(torch.optim.SGD, lr=0.5), lr=lr)


@pytest.mark.parametrize("kind", [np.float32, torch.tensor])
def test_a_rate_may_be_a_number_of_numpy_or_torch(kind):
    assert torch.equal(centre(2, lr=lambda generation: kind(0.25)), centre(2, lr=0.25))


def test_an_options_file_is_parsed_once_and_again_after_a_change(tmp_path, monkeypatch):
    """What a caller writes into a config is not the next one's; schedules have the length that each asks for."""
    file = tmp_path / "algo" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("_target_: a.B\nsigma: 1\nsigma_schedule: {kind: linear, generations: '${generations}'}\n")
    monkeypatch.setattr(named, "config_folder", lambda: tmp_path)
    with mock.patch.object(named.OmegaConf, "load", side_effect=named.OmegaConf.load) as read:
        first = named.node_of("algo", "mine", None)
        first["sigma_schedule"]["kind"] = first["sigma"] = "other"
        again = named.node_of("algo", "mine", None, {"sigma": 2})
        assert (again["sigma"], again["sigma_schedule"]) == (2, named.CONSTANT)
        assert named.node_of("algo", "mine", None)["sigma"] == read.call_count == 1
        assert named.node_of("algo", "mine", 7)["sigma_schedule"] == {"kind": "linear", "generations": 7}
        times = file.stat().st_mtime_ns, file.stat().st_mtime_ns
        file.write_text(file.read_text().replace("sigma: 1", "sigma: 3"))
        os.utime(file, ns=times)  # an edit in the same tick of the clock, or a copy with its time
        assert named.node_of("algo", "mine", 7)["sigma"] == 3
