"""Control variates of noise on activations: no bias, less variance, the same bits on any ranks and threads and after a resume."""

import gc
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from activation_lab import SIGMA, Made, bound, estimate, gradient
from support.thread_ranks import on_ranks
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise import control_variates, prediction
from neuro_cli.activation_noise.control_variates import ControlVariates
from neuro_cli.activation_noise.derivatives import response
from neuro_cli.activation_noise.derivatives.response import Convolution, Dense, Diagonal, MatrixResponse, Response
from neuro_cli.activation_noise.prediction import RewardPredictor
from neuro_cli.algo.ars import ARS
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.seeds import seeded
from neuro_cli.distribution.base import Distribution
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.distribution.semi_updates import SemiUpdates
from neuro_cli.fabric.base import World
from neuro_cli.runner.bind import Population
from neuro_cli.task.base import Batch

TOGETHER = {"antithetic": False, "schedule": "all"}
LEARNT, SEEN = 8, 6  # generations to learn, and generations whose errors count
SMOOTHED = 1e-10  # squared difference between the gradient and that of the smoothed fitness, which noise estimates


class Words(nn.Module):
    """Characters that do not influence each other."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.middle, self.head = nn.Embedding(7, 4), nn.Linear(4, 6), nn.Linear(6, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.middle(self.words(x))))


class Transformer(nn.Module):
    """A block of attention and of GELU behind layer norms, with skip connections; ``causal``: attention to earlier tokens."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.words, self.places, self.causal = nn.Embedding(7, 8), nn.Parameter(0.3 * torch.randn(5, 8)), causal
        self.first, self.second, self.last = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape
        x = self.words(x) + self.places
        query, key, value = (part.view(batch, length, 2, 4).transpose(1, 2) for part in self.project(self.first(x)).chunk(3, -1))
        made = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        x = x + self.narrow(F.gelu(self.wide(self.second(x))))
        return F.linear(self.last(x), self.words.weight)


class Patches(nn.Module):
    """A vision transformer: one answer for all tokens of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(2, 8, 2, stride=2), nn.LayerNorm(8)
        self.project, self.out, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        query, key, value = self.project(self.norm(x)).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return self.head(x.mean(1))


class Heads(nn.Module):
    """torch's attention, which lays tokens out as (length, batch), behind a learnt token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.first = nn.Embedding(9, 8), nn.Parameter(0.5 * torch.randn(1, 1, 8))
        self.attention, self.norm, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.first.expand(len(x), -1, -1), self.words(x)], 1)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.head(x[:, 0])


