"""Outcomes of scoring many members of a network in one pass, held against single members in float64.

fast, fast (both sides), mapped    one pass, by :class:`PerturbedForward` or :class:`MappedForward`, and right
one by one                         right, by a forward pass for each member
refused                            an error that says so, and no numbers
WRONG                              other numbers, or a module that answers otherwise afterwards, without an error
"""

import copy
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from subjects import Subject
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import neuro_cli as neuro
from neuro_cli.core.errors import UserError
from neuro_cli.core.seeds import seeded
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.perturbed import PerturbedForward

SIGMA, SEED = 0.05, 3
EXACT, ROUGH = 1e-6, 1e-3  # share of the largest output that is allowed in float64, and in float32
ROUNDING, LOOSE = 10.0, 1e-2  # times what single members of float32 are off, allowed too; beyond the second nothing is shown
WAYS = {PerturbedForward: "fast", MappedForward: "mapped"}


@dataclass
class Outcome:
    """``way`` taken, the largest difference over the largest reference value, and why it is no better way."""

    way: str
    difference: float | None = None
    note: str = ""


@dataclass
class Heard:
    """What neuro's log says of the choice, and the ways of the passes."""

    lines: list[str] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)

    @property
    def way(self) -> str:
        return self.ways[-1] if self.ways else "one by one"

    @property
    def reason(self) -> str:
        """The last line that says why members do not share a pass, or not the faster one."""
        said = [line for line in self.lines if "one by one" in line or "slower" in line or line.startswith("not by")]
        return said[-1] if said else ""


@contextmanager
def heard() -> Iterator[Heard]:
    """Context that listens to the log, and to the passes that are begun."""
    found, logger = Heard(), logging.getLogger("neuro_cli")
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: found.lines.append(record.getMessage())  # type: ignore[method-assign]
    own = {kind: (kind.__enter__, kind.__exit__) for kind in WAYS}

    def enter(self: Any) -> Any:
        found.ways.append(WAYS[type(self)])
        return own[type(self)][0](self)

    def leave(self: Any, *error: Any) -> Any:
        if any(error):  # a pass that failed served nobody
            found.ways.pop()
        return own[type(self)][1](self, *error)

    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    for kind in WAYS:
        kind.__enter__, kind.__exit__ = enter, leave
    try:
        yield found
    finally:
        for kind, methods in own.items():
            kind.__enter__, kind.__exit__ = methods
        logger.removeHandler(handler)
        logger.setLevel(level)


def leaves(output: Any) -> list[Tensor]:
    """The tensors of an output, through its containers. Other objects (caches of keys) a pass for many members leaves out."""
    if isinstance(output, Tensor):
        return [output]
    inner = output.values() if isinstance(output, Mapping) else output if isinstance(output, list | tuple) else ()
    return [leaf for part in inner for leaf in leaves(part)]


def rows_of(output: Any, rows: int) -> list[Tensor]:
    """The leaves that have a row for each example."""
    return [leaf for leaf in leaves(output) if leaf.dim() and len(leaf) == rows]


def difference(got: list[Tensor], want: list[Tensor]) -> float:
    """Largest difference over the largest value, of the worst leaf; infinite for other shapes."""
    if [leaf.shape for leaf in got] != [leaf.shape for leaf in want]:
        return float("inf")
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if not b.is_floating_point():
            worst = max(worst, 0.0 if torch.equal(a, b) else 1.0)
        elif b.numel():
            off, size = (a.double() - b.double()).abs().max().item(), b.abs().max().item()
            worst = max(worst, off / size if size else off) if off == off else float("inf")
    return worst


def brief(error: BaseException) -> str:
    """Kind and first line of an error, kind left out where the text is made for users."""
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:198] + ".."
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def judged(way: str, off: float, allowed: float, note: str = "") -> Outcome:
    return Outcome(way if off <= allowed else "WRONG", off, note)


class NothingShownError(Exception):
    """Reason why an outcome would say nothing: no rows, members that give the same, or that do not repeat."""


