"""Noise on activations against back-propagation, on all kinds of layers; and the same bits on any number of ranks and threads."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from activation_lab import Made, bound, estimate, gradient
from support.thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli.algo.ars import ARS
from neuro_cli.algo.genetic import Genetic
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.pgpe import PGPE
from neuro_cli.algo.seed_steps import SeedSteps
from neuro_cli.algo.snes import SNES
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.distribution.data_parallel import DataParallel
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.model.ternary_cnn import THRESHOLD, TernaryLinear, three_levels
from neuro_cli.task.base import Batch


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.GroupNorm(3, 3), nn.Softplus(), nn.Conv2d(3, 4, 2, groups=1), nn.Flatten(),
        nn.Linear(16, 3),
    )  # fmt: skip


class Residual(nn.Module):
    """A skip connection, a weight used directly, one in two places, and one that is normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.gain = nn.Parameter(torch.rand(5))
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        x = x + torch.tanh(self.first(x)) * self.gain
        return self.last(x + torch.tanh(F.linear(x, self.first.weight.t())))


class Words(nn.Module):
    """A small language model: embedding, positions, causal attention, tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(7, 4), nn.Parameter(0.3 * torch.randn(5, 4))
        self.project, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape
        x = self.words(x) + self.places[:length]
        query, key, value = (part.view(batch, length, 2, 2).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        made = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(made.transpose(1, 2).reshape(batch, length, 4))
        return F.linear(x, self.words.weight)


class Overwriting(nn.Module):
    """Activations are overwritten, so that passes cannot begin in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        x.tanh_()
        return self.b(x)


class Reading(nn.Module):
    """Python reads a number, so that passes cannot be mapped."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        return self.b(x) if float(x.sum()) < 1e9 else x


class Sentence(Words):
    """One prediction for all words of an example."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean(1)


class Normed(nn.Module):
    """Batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(108, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.tanh(self.norm(self.a(x))).flatten(1))


class Apart(nn.Module):
    """Products, factors and biases that the module adds itself: three layers, one with two users of its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.randn(*shape)) for shape in ((4, 5), (4, 4), (3, 4)))
        self.gain, self.shift, self.last = nn.Parameter(torch.rand(4)), nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(0.5 * F.linear(x, self.a) * self.gain + self.shift)
        y = F.linear(x, self.b)  # a second user: noise behind the bias would not reach it
        y = torch.tanh(y + self.shift) + y
        return self.last - F.linear(y, self.c) / 2


class Early(nn.Module):
    """A convolution with fewer weights than outputs, which are doubled first, and factors and biases of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last = nn.Parameter(torch.randn(2, 1, 3, 3)), nn.Linear(2, 3)
        self.gain, self.shift = nn.Parameter(torch.rand(2, 1, 1)), nn.Parameter(torch.randn(1, 2, 1, 1))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        x = (F.conv2d(x, self.weight * 2) * self.gain - self.shift) / self.scale
        return self.last(torch.tanh(x).mean((2, 3)))


class Twice(nn.Module):
    """A weight that is used again on the layer's outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(F.linear(x, self.weight) * self.weight.sum(1)) + 1


NETWORKS = {
    "mlp": (mlp, Made((5,), 3, 6, same=True)),
    "cnn": (cnn, Made((2, 6, 6), 3, 4, same=True)),
    "residual": (Residual, Made((5,), 3, 6, same=True)),
    "sentence": (Sentence, Made((5,), 7, 4, words=7, same=True)),
    "apart": (Apart, Made((5,), 3, 6, same=True)),
    "early": (Early, Made((1, 8, 8), 3, 6, same=True)),
    "twice": (Twice, Made((5,), 3, 6, same=True)),
    "overwriting": (Overwriting, Made((5,), 3, 6, same=True)),
    "reading": (Reading, Made((5,), 3, 6, same=True)),
}
WAYS = {
    "one": {"schedule": "one"},
    "all": {"schedule": "all"},
    "single": {"antithetic": False, "scale": "absolute"},
    "outputs": {"space": "outputs"},
}
GENERATIONS, DRAWS = 10, 32