class Skips(nn.Module):
    """A skip connection between linear layers, with a rectifier behind the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.head = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = torch.relu(self.second(F.silu(x)) + x)
        return self.head(torch.relu(self.third(x) + x))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn(kind: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), kind(), nn.Conv2d(3, 4, 2), kind(), nn.Flatten(), nn.Linear(16, 3)
    )


def pooled() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(3, 6, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(24, 3),
    )  # fmt: skip


IMAGES, TEXTS = Made((2, 6, 6), 3, 64), Made((5,), 7, 32, words=7, tokens=True)
NETWORKS = {
    "mlp": (mlp, Made((5,), 3, 64), {}),
    "cnn": (cnn, IMAGES, {}),
    "weights": (pooled, IMAGES, {"space": "auto"}),
    "pooled": (pooled, IMAGES, {}),
    "overwriting": (partial(cnn, partial(nn.ReLU, inplace=True)), IMAGES, {}),
    "skips": (Skips, Made((5,), 3, 64), {}),
    "words": (Words, TEXTS, {}),
    "causal": (Transformer, TEXTS, {"credit": "following"}),
    "attentive": (lambda: Transformer(causal=False), TEXTS, {"credit": "all"}),
    "patches": (Patches, IMAGES, {}),
    "heads": (Heads, Made((4,), 3, 64, words=9), {}),
}


def errors(make, task: Made, control: bool, count: int = SEEN, **options: object) -> tuple[float, float, Population]:
    """Return the mean squared error of ``count`` estimates in units of the squared gradient, the squared length of their mean
    error, and the population.
    """
    given = {"draws": 4, "space": "outputs"} | options
    parts = bound(make, task, control_variates=control, **given)
    seen, total = [], torch.zeros(len(parts.algo.centre), dtype=torch.float64)
    for generation in range((LEARNT if control else 0) + count):
        made = estimate(parts, generation)
        if generation >= LEARNT or not control:
            right = gradient(parts, generation)
            error = (made - right) / right.norm()
            seen.append(float(error.square().sum()))
            total += error / count
    return sum(seen) / count, float(total.square().sum()), parts


@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_have_no_bias_and_far_smaller_errors_and_the_prediction_alone_is_near(name):
    make, task, own = NETWORKS[name]
    own = own | (TOGETHER if name == "causal" else {})
    without, _, _ = errors(make, task, False, **own)
    error, bias, parts = errors(make, task, True, **own)
    print(f"{name}: squared error {without:.3g} without control variates, {error:.3g} with them")
    assert error < 0.01 * without
    assert bias < 3 * error / SEEN + SMOOTHED  # three times what independent errors with mean zero would give
    if name not in ("mlp", "weights", "words", "heads"):
        return
    method, algo, generation = parts.distribution, parts.algo, LEARNT + SEEN
    method.scores(generation, algo.ask(generation))
    alone = method.combine(generation, algo.combination(generation, np.zeros(method.job.population)))[0].double()
    right = gradient(parts, generation)
    assert (alone - right).norm() < 0.05 * right.norm()


@pytest.mark.parametrize("name", ["pooled", "heads"])
def test_estimates_have_no_bias_whatever_models_say(name, monkeypatch):
    def wrong(self: Response, *_: object) -> None:
        with seeded(7):
            self.matrix.copy_(0.3 * torch.randn(self.matrix.shape))

    monkeypatch.setattr(MatrixResponse, "learn", wrong)
    for kind in (Dense, Convolution, Diagonal):
        monkeypatch.setattr(kind, "read", wrong)
    make, task, own = NETWORKS[name]
    error, bias, _ = errors(make, task, True, count=12, **own)
    assert error > 1e-3
    assert bias < 3 * error / 12


class Normed(nn.Module):
    """Batch norms: the result of an example depends on the others."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 2)
        self.other, self.head = nn.BatchNorm2d(4), nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.head(torch.relu(self.other(self.second(x))).flatten(1))


def test_a_prediction_knows_what_examples_do_to_each_other():
    parts = bound(Normed, IMAGES, control_variates=True, correction="auto", draws=1, space="outputs")
    for generation in range(LEARNT):
        made = estimate(parts, generation)
    right = gradient(parts, LEARNT - 1)
    assert (made - right).norm() < 0.02 * right.norm()


def test_where_examples_change_each_other_a_check_follows_several_fits(monkeypatch):
    """A check takes a second derivative, which costs as much as several fits."""
    checks = 0
    predict = RewardPredictor.predict

    def counted(self: RewardPredictor, deltas: dict[int, Tensor]) -> Tensor:
        nonlocal checks
        checks += 1
        return predict(self, deltas)

    parts = bound(Normed, IMAGES, control_variates=True, correction="never", draws=1)
    monkeypatch.setattr(RewardPredictor, "predict", counted)
    monkeypatch.setattr(control_variates, "UNEXPLAINED", 0.0)  # they never suffice: all fits are made
    estimate(parts, 0)
    assert checks == 1 + control_variates.FIRST_FITS // control_variates.COUPLED + 1  # the last one after all fits
    estimate(parts, 1)
    assert checks == 1 + control_variates.FIRST_FITS // control_variates.COUPLED + 2


