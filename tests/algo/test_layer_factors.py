"""Step sizes and learning rates of single parameters (``algo.layers``): definitions, and many members in one pass."""

from functools import partial

import numpy as np
import pytest
import torch
from algo_lab import noise_of, told
from support.configs import SAMPLERS, composed, reuses_noise, sampler_of
from torch import nn

from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.clipup import ClipUp
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.step_size.layer_factors import RATE, Layers, inputs_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.seeds import seeded
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.library.named import option
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.members import MemberScorer

FACTORS = {"*.weight": {"sigma": 2.0, "lr": 0.5}, "2.*": {"lr": 3.0}, "0.bias": {"sigma": 0.25}}
SIGMAS = {"*.weight": {"sigma": 2.0}, "0.bias": {"sigma": 0.25}}


def network() -> nn.Sequential:
    with seeded(1):
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def started(layers: dict) -> Layers:
    made = Layers(layers)
    made.start(ParameterLayout(network()))
    return made


def by_name(flat: torch.Tensor) -> dict[str, float]:
    """The one value of each parameter."""
    places = ParameterLayout(network()).places
    return {place.name: flat[place.start : place.stop].unique().item() for place in places}


def test_the_last_pattern_that_fits_counts_for_each_of_the_two():
    layers = started(FACTORS)
    assert by_name(layers.spread(torch.device("cpu"))) == {"0.weight": 2.0, "0.bias": 0.25, "2.weight": 2.0, "2.bias": 1.0}
    assert by_name(layers.spread(torch.device("cpu"), RATE)) == {"0.weight": 0.5, "0.bias": 1.0, "2.weight": 3.0, "2.bias": 3.0}
    assert layers.mean_sigma == pytest.approx((12 * 2 + 4 * 0.25 + 8 * 2 + 2) / 26)


@pytest.mark.parametrize("power", [1.0, 1.5])
@pytest.mark.parametrize("optimizer", [partial(torch.optim.SGD, lr=3.0, momentum=0.5), partial(torch.optim.Adam, lr=0.1)])
def test_by_inputs_optimizes_each_parameter_times_the_inputs_of_its_layer(optimizer, power):
    """The same steps as those of a network whose layers divide by a power of their inputs, whatever the optimizer."""
    layout = ParameterLayout(network())
    centre, inputs = layout.flatten(network()), torch.tensor([3.0] * 16 + [4.0] * 10) ** power
    plain, divided = OpenAIES(0.6, optimizer=optimizer), OpenAIES(0.6, optimizer=optimizer, by_inputs=power)
    plain.start(centre * inputs, layout, 8, 1)
    divided.start(centre.clone(), layout, 8, 1)
    for generation in range(3):
        proposal = divided.ask(generation)
        torch.testing.assert_close(proposal.scale, 0.6 / inputs)
        assert divided.sigma_at(generation) == pytest.approx(0.6 * float((1 / inputs).mean()))
        estimate = torch.sin(torch.arange(26.0) + generation)  # of a derivative, in units of sigma
        plain.tell(generation, estimate[None].clone())
        divided.tell(generation, estimate[None].clone())
    torch.testing.assert_close(divided.centre * inputs, plain.centre)


def test_inputs_of_a_bias_are_those_of_its_weight():
    with seeded(1):
        module = nn.ModuleDict({"convolution": nn.Conv2d(3, 4, 5), "norm": nn.LayerNorm(7), "gru": nn.GRUCell(6, 2)})
    counts = {"convolution": 75, "norm": 1}
    found = inputs_of(ParameterLayout(module))
    assert all(found[f"{name}.{kind}"] == count for name, count in counts.items() for kind in ("weight", "bias"))
    assert {name: found[f"gru.{name}"] for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")} == {
        "weight_ih": 6,
        "bias_ih": 6,
        "weight_hh": 2,
        "bias_hh": 2,
    }


def test_without_factors_nothing_is_made():
    layers = started({})
    assert layers.spread(torch.device("cpu")) is None
    assert layers.rates is None
    assert layers.mean_sigma == 1.0
    assert layers.around(torch.zeros(26), 0.5).layers is None


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({"1.*": {"lr": 2}}, r"algo\.layers\.1\.\*=\{'lr': 2\.0\}: it fits no parameter; the network has 0\.weight, 0\.bias"),
        ({"*": {"rate": 2}}, r"algo\.layers\.\*\.rate=2: must be sigma or lr"),
        ({"*": {"sigma": 0}}, r"algo\.layers\.\*\.sigma=0: must be a number > 0"),
        ({"*": {"lr": -1}}, r"algo\.layers\.\*\.lr=-1: must be a number >= 0"),
        ({"*": 3}, r"algo\.layers\.\*=3: must be \{sigma: FACTOR, lr: FACTOR\}"),
        ({"*": {}}, r"algo\.layers\.\*=\{\}: must be"),
        ([1], r"algo\.layers=\[1\]: must be a mapping"),
    ],
)
def test_bad_factors_name_the_key(layers, message):
    with pytest.raises(ConfigError, match=message):
        started(layers)