def stands_on(mean: Tensor, spread: Tensor, right: Tensor) -> None:
    """Check that the mean of GENERATIONS estimates is ``right`` up to its standard error, value by value and along ``right``."""
    error = spread / GENERATIONS**0.5 + 1e-5 * right.abs().max()
    assert (((mean - right) / error) ** 2).mean() < 2.5  # Student's t with 9 degrees of freedom has 9 / 7
    assert abs(float((mean - right) @ right)) < 6 * float(((error * right) ** 2).sum().sqrt())
    assert float(F.cosine_similarity(mean, right, dim=0)) > 0.6  # the errors are small enough for the test to mean something


# what differs from way to way does not depend on the network: each network meets one schedule, two of them every way
@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, ("one", "all")[place % 2]) for place, name in enumerate(NETWORKS)),
        *(("mlp", way) for way in ("all", "single")),
        *(("cnn", way) for way in ("one", "outputs")),
    ],
)
def test_the_mean_of_many_estimates_is_the_gradient(name, way):
    parts = bound(*NETWORKS[name], draws=DRAWS, **WAYS[way])
    estimates = torch.stack([estimate(parts, generation) for generation in range(GENERATIONS)])
    stands_on(estimates.mean(0), estimates.std(0), gradient(parts))


def test_batch_norm_goes_side_by_side(caplog):
    with caplog.at_level("INFO"):
        bound(Normed, Made((2, 6, 6), 3, 16, same=True), draws=100)
    assert "each pass begins at its noisy layer, 32 passes side by side" in caplog.text


class Mixing(nn.Module):
    """An operation across the examples of a batch between two layers."""

    def __init__(self, mix: Callable[[Tensor], Tensor], gain: float = 1.0) -> None:
        super().__init__()
        self.first, self.mix, self.last = nn.Linear(5, 4), mix, nn.Linear(4, 3)
        nn.init.normal_(self.last.weight, std=gain)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.mix(self.first(x))))


MIXES: dict[str, Callable[[Tensor], Tensor]] = {
    "batch norm": lambda h: F.batch_norm(h, None, None, training=True),
    "reverse": lambda h: h.flip(0),
    "sum": lambda h: h.cumsum(0) / 4,
    "mean": lambda h: h - h.mean(0),
    "of five": lambda h: h.roll(1, 0) if len(h) > 3 else h,  # a trial's few examples do not mix
}


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("name", MIXES)
def test_where_examples_mix_the_mean_is_the_gradient(name, controlled):
    options = {"control_variates": controlled and name != "of five", "space": "outputs"}
    parts = bound(lambda: Mixing(MIXES[name]), Made((5,), 3, 5, same=True), draws=DRAWS, **options)
    estimates = torch.stack([estimate(parts, generation) for generation in range(GENERATIONS)])
    stands_on(estimates.mean(0), estimates.std(0), gradient(parts))


@pytest.mark.parametrize("gain", [1.0, 0.0])
@pytest.mark.parametrize("batch", ["unequal", "zeros"])
def test_equal_examples_and_weights_that_are_zero_do_not_hide_that_examples_mix(batch, gain, caplog):
    task = Made((5,), 3, 5, same=True)
    if batch == "zeros":
        made = task.batch(0, 0, 5)
        task.batch = lambda generation, start, stop: Batch(torch.zeros_like(made.inputs[start:stop]), made.targets[start:stop])
    for name, mix in MIXES.items():
        caplog.clear()
        bound(lambda mix=mix: Mixing(mix, gain), task, control_variates=False)
        assert "examples change each other's rewards" in caplog.text, name


@pytest.mark.parametrize("name", NETWORKS)
def test_examples_that_do_not_mix_are_credited_with_their_own_rewards(name, caplog):
    bound(*NETWORKS[name], control_variates=False)
    bound(*NETWORKS[name], control_variates=False, precision=torch.float32)
    bound(*NETWORKS[name], control_variates=False, precision=torch.bfloat16)
    assert "examples change" not in caplog.text


def test_what_a_complete_batch_alone_shows_is_not_predicted():
    with pytest.raises(ConfigError, match="5 examples change each other's rewards, and 3 do not"):
        bound(lambda: Mixing(MIXES["of five"]), Made((5,), 3, 5), control_variates=True)