@pytest.mark.parametrize("name", ["cnn", "causal"])
def test_predictions_stand_alone_once_they_explain_fitnesses(name, caplog):
    caplog.set_level("INFO")
    make, task, own = NETWORKS[name]
    parts = bound(make, task, control_variates=True, draws=1, correction="auto", **own)
    scores = parts.distribution.scores(0, parts.algo.ask(0))
    assert "from generation 0 on predictions are used alone" in caplog.text
    assert not scores.any()  # predictions alone: no fitness is measured
    always = bound(make, task, control_variates=True, draws=1, **own)
    assert always.distribution.scores(0, always.algo.ask(0)).any()


@pytest.mark.parametrize(("examples", "alone"), [(2, True), (64, False)])
def test_half_explained_suffices_where_a_correction_has_more_numbers_than_rewards(examples, alone, monkeypatch, caplog):
    """16 numbers of noise on a layer: more than the rewards of 2 draws of 2 examples, fewer than those of 64."""
    caplog.set_level("INFO")
    monkeypatch.setattr(control_variates, "UNEXPLAINED", 0.0)
    make = partial(nn.Sequential, nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    parts = bound(make, Made((5,), 3, examples), control_variates=True, correction="auto", draws=2, antithetic=False)
    assert parts.distribution.scores(0, parts.algo.ask(0)).any() != alone
    assert ("used alone where they explain 50 %" in caplog.text) == alone


class Gated(nn.Module):
    """Outputs that are multiplied with each other: torch keeps both for the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 8), nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        first, second = torch.tanh(self.first(x)), self.second(x)
        return self.last(first * second + first)


@pytest.mark.parametrize("name", ["gated", "causal"])
def test_a_generation_leaves_no_tensor_behind(name):
    make, task, own = NETWORKS.get(name, (Gated, Made((5,), 3, 8), {}))
    parts, left = bound(make, task, control_variates=True, draws=1, correction="auto", **own), []
    for generation in range(8):
        estimate(parts, generation)
        if generation in (3, 7):
            gc.collect()
            # not isinstance, which would follow a weak proxy of an object that another test has dropped
            left.append(sum(issubclass(type(thing), Tensor) for thing in gc.get_objects()))
    assert left[0] == left[1]


class Steps(nn.Module):
    """A network of step functions, which no model predicts well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).sign())


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_estimate_at_a_minimum_is_no_noise(scale):
    """There a change of the loss is curvature, or within rounding: neither says that predictions are wrong."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(32, 4)
    with torch.no_grad():
        model[2].weight.mul_(scale)
        y = model(x)
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1)
    for _ in range(3):
        model.zero_grad()
        gradients.backward(lambda outputs, targets: (outputs - targets).square().mean(1), x, y)
        assert all(float(parameter.grad.abs().max()) < 1e-6 * scale for parameter in model.parameters())


def test_a_curved_network_is_checked_by_less_noise():
    """A slope explains changes only of noise that the network's curvature does not turn; these squares do so from 1e-4 on."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    x, y = torch.randn(64, 6), torch.arange(64) % 3

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(torch.sin(3000 * outputs), targets, reduction="none")

    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1)
    gradients.backward(losses, x, y)
    made = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    losses(model(x), y).mean().backward()
    for mine, parameter in zip(made, model.parameters(), strict=True):
        assert float(F.cosine_similarity(mine.flatten(), parameter.grad.flatten(), 0)) > 0.999


class FirstOf(torch.autograd.Function):
    """A product that tells autograd of its first factor alone."""

    @staticmethod
    def forward(ctx, first: Tensor, second: Tensor) -> Tensor:
        return first * second

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def written(hidden: Tensor, side: Tensor) -> Tensor:
    target = torch.zeros_like(hidden)
    target.detach()[:, :20] = side[:, :20].detach()
    return hidden * (1 + target)


