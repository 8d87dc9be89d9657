"""Five generations of the runner against the same mathematics written once more, in float64, from the definitions."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.configs import composed

from neuro_cli.core import philox
from neuro_cli.core.noise import NOISE_STREAM
from neuro_cli.core.seeds import key_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build, make_model
from neuro_cli.runner.options import Options

GENERATIONS, POPULATION, SIGMA, RATE, DECAY = 5, 10, 0.05, 0.02, 0.01
SETTING = ("model=MNIST_10K", "population=10", "batch_size=24", "threads=1", "generations=5", "algo.lr_schedule.kind=constant")


def definition_of_noise(seed: int, generation: int, direction: int, size: int) -> np.ndarray:
    words = philox.words(key_of(seed), generation, torch.tensor([direction]), NOISE_STREAM, 0, size)
    return philox.normals(words)[0].double().numpy()


def initial_weights(config) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().double() for name, tensor in make_model(config).named_parameters()}


def flat(weights: dict[str, torch.Tensor]) -> np.ndarray:
    """Parameters in order, convolutions channels-last: the layout that the noise's columns refer to."""
    parts = [w.permute(0, 2, 3, 1) if w.dim() == 4 else w for w in weights.values()]
    return torch.cat([part.reshape(-1) for part in parts]).numpy()


def unflat(vector: np.ndarray, like: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    weights, start = {}, 0
    for name, w in like.items():
        piece = torch.from_numpy(vector[start : start + w.numel()])
        if w.dim() == 4:
            out, inner, height, width = w.shape
            weights[name] = piece.view(out, height, width, inner).permute(0, 3, 1, 2)
        else:
            weights[name] = piece.view(w.shape)
        start += w.numel()
    return weights


def loss(weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """MNIST_10K as its paper describes it: convolution, ReLU, pool, twice; one linear layer."""
    x = F.max_pool2d(F.relu(F.conv2d(inputs, weights["features.0.weight"], weights["features.0.bias"], padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, weights["features.3.weight"], weights["features.3.bias"], padding=2)), 2)
    logits = F.linear(x.flatten(1), weights["classifier.0.weight"], weights["classifier.0.bias"])
    return float(F.cross_entropy(logits, targets))


class Adam:
    """Kingma and Ba 2015, algorithm 1, on a loss to be minimised."""

    def __init__(self, size: int) -> None:
        self.m, self.v, self.t = np.zeros(size), np.zeros(size), 0

    def step(self, gradient: np.ndarray) -> np.ndarray:
        self.t += 1
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        return -RATE * (self.m / (1 - 0.9**self.t)) / (np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8)


def reference(config, parts, antithetic: bool, snes: bool) -> np.ndarray:
    like = initial_weights(config)
    centre = flat(like)
    size = centre.size
    adam, sigma = Adam(size), np.full(size, SIGMA)
    for generation in range(GENERATIONS):
        batch = parts.task.batch(generation, 0, config["batch_size"])
        eps = []
        for member in range(POPULATION):
            direction = member // 2 if antithetic else member
            sign = -1 if antithetic and member % 2 else 1
            eps.append(sign * definition_of_noise(config["seed"], generation, direction, size))
        losses = [loss(unflat(centre + sigma * e, like), batch.inputs.double(), batch.targets) for e in eps]
        ranks = np.argsort(np.argsort(losses))  # 0 is the best
        if snes:
            weights = np.maximum(0, math.log(POPULATION / 2 + 1) - np.log(ranks + 1))
            utilities = weights / weights.sum() - 1 / POPULATION
            centre = centre + sigma * (utilities @ np.array(eps))
            rate = (3 + math.log(size)) / (5 * math.sqrt(size))
            sigma = sigma * np.exp(rate / 2 * (utilities @ (np.array(eps) ** 2 - 1)))
        else:
            utilities = 0.5 - ranks / (POPULATION - 1)
            gradient = utilities @ np.array(eps) / (POPULATION * SIGMA) - DECAY * centre
            centre = centre + adam.step(-gradient)
    return centre


@pytest.mark.parametrize("sampler", ["iid", "antithetic"])
@pytest.mark.parametrize("algorithm", ["openai_es", "snes"])
def test_five_generations_equal_the_float64_reference(algorithm, sampler):
    options = [f"algo.sigma={SIGMA}"]
    if algorithm == "openai_es":
        options += [f"algo.optimizer.lr={RATE}", f"algo.weight_decay={DECAY}", "algo.shaping=centred_rank"]
    config = composed(f"algo={algorithm}", f"sampler={sampler}", *SETTING, *options)
    parts = build(Options(config), SingleProcess())
    for generation in range(GENERATIONS):
        parts.distribution.step(generation)
    expected = reference(config, parts, sampler == "antithetic", algorithm == "snes")
    moved = np.linalg.norm(expected - flat(initial_weights(config)))
    assert np.linalg.norm(parts.algo.centre.double().numpy() - expected) < 2e-5 * moved


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_scores_are_those_of_the_perturbed_module(precision):
    """Members, also frozen ones and odd halves of pairs, against a plain module loaded with centre + sigma eps."""
    setting = [option for option in SETTING if "lr_schedule" not in option]
    config = composed(*setting, "algo=genetic", "algo.parents=3", "sampler=antithetic", f"precision={precision}")
    parts = build(Options(config), SingleProcess())
    parts.distribution.step(0)
    job, like = parts.distribution.job, initial_weights(config)
    proposal = parts.algo.ask(1)
    batch = parts.task.batch(1, 0, config["batch_size"])
    scores = job.scorer.scores(proposal, 1, range(1, 8))[:, 0] / config["batch_size"]
    for member, score in zip(range(1, 8), scores, strict=True):
        base = proposal.bases[proposal.parent_of(member)].double().numpy()
        eps = (1 - 2 * (member % 2)) * definition_of_noise(config["seed"], 1, member // 2, base.size)
        expected = -loss(unflat(base + float(proposal.scale) * eps, like), batch.inputs.double(), batch.targets)
        assert score == pytest.approx(expected, rel=1e-5 if precision == "float32" else 3e-2)
    frozen = job.scorer.scores(proposal, 1, range(1))[0, 0] / config["batch_size"]
    expected = -loss(unflat(proposal.bases[0].double().numpy(), like), batch.inputs.double(), batch.targets)
    assert frozen == pytest.approx(expected, rel=1e-5 if precision == "float32" else 3e-2)