def told_apart(values: list[Any]) -> None:
    """Raise NothingShownError where members give the same: then no mistake would show. ``values``: of each member, tensors."""
    if not values[0]:
        raise NothingShownError("no output has a row for each example")
    if max(difference(other, values[0]) for other in values[1:]) < 10 * ROUGH:
        raise NothingShownError("the members give nearly the same")


def exact(subject: Subject, x: Tensor) -> Tensor:
    return x.to(subject.exact) if x.is_floating_point() else x


def made(subject: Subject) -> nn.Module:
    """The network, the same at every call."""
    with seeded(SEED):
        return subject.make()


# ---- neuro.perturbed


def perturbed(subject: Subject, sampler: str, members: int, examples: int) -> list[Outcome]:
    """Outcomes of passes in ``neuro.perturbed``: on rows of each member's own, and on the same for all members."""
    # a module each: a pass of the module alone, in between, may leave computed weights in a cache
    modules = [made(subject).eval() for _ in range(2)]
    noises = [
        neuro.perturbed(module, sampler, members, sigma=SIGMA, seed=SEED, shared=n == 1) for n, module in enumerate(modules)
    ]
    for module in modules:
        module.to(subject.exact)
    x = exact(subject, subject.inputs(examples * members))
    with torch.no_grad():
        before = rows_of(subject.call(copy.deepcopy(module), x[:examples]), examples)
        own, same = [], []
        for member, part in enumerate(x.split(examples)):
            copied = member_of(module, noises[0], member)
            own.append(rows_of(subject.call(copied, part), examples))
            same.append(rows_of(subject.call(copied, x[:examples]), examples))
    told_apart(same)
    return [
        of_pass(
            subject, modules[shared], noises[shared], given, [torch.cat(parts) for parts in zip(*wanted, strict=True)], before
        )
        for shared, (given, wanted) in enumerate(((x, own), (x[:examples], same)))
    ]