class SideOutput(nn.Module):
    """A network with a layer that the loss does not use, or ``used`` in a way that the graph does not show."""

    def __init__(self, used: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.side, self.last = nn.Linear(6, 40), nn.Linear(40, 40), nn.Linear(40, 3)
        self.used = used

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        return self.last(self.used(hidden, self.side(hidden).tanh()))


def test_a_layer_that_the_loss_does_not_use_needs_no_prediction():
    torch.manual_seed(0)
    model, x, y = SideOutput(lambda hidden, side: hidden), torch.randn(32, 6), torch.arange(32) % 3
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1, sigma=1e-3)
    gradients.backward(nn.CrossEntropyLoss(reduction="none"), x, y)
    assert not model.side.weight.grad.any()
    made = model.first.weight.grad.clone()
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    assert float(F.cosine_similarity(made.flatten(), model.first.weight.grad.flatten(), 0)) > 0.9999


UNSHOWN = {
    "detached": lambda hidden, side: hidden * side.detach(),
    "an index": lambda hidden, side: hidden.gather(1, side.sort(1)[1]),
    "the index of a maximum": lambda hidden, side: hidden * (1 + hidden.gather(1, side.max(1, keepdim=True)[1])),
    "a place of a pool": lambda hidden, side: (
        hidden * (1 + F.max_pool1d(side[:, None], 4, return_indices=True)[1].float().mean(2))
    ),
    "half a derivative": FirstOf.apply,
    "a write": written,
    "a shape": lambda hidden, side: hidden * (1 + len(side[side > 0]) / 100),
}


@pytest.mark.parametrize("used", UNSHOWN.values(), ids=UNSHOWN.keys())
def test_noise_counts_on_a_layer_whose_use_the_graph_does_not_show(used):
    torch.manual_seed(0)
    model, x, y = SideOutput(used), torch.randn(32, 6), torch.arange(32) % 3
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1, sigma=0.1)
    gradients.backward(nn.CrossEntropyLoss(reduction="none"), x, y)
    assert model.side.weight.grad.any()


@pytest.mark.parametrize(("saved", "taken"), [([0.5, 1.75], [0.5, 1.75]), ([1e3, 1e5], [0.02, 2.0])])
def test_the_squares_of_an_older_version_weigh_no_more_than_checks_that_count_alike(saved, taken):
    learnt = control_variates.Learnt()
    learnt.restore({"control.squares": torch.tensor(saved, dtype=torch.float64)})
    assert learnt.squares is not None
    assert learnt.squares.tolist() == pytest.approx(taken, rel=1e-12)
    learnt.restore(learnt.state())
    assert learnt.squares.tolist() == pytest.approx(taken, rel=1e-12)