def test_a_step_is_the_published_one_with_factors():
    """g = 1/(P sigma_j) sum u_i eps_ij for parameter j of step size sigma_j, and a learning rate of its own."""
    population, sigma, rate = 6, 0.2, 0.5
    algo = OpenAIES(sigma, partial(torch.optim.SGD, lr=rate), "raw", layers=FACTORS)
    layout = ParameterLayout(network())
    start = layout.flatten(network())
    algo.start(start.clone(), layout, population, 3)
    noise = np.random.default_rng(0).standard_normal((population, 26))
    fitness = np.arange(6.0) ** 2
    scale, rates = (started(FACTORS).spread(torch.device("cpu"), kind).double().numpy() for kind in ("sigma", RATE))
    np.testing.assert_allclose(algo.ask(0).scale, sigma * scale, rtol=1e-6)
    algo.tell(0, torch.from_numpy(algo.combination(0, fitness).weights @ noise).float())
    expected = start.double().numpy() + rate * rates * (fitness @ noise) / (population * sigma * scale)
    np.testing.assert_allclose(algo.centre.numpy(), expected, rtol=1e-5)


def test_clipup_takes_all_groups_for_one_step():
    first, second, still = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    optimizer = ClipUp([{"params": [first]}, {"params": [second], "lr": 0.5}, {"params": [still], "lr": 0.0}], lr=1.0)
    for _ in range(5):
        before = [p.detach().clone() for p in (first, second)]
        for parameter in (first, second, still):
            parameter.grad = torch.tensor([-3.0, -4.0])
        optimizer.step()
    step, half = (p.detach() - b for p, b in zip((first, second), before, strict=True))
    torch.testing.assert_close(step, 2 * half)
    assert float((step.square().sum() + (2 * half).square().sum()).sqrt()) == pytest.approx(2.0, rel=1e-6)  # the limit
    assert not still.any()


PLAIN = ("population=24", "batch_size=24", "layout=per_example", "model=MNIST_10K", "threads=1", "algo.sigma=0.05")
OF_LAYERS = "algo.layers={features.*:{sigma:3},*.bias:{sigma:0.5,lr:2}}"


def both_ways(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Scores of members in one pass, and of one after the other."""
    scorer, proposal = parts.distribution.job.scorer, parts.algo.ask(2)
    assert isinstance(scorer, BatchedScorer)
    single = MemberScorer(scorer.settings, proposal.bases[0])
    return scorer.scores(proposal, 2, range(24)), single.scores(proposal, 2, range(24))


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if reuses_noise(name)])
def test_many_members_in_one_pass_are_scored_as_single_ones(sampler):
    together, single = both_ways(build(Options(composed(*PLAIN, *sampler_of(sampler), OF_LAYERS)), SingleProcess()))
    np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)
    assert len(np.unique(together[:, -1])) > 12


class Mixed(nn.Module):
    """Attention and an embedding of its own values: the mapped pass, not layers that are known by name."""

    input_shape = (1, 28, 28)

    def __init__(self) -> None:
        super().__init__()
        self.lines, self.places = nn.Linear(28, 8), nn.Parameter(0.1 * torch.randn(28, 8))
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.lines(images.squeeze(1)) + self.places
        return self.head((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


def test_a_mapped_pass_scores_members_as_single_ones():
    config = composed(*PLAIN, "sampler=low_rank", "algo.layers={attention.*:{sigma:3},places:{sigma:0.1},head.bias:{sigma:4}}")
    config["model"] = {"_target_": f"{__name__}.Mixed"}
    together, single = both_ways(build(Options(config), SingleProcess()))
    np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)


STEP_SIZES = ("genetic", "snes", "sep_cma_es", "cr_fm_nes", "xnes", "cma_es")


def moved(algo: PopulationAlgorithm, unit: torch.Tensor) -> np.ndarray:
    """Centre after four generations, in parameters x = ``unit`` * y of an algorithm that moves y, of ``f(x)``."""
    layout, scale = ParameterLayout(network()), unit.numpy()
    goal = np.linspace(-1, 1, layout.size)
    algo.start(layout.flatten(network()) / unit, layout, 16, 3)
    for generation in range(4):
        told(algo, generation, noise_of(generation, 16, layout.size), lambda y: -((scale * y - goal) ** 2).sum(1))
    return (unit * algo.centre).numpy()


# the symmetric root of cma_es's matrix is another one in other units: members of one law, not the same ones
@pytest.mark.parametrize("name", [name for name in STEP_SIZES if name != "cma_es"])
def test_a_factor_on_sigma_is_another_unit_of_the_parameter(name):
    plain, with_factors = (option("algo", name, PopulationAlgorithm, 3, more) for more in ({}, {"layers": SIGMAS}))
    one = torch.ones(26)
    moves = moved(with_factors, one)
    unit = started(SIGMAS).spread(torch.device("cpu"))
    np.testing.assert_allclose(moves, moved(plain, unit), rtol=2e-4, atol=2e-5)
    assert np.abs(moves - moved(option("algo", name, PopulationAlgorithm, 3, {}), one)).max() > 1e-3  # not that of equal sigmas


@pytest.mark.parametrize("name", ["genetic", "sep_cma_es", "cr_fm_nes", "xnes"])
def test_who_has_no_rate_of_parameters_refuses_one(name):
    with pytest.raises(ConfigError, match=r"algo\.layers\.\*\.lr=2: must be sigma, a factor"):
        option("algo", name, PopulationAlgorithm, 3, {"layers": {"*": {"lr": 2}}})