def member_of(module: nn.Module, noise: neuro.perturbed, member: int) -> nn.Module:
    """A copy of the module with a member's parameters, by the sampler's noise in plain operations."""
    copied, sampler = copy.deepcopy(module), noise._sampler
    sides = 2 if sampler.antithetic else 1
    step = SIGMA * (-1.0) ** (member % sides) * sampler.explicit(0, member // sides, torch.float64)
    for place, parameter in zip(noise._layout.places, trainable(copied), strict=True):
        parameter += place.view(step)
    return copied


def of_pass(
    subject: Subject, module: nn.Module, noise: neuro.perturbed, x: Tensor, wanted: list[Tensor], before: list[Tensor]
) -> Outcome:
    """Outcome of the second of two passes; at the first one a way may be chosen. ``before``: of the module alone."""
    rows, examples = len(wanted[0]), len(before[0])
    with heard() as found:
        try:
            with noise:
                first = rows_of(subject.call(module, x), rows)
                found.ways.clear()
                got = rows_of(subject.call(module, x), rows)
        except Exception as error:
            return Outcome("refused", None, brief(error))
    off = max(difference(got, wanted), difference(first, wanted))
    allowed = EXACT if subject.exact == torch.float64 else ROUGH
    outcome = judged(found.way, off, allowed, found.reason)
    with torch.no_grad():
        try:
            after = rows_of(subject.call(module, x[:examples]), examples)
        except Exception as error:
            return Outcome("WRONG", off, f"afterwards the module itself fails: {brief(error)}")
    return outcome if difference(after, before) < allowed else Outcome("WRONG", off, "afterwards the module gives other numbers")


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


# ---- Evolution.step


def score_of(subject: Subject, module: nn.Module, x: Tensor, rows: int) -> Tensor:
    """A value for each of so many rows of outputs, that every number of every output takes part in."""
    total = torch.zeros(rows, dtype=torch.float64)
    for leaf in rows_of(subject.call(module, x), rows):
        if leaf.is_floating_point():
            flat = leaf.reshape(rows, -1)
            weights = torch.cos(torch.arange(flat.shape[1], dtype=flat.dtype))
            total = total + (flat * weights).sum(1) / max(1, flat.shape[1]) ** 0.5
    return total


def step(subject: Subject, sampler: str, members: int, examples: int) -> Outcome:
    """Outcome of the second ``Evolution.step(fitness, inputs, targets)``: its scores against ``ask`` of the same generation."""
    x, targets = subject.inputs(examples), torch.zeros(examples)

    def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return score_of(subject, module, inputs, len(targets))  # members may share inputs, and then have more outputs

    with heard() as found:
        try:
            with neuro.Evolution(
                made(subject), sampler=sampler, population=members, sigma=SIGMA, lr=1e-3, seed=SEED, threads=1
            ) as evolution:
                evolution.step(fitness, x, targets)  # the first one chooses, and says how convolutions' weights lie
                wanted, rough = of_single(subject, evolution, x)
                told_apart([[value] for value in torch.from_numpy(wanted)])
                found.ways.clear()
                got = scores_of(evolution, fitness, x, targets)
        except NothingShownError:
            raise
        except Exception as error:
            return Outcome("refused", None, brief(error))
    largest = max(np.abs(wanted).max(), 1e-30)
    off, rounded = float(np.abs(got - wanted).max() / largest), float(np.abs(rough - wanted).max() / largest)
    if rounded > LOOSE:
        raise NothingShownError(f"single members in float32 are off by {rounded:.0e}")
    way = found.way
    if way == "fast" and both_sides(evolution):
        way = "fast (both sides)"
    return judged(way, off, max(ROUGH, ROUNDING * rounded), found.reason)


def of_single(subject: Subject, evolution: neuro.Evolution, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean scores (n,) of the next generation's members, each alone: in float64 and in float32."""
    candidates, fine, rough = evolution.ask(), [], []
    with torch.no_grad():
        for candidate in candidates:
            fine.append(score_of(subject, copy.deepcopy(candidate).to(subject.exact), exact(subject, x), len(x)).mean().item())
            rough.append(score_of(subject, candidate, x, len(x)).mean().item())
    return np.array(fine), np.array(rough)


def scores_of(evolution: neuro.Evolution, fitness: Any, x: Tensor, targets: Tensor) -> np.ndarray:
    """Mean scores (n,) that the members of a step got."""
    assert evolution._population is not None
    scorer, seen = evolution._population.distribution.job.scorer, []
    scores = scorer.scores

    def kept(*args: Any, **named: Any) -> np.ndarray:
        seen.append(scores(*args, **named))
        return seen[-1]

    scorer.scores = kept
    evolution.step(fitness, x, targets)
    return np.concatenate(seen)[:, 0] / len(x)


def both_sides(evolution: neuro.Evolution) -> bool:
    """Whether the fast way is given the inputs of both sides."""
    assert evolution._population is not None
    scorers: dict[Any, Any] = getattr(evolution._population.distribution.job.scorer, "_scorers", {})
    return any(getattr(getattr(scorer, "_way", None), "repeats_sides", False) for scorer in scorers.values())


# ---- a subject


def fits(subject: Subject, examples: int) -> int:
    """Number of parameters. Raises what the network raises for its examples, evaluating and as members are scored."""
    module = made(subject).eval()
    with torch.no_grad():
        subject.call(copy.deepcopy(module), subject.inputs(examples))
        for part in module.modules():
            if isinstance(part, _BatchNorm):
                part.train()
        subject.call(module, subject.inputs(examples))
    return sum(parameter.numel() for parameter in trainable(module))


KINDS = ("own rows", "shared rows", "step")


def outcomes(subject: Subject, sampler: str, members: int, examples: int) -> dict[str, Outcome]:
    """Outcomes of ``neuro.perturbed`` with rows of each member's own and with the same for all, and of ``Evolution.step``."""
    own, shared = perturbed(subject, sampler, members, min(2, examples))
    return dict(zip(KINDS, (own, shared, step(subject, sampler, members, examples)), strict=True))