def test_checks_become_rarer_where_models_are_read(monkeypatch):
    """Predictions that suffice are looked at every eighth generation, after 512 generations every 64th."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    x, y = torch.randn(32, 4), torch.randn(32, 3)
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1)
    seen = set[int]()
    measure = ControlVariates._measure

    def noted(self, *given):
        seen.add(step)
        measure(self, *given)

    monkeypatch.setattr(ControlVariates, "_measure", noted)
    for step in range(650):  # noqa: B007 - read by noted()
        gradients.backward(lambda outputs, targets: (outputs - targets).square().mean(1), x, y)
    first = [0, *range(8, 128, 8), *range(128, 256, 16), *range(256, 512, 32), *range(512, 650, 64)]
    assert sorted(seen) == first


def constant_rows() -> nn.Module:
    """Return three norms; without biases, each multiplies small noise on rows of zeros by a thousand."""
    parts = list[nn.Module]()
    for width in (3, 24, 24):
        parts += [nn.Linear(width, 24), nn.LayerNorm(24, eps=1e-6)]
    return nn.Sequential(*parts, nn.GELU(), nn.Linear(24, 3))


@pytest.mark.parametrize("when", [0, 8])
def test_rewards_without_a_slope_at_some_weights_are_not_remembered(when):
    """Changes that saturate at any size of noise neither correct that generation nor outweigh the checks that follow."""
    torch.manual_seed(0)
    model = constant_rows()
    x, y = torch.randn(16, 20, 3), torch.arange(16) % 3
    x[:, ::2] = 0
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1)
    for step in range(11):
        with torch.no_grad():
            for part in model[:-1]:
                if isinstance(part, nn.Linear):
                    part.bias.copy_(torch.linspace(-1, 1, 24) * (step != when))
        model.zero_grad()
        gradients.backward(lambda outputs, targets: F.cross_entropy(outputs.mean(1), targets, reduction="none"), x, y)
        made = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        F.cross_entropy(model(x).mean(1), y).backward()
        for mine, parameter in zip(made, model.parameters(), strict=True):
            assert float(F.cosine_similarity(mine.flatten(), parameter.grad.flatten(), 0)) > 0.999


@pytest.mark.parametrize("examples", [64, 2])  # with two, a correction is noisier than what it removes
def test_corrections_go_on_where_a_network_has_steps(examples, caplog):
    caplog.set_level("INFO")
    parts = bound(Steps, Made((5,), 3, examples), control_variates=True, correction="auto", draws=1)
    for generation in range(5):
        assert parts.distribution.scores(generation, parts.algo.ask(generation)).any()
    assert "used alone" not in caplog.text


def trained(
    world: World, threads: int = 1, stop: int = 0, method: type[Distribution] = Replicated, make=cnn, **options: str
) -> np.ndarray:
    """Return the centre after six generations, restored from the state of generation ``stop`` > 0. ``options`` of the method."""

    def made():
        algo = OpenAIES(SIGMA, shaping="raw", optimizer=partial(torch.optim.SGD, lr=0.05))
        return bound(
            make, Made((2, 6, 6), 3, 12), world, method(**options), algo, threads, torch.float32, draws=3, control_variates=True
        )

    parts = made()
    for generation in range(6):
        if stop and generation == stop:
            state, parts = parts.state(), made()
            assert any(name.startswith("scorer.control.") for name in state.tensors)
            parts.restore(state)
            again = parts.state().tensors  # a resumed run that ends before its next generation has the same state
            assert all(torch.equal(again[name], tensor) for name, tensor in state.tensors.items())
        parts.distribution.step(generation)
    parts.threads.close()
    return parts.algo.centre.numpy()


@pytest.mark.parametrize(("make", "ways"), [(cnn, (1, 2)), (Normed, (2,)), (pooled, (2,))], ids=["apart", "coupled", "in part"])
def test_a_run_has_the_same_bits_on_any_ranks_and_threads_and_after_a_restart(make, ways, monkeypatch):
    seen = []
    if make is pooled:  # units of a fit are fewer than a layer's inputs, which follow the batch
        for name, value in (("ROWS", 4), ("MORE", 1)):
            monkeypatch.setattr(response, name, value)
        monkeypatch.setattr(prediction, "FEW", 0)
        monkeypatch.setattr(prediction, "SHARE", 0.0)
        follow = MatrixResponse.follow
        monkeypatch.setattr(MatrixResponse, "follow", lambda self, *rows: (seen.append(self), follow(self, *rows))[1])
    [whole] = on_ranks(1, partial(trained, make=make))
    for threads in ways:
        for part in on_ranks(3, partial(trained, make=make, threads=threads)):
            np.testing.assert_array_equal(part, whole)
    for threads, stop in ((2, 0), (1, 3), (2, 5)):
        [part] = on_ranks(1, partial(trained, make=make, threads=threads, stop=stop))
        np.testing.assert_array_equal(part, whole)
    assert bool(seen) == (make is pooled)


@pytest.mark.parametrize("options", [{}, {"ranks_shaping": "local"}])
def test_every_method_adds_a_prediction_once(options):
    smooth = partial(cnn, nn.Tanh)  # without rectifiers, which rounding may switch
    [whole] = on_ranks(1, lambda world: trained(world, make=smooth))
    for ranks in (2, 3):
        for part in on_ranks(ranks, lambda world: trained(world, method=ChromosomeUpdates, make=smooth)):
            np.testing.assert_array_equal(part, whole)
        for part in on_ranks(ranks, lambda world: trained(world, method=SemiUpdates, make=smooth, **options)):
            np.testing.assert_allclose(part, whole, rtol=0, atol=1e-4)  # the ranks' sums are added in another order


def test_the_numbered_state_of_an_older_run_is_read(monkeypatch):
    def made() -> Population:
        return bound(mlp, Made((5,), 3, 8), control_variates=True, correction="auto")

    parts, other, twice = made(), made(), made()
    estimate(parts)
    state = parts.distribution.job.scorer.state()
    named = [name for name in state if name != "control.squares"]
    assert len(named) == 2  # the first layer has no input to model
    numbers = {f"control.{number}": state[name] for number, name in enumerate(named)}
    squares = {"control.squares": state["control.squares"]}
    other.distribution.job.scorer.restore(numbers | squares)
    twice.distribution.job.scorer.restore({name: 2 * value for name, value in numbers.items()} | squares)
    monkeypatch.setattr(Dense, "read", lambda self, inputs, outputs: None)
    assert torch.equal(estimate(other, 4), estimate(parts, 4))
    assert not torch.equal(estimate(twice, 4), estimate(parts, 4))


@pytest.mark.parametrize("algo", [OpenAIES(SIGMA), ARS()])
def test_weights_that_are_not_proportional_to_fitnesses_are_refused(algo):
    with pytest.raises(ConfigError, match=r"sampler.control_variates=True: needs weights that are proportional to fitnesses"):
        bound(mlp, Made((5,), 3, 8), algo=algo, control_variates=True)


class Hits(Made):
    """A step function as fitness."""

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        return (module(batch.inputs).argmax(1) == batch.targets.argmax(1)).to(torch.float64)[:, None]


def test_a_fitness_of_steps_needs_a_last_layer_that_can_be_measured():
    estimate(bound(lambda: nn.Linear(5, 129), Made((5,), 129, 8), control_variates=True))
    estimate(bound(lambda: nn.Linear(5, 128), Hits((5,), 128, 8), control_variates=True))
    with pytest.raises(ConfigError, match=r"sampler.control_variates=True: needs a fitness with a slope, or a last"):
        estimate(bound(lambda: nn.Linear(5, 129), Hits((5,), 129, 8), control_variates=True))


class Overwritten(nn.Module):
    """A product's factor, which autograd needs for the backward pass, is overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        y = x * x
        x.zero_()
        return self.second(y)