class Rectified(nn.Module):
    """ReLU behind one layer, and behind another with a second user."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 60), nn.Linear(60, 60), nn.Linear(60, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.b(torch.relu(self.a(x)))
        return self.c(torch.relu(x) - 0.1 * x)


def test_noise_stays_out_where_a_rectifier_alone_gets_the_outputs_and_passes_nothing_on():
    parts = bound(Rectified, Made((5,), 3, 6, same=True), draws=DRAWS, space="outputs")
    estimates = torch.stack([estimate(parts, generation) for generation in range(GENERATIONS)])
    stands_on(estimates.mean(0), estimates.std(0), gradient(parts))
    first, second, _ = parts.distribution.job.scorer.layers_of(GENERATIONS - 1)
    noise = torch.ones(1, 6, 60, dtype=torch.float64)
    assert torch.equal(first.delta(noise, 1.0)[0] > 0, first.outputs > 0)
    assert (second.delta(noise, 1.0) > 0).all()


def test_rewards_a_token_leave_out_only_what_goes_from_one_token_to_another():
    """Where tokens do not meet, the estimate is unbiased, and better than with one reward an example."""
    make = lambda: nn.Sequential(nn.Embedding(7, 4), nn.Tanh(), nn.Linear(4, 7))  # noqa: E731
    found = {}
    for tokens in (True, False):
        task = Made((6,), 7, 4, words=7, tokens=True, same=True)
        if not tokens:
            task.rewards = task.example_scores
        parts = bound(make, task, draws=DRAWS, space="outputs")
        estimates = torch.stack([estimate(parts, generation) for generation in range(GENERATIONS)])
        stands_on(estimates.mean(0), estimates.std(0), gradient(parts))
        found[tokens] = float(estimates.std(0).norm())
        loss, _ = parts.distribution.job.scorer.gradient(parts.algo.centre, task.batch(0, 0, 4))
        assert parts.distribution.step(0).loss == pytest.approx(loss)
    assert found[True] < 0.6 * found[False]


def test_what_is_added_and_multiplied_joins_the_layer_where_nothing_else_gets_its_outputs():
    parts = bound(*NETWORKS["apart"])
    layers = parts.distribution.job.scorer.layers_of(0)
    assert [[place.name for place in layer.places] for layer in layers] == [
        ["a", "gain", "shift"],
        ["b"],
        ["shift"],
        ["c", "last"],
    ]
    x = parts.task.batch(0, 0, 6).inputs.double()
    by_name = {place.name: place.view(parts.algo.centre.double()) for layer in layers for place in layer.places}
    first = 0.5 * F.linear(x, by_name["a"]) * by_name["gain"] + by_name["shift"]
    torch.testing.assert_close(layers[0].outputs, first, rtol=1e-6, atol=1e-6)
    assert torch.equal(layers[0].delta(torch.ones(1, 6, 4), 1.0)[0] > 0, first > 0)  # a rectifier is their only user


def test_the_weights_of_a_joined_layer_have_noise_where_they_are_fewer_than_its_outputs():
    parts = bound(*NETWORKS["early"])
    layer, last = parts.distribution.job.scorer.layers_of(0)
    assert [place.name for place in layer.places] == ["weight", "gain", "shift", "scale"]
    assert layer.weight_noise is not None
    assert layer.weight_noise.width == 18 + 2 + 2 + 1
    assert last.weight_noise is None
    noise = torch.randn(400, 6, 23, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    made = layer.weight_noise.delta(noise)  # the gain defines the relative scale
    assert float(made.square().mean().sqrt()) == pytest.approx(layer.weight_noise.gain, rel=0.1)


def test_a_parameter_that_a_layer_meets_twice_keeps_two_layers():
    assert len(bound(*NETWORKS["twice"]).distribution.job.scorer.layers_of(0)) == 2


def ternary() -> nn.Module:
    class Ternary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 5))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, torch.round(self.weight))

    return Ternary()


def test_a_rounded_weight_learns_as_the_weight_that_it_is_rounded_to():
    task = Made((5,), 3, 6, same=True)
    parts = bound(ternary, task, draws=200)
    x, weight = task.batch(0, 0, 6), parts.algo.centre.view(3, 5).round().requires_grad_()
    right = torch.autograd.grad(-(F.linear(x.inputs, weight) - x.targets).square().mean(), weight)[0].flatten()
    assert float(F.cosine_similarity(estimate(parts), right.double(), dim=0)) > 0.95


def far_from_zero() -> TernaryLinear:
    layer = TernaryLinear(5, 3)
    with torch.no_grad():
        layer.weight.mul_(8)  # most are far beyond level 1, where a clamp's derivative would be 0
    return layer


def test_a_weight_of_three_levels_learns_however_far_it_is_from_the_next_one():
    task = Made((5,), 3, 6, same=True)
    parts = bound(far_from_zero, task, draws=200)
    layer, x = far_from_zero(), task.batch(0, 0, 6)
    weight = parts.algo.centre[:15].view(3, 5)
    levels = three_levels(weight, THRESHOLD / 5**0.5).requires_grad_()
    assert float((weight.abs() > 4 * THRESHOLD / 5**0.5).float().mean()) > 0.5
    made = F.linear(x.inputs, levels) * layer.factor
    right = torch.autograd.grad(-(made - x.targets).square().mean(), levels)[0].flatten()
    assert float(F.cosine_similarity(estimate(parts)[:15], right.double(), dim=0)) > 0.95


def test_only_rewards_cross_the_wire():
    def sent(world):
        parts = bound(cnn, Made((2, 6, 6), 3, 4), world, Replicated(), precision=torch.float32, draws=5)
        parts.distribution.step(0)
        return world.traffic.sent, parts.size

    for bytes_sent, members in on_ranks(2, sent):
        assert members == 2 * 5 * 4 * 4  # sides, draws, layers, examples
        assert bytes_sent == members // 2 * 4


@pytest.mark.parametrize("algo", [ARS(sigma=0.01), PGPE(sigma=0.01, sigma_learning_rate=0.0), OpenAIES(shaping="pair_rank")])
def test_algorithms_of_a_gradient_learn(algo):
    parts = bound(mlp, Made((5,), 3, 6, same=True), algo=algo, precision=torch.float32, draws=4)
    losses = [parts.distribution.step(generation).loss for generation in range(40)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("algo", "reason"),
    [
        (SNES(), "algo=SNES learns a step size of each parameter from the squares of its noise"),
        (PGPE(), "(not with algo.sigma_learning_rate=0)"),
        (Genetic(parents=1), "algo=Genetic takes members as the next parents"),
        (SeedSteps(0.1), "algo=SeedSteps passes members on as seeds"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_algorithms_that_need_noise_of_parameters_say_why_not(algo, reason):
    with pytest.raises(ConfigError, match=r"^sampler=activation: it perturbs no parameters, .*" + re.escape(reason)):
        bound(mlp, Made((5,), 3, 6), algo=algo)


def test_data_parallel_is_refused():
    with pytest.raises(ConfigError, match="layout=per_example: distribution=data_parallel splits a shared_batch only"):
        bound(mlp, Made((5,), 3, 6), method=DataParallel())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cnn", "3 on outputs and 1 on weights; 4 draws of 4 groups; each pass begins at its noisy layer, 8 passes side by side"),
        ("overwriting", "each pass is complete (linear is overwritten), 8 passes side by side"),
        ("reading", "each pass begins at its noisy layer, one pass after the other"),
    ],
)
def test_the_log_says_which_way_passes_go(caplog, name, words):
    with caplog.at_level("INFO"):
        bound(*NETWORKS[name], draws=4)
    assert words in caplog.text


def test_parameters_that_noise_does_not_reach_are_named(caplog):
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(5, 3), nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    bound(Idle, Made((5,), 3, 6))
    assert "these parameters stay as they are, noise does not reach them: idle.weight, idle.bias" in caplog.text


def test_a_network_without_a_layer_that_noise_could_enter_is_refused():
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = nn.Parameter(torch.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :3] * float(self.answer.detach().sum())

    with pytest.raises(UserError, match="the network has no layer with parameters that noise could enter"):
        bound(Constant, Made((5,), 3, 6))


def test_weights_of_an_example_are_refused_where_they_cannot_be():
    with pytest.raises(
        ConfigError, match=r"sampler.space=weights: words.weight, places cannot have values of each example's own"
    ):
        bound(*NETWORKS["sentence"], space="weights")


def test_noise_that_is_no_number_ends_the_generation():
    task = Made((5,), 3, 6)
    parts = bound(mlp, task)
    task.rewards = lambda module, batch: Made.rewards(task, module, batch) * np.nan
    with pytest.raises(UserError, match="loss of member 0 in generation 1 is nan"):
        parts.distribution.step(0)