def test_a_network_that_torch_cannot_go_back_through_is_trained_without(caplog):
    caplog.set_level("INFO")
    parts = bound(Overwritten, Made((5,), 3, 8), draws=2)
    estimate(parts)
    assert "sampler.control_variates=auto: none, torch cannot go back through the network" in caplog.text
    assert not parts.distribution.job.scorer.controlled


class Normalised(nn.Module):
    """Batch norm between two layers: an example's reward depends on the noise of others, and needs a second derivative."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.norm, self.second, self.function = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.function(self.norm(self.first(x))))


def written(x: Tensor) -> Tensor:
    """Return ``x`` itself, overwritten: a pass cannot have a replacement of the call in its place."""
    F.hardsigmoid(x, inplace=True)
    return x


@pytest.mark.parametrize(
    ("function", "controlled"), [(written, False), (partial(F.hardsigmoid, inplace=True), True), (torch.square, True)]
)
def test_where_rewards_are_coupled_a_call_without_a_second_derivative_is_trained_without(function, controlled, caplog):
    caplog.set_level("INFO")
    parts = bound(lambda: Normalised(function), Made((5,), 3, 8), draws=2)
    estimate(parts)
    assert parts.distribution.job.scorer.controlled == controlled
    assert ("control_variates=auto: none, torch cannot go back" in caplog.text) != controlled


def test_models_beyond_the_limit_are_left_out(caplog):
    caplog.set_level("INFO")
    wide = bound(lambda: nn.Sequential(nn.Linear(5, 4097), nn.Linear(4097, 4097), nn.Linear(4097, 3)), Made((5,), 3, 2),
                 draws=1, control_variates=True)  # fmt: skip
    estimate(wide)
    assert "scoring: control variates on 2 of 3 layers" in caplog.text
