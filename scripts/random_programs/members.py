"""Members of random modules: fitnesses of ``Evolution.step`` and outputs in ``neuro.perturbed`` against a plain loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from random_programs.parts import logits
from random_programs.reference import INVALID, Batch, Case, alone, cast, compared, fitness, on, scored
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied

MEMBERS, SIGMA = 8, 0.1
SAMPLERS = ("antithetic", "iid", "low_rank", "sign_flip", "permutation", "noise_table")
FIRSTS = ["zero", "equal", "unequal"]


def scores_seen(es: neuro.Evolution) -> list[np.ndarray]:
    """Return a list that receives the fitnesses of each generation."""
    scores: list[np.ndarray] = []
    shaped = es._algo.combination

    def seen(*given: Any) -> Any:
        scores.append(np.ravel(given[-1]))
        return shaped(*given)

    es._algo.combination = seen  # type: ignore[method-assign]
    return scores


def step(case: Case) -> str:
    """A fitness of a batch, with a random sampler, layout and number of threads, on all batches in turn."""
    r = case.r
    options = {"sampler": r.choice(SAMPLERS), "layout": r.choice(["shared_batch", "per_example"]), "threads": r.choice([1, 2])}
    case.make(r.choice(FIRSTS))
    if case.module is None:
        return "invalid"
    es = neuro.Evolution(case.module, population=MEMBERS, sigma=SIGMA, lr=0.05, seed=case.seed, **options)  # type: ignore[arg-type]
    scores, sides = scores_seen(es), 2 if es._sampler.antithetic else 1
    for generation, given in enumerate(case.batches):
        before = copied(es.module)
        try:
            es.step(fitness, *given)
        except neuro.UserError as error:
            return f"refused: {error}"
        layout = ParameterLayout(before, es._task.memory_format is torch.channels_last)
        share = len(given[0]) // (MEMBERS // sides)

        def member(which: int, dtype: torch.dtype) -> float:
            step = es._sampler.explicit(generation, which // sides, torch.float32)  # type: ignore[attr-defined]  # noqa: B023
            flat = layout.flatten(before) + SIGMA * (1 - 2 * (which % sides)) * step  # noqa: B023
            low = which // sides * share  # noqa: B023
            mine = given if options["layout"] == "shared_batch" else (given[0][low : low + share], given[1][low : low + share])  # noqa: B023
            return float(alone(before, layout, flat, on(mine), dtype))  # noqa: B023

        result = compared(scores[-1], *(np.array([member(i, t) for i in range(MEMBERS)]) for t in (torch.float32, torch.float64)))
        if result != "right":
            return f"{result}, {options}, {case.first}, generation {generation}" if result != "ill" else "ill"
    return "right"


class Twice(nn.Module):
    """A module that is called twice in a pass."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 0.5 * self.inner(x.flip(-1))


class Functional(nn.Module):
    """A module that is called with weights computed from its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.gain = inner, nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        changed = {name: value * (1 + self.gain) for name, value in self.inner.named_parameters()}
        return torch.func.functional_call(self.inner, changed, (x,))


def frozen(case: Case, module: nn.Module) -> nn.Module:
    for parameter in list(module.parameters())[:-1]:
        parameter.requires_grad_(case.r.random() < 0.5)
    return module


def tied(case: Case, module: nn.Module) -> nn.Module:
    """Tie two parameters of the same shape."""
    entries = [(part, name, value) for part in module.modules() for name, value in part.named_parameters(recurse=False)]
    for one, entry in enumerate(entries):
        for part, name, other in entries[one + 1 :]:
            if entry[2].shape == other.shape and entry[2].dim() > 0:
                setattr(part, name, entry[2])
                return module
    return module


FORMS: dict[str, Callable[[Case, nn.Module], nn.Module]] = {
    "plain": lambda case, module: module,
    "frozen": frozen,
    "tied": tied,
    "bfloat16": lambda case, module: module.bfloat16(),
    "twice": lambda case, module: Twice(module),
    "functional": lambda case, module: Functional(module),
    "compiled": lambda case, module: torch.compile(module, backend="eager"),  # type: ignore[dict-item]
}
ALGOS = ("openai_es", "snes", "sep_cma_es", "cr_fm_nes", "genetic", "ars", "cma_es", "xnes", "layers")
DENSE = 400  # most parameters of algorithms with a covariance matrix


def algo_of(case: Case, module: nn.Module, antithetic: bool = True) -> Any:
    name = case.r.choice(ALGOS)
    parameters = [(key, value.numel()) for key, value in module.named_parameters() if value.requires_grad]
    if next(module.parameters()).dtype == torch.bfloat16:
        return "openai_es"  # others keep a centre in float32
    if name == "genetic":
        return neuro.algo.Genetic(parents=3)
    if name == "layers":
        scales = {key: {"sigma": SIGMA * case.r.choice([0.3, 1.0, 3.0])} for key, _ in parameters[:3]}
        return neuro.algo.OpenAIES(sigma=SIGMA, layers=scales)
    if name in ("ars", "cr_fm_nes") and not antithetic:
        return "snes"
    if name in ("cma_es", "xnes") and sum(count for _, count in parameters) > DENSE:
        return "sep_cma_es"
    return name


def _hidden(member: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A penalty on what a part gives, seen by a hook."""
    seen: list[Tensor] = []
    part = next((part for part in member.modules() if isinstance(part, nn.Linear)), member)
    with part.register_forward_hook(lambda part, given, made: seen.append(made.double().square().mean())):
        mean = fitness(member, inputs, targets).double().mean()
    return mean - 0.1 * sum(seen)


def _evaluated(member: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    member.eval()
    return fitness(member, inputs, targets).double().mean()


CLOSURES: dict[str, Callable[[nn.Module, Tensor, Tensor], Any]] = {
    "one": lambda member, x, y: fitness(member, x, y).double().mean(),
    "examples": lambda member, x, y: fitness(member, x, y),
    "number": lambda member, x, y: float(fitness(member, x, y).double().mean()),
    "siamese": lambda member, x, y: -(logits(member(x)) - logits(member(x.flip(-1)))).double().square().mean(),
    "same": lambda member, x, y: fitness(member, x, y).double().mean() + logits(member(x)).double().mean(),
    "halves": lambda member, x, y: sum(fitness(member, x[at::2], y[at::2]).double().mean() for at in (0, 1)),
    "critic": lambda member, x, y: (logits(member(x))[:, 0].mean() - logits(member(x.roll(1, 0)))[:, 1].tanh().mean()).double(),
    "penalty": lambda member, x, y: fitness(member, x, y).double().mean()
    - 0.01 * sum(value.double().square().sum() for value in member.parameters()),
    "keyword": lambda member, x, y: -torch.nn.functional.cross_entropy(logits(member(x=x)), y).double(),
    "hook": _hidden,
    "evaluated": _evaluated,
}  # fmt: skip


def closure(case: Case) -> str:
    """Closures of ``Evolution`` that call their member several times, look into it or set its mode, with a shared pass or not."""
    r = case.r
    options = {"sampler": r.choice(SAMPLERS), "shared_pass": r.random() < 0.7, "threads": r.choice([1, 2])}
    kinds = [r.choice(list(CLOSURES)) for _ in range(2)]
    case.make(r.choice(FIRSTS))
    if case.module is None:
        return "invalid"
    es = neuro.Evolution(case.module, population=MEMBERS, sigma=SIGMA, lr=0.05, seed=case.seed, **options)  # type: ignore[arg-type]
    scores, sides = scores_seen(es), 2 if es._sampler.antithetic else 1
    for generation, (inputs, targets) in enumerate(case.batches):
        before, kind = copied(es.module), kinds[generation // 2]
        try:
            with torch.no_grad():
                CLOSURES[kind](copied(before), inputs, targets)
        except INVALID:
            return "invalid"
        try:
            es.step(lambda member: CLOSURES[kind](member, inputs, targets))  # noqa: B023
        except neuro.UserError as error:
            return f"refused: {error}"
        layout, loops = ParameterLayout(before, es._task.memory_format is torch.channels_last), []
        for dtype in (torch.float32, torch.float64):
            parts = []
            for which in range(MEMBERS):
                noise = es._sampler.explicit(generation, which // sides, torch.float32)  # type: ignore[attr-defined]
                flat = layout.flatten(before) + SIGMA * (1 - 2 * (which % sides)) * noise
                run = lambda member, dtype: CLOSURES[kind](member, cast(inputs, dtype), targets)  # noqa: B023, E731
                value = alone(before, layout, flat, run, dtype)
                parts.append(float(value.double().mean()) if isinstance(value, Tensor) else value)
            loops.append(np.array(parts))
        result = compared(scores[-1], *loops)
        if result != "right":
            return f"{result}, {kind}, {options}, {case.first}, generation {generation}" if result != "ill" else "ill"
    return "right"


def perturbed(case: Case) -> str:
    """Several calls in one context, of batches of their own or shared by the members, some inside of another one's context."""
    r = case.r
    options = {"sampler": r.choice(SAMPLERS), "shared": r.random() < 0.5, "generation": r.randint(0, 3)}
    case.make(r.choice(FIRSTS))
    other = Case(case.seed + 1_000_000, type(case.program))
    other.make("unequal")
    if case.module is None or other.module is None:
        return "invalid"
    for each in (case, other):
        assert each.module is not None
        for part, given in zip(each.module.modules(), scored(each.module, torch.float32).modules(), strict=True):
            part.training = given.training
    torch.backends.mha.set_fastpath_enabled(False)
    nested, calls = r.random() < 0.3, [case.batches[place] for place in r.choices(range(len(case.batches)), k=3)]
    given, inner = [], []
    before = [copied(each.module) for each in (case, other)]
    try:
        contexts = [
            neuro.perturbed(each.module, members=MEMBERS, sigma=SIGMA, seed=case.seed, **options)  # type: ignore[arg-type]
            for each in (case, other)
        ]  # fmt: skip
        with contexts[0]:
            for batch in calls:
                given.append(logits(case.module(batch[0])))
                if nested:
                    with contexts[1]:
                        inner.append(logits(other.module(other.batches[0][0])))
    except neuro.UserError as error:
        return f"refused: {error}"
    pairs = [(given, contexts[0], before[0], calls)]
    if nested:
        pairs.append((inner, contexts[1], before[1], [other.batches[0]] * 3))
    for outputs, context, module, batches in pairs:
        for call, (made, batch) in enumerate(zip(outputs, batches, strict=True)):
            loops = [_answers(context, module, batch, options["shared"], dtype) for dtype in (torch.float32, torch.float64)]
            if made.shape != loops[0].shape:
                return f"wrong: shape {tuple(made.shape)}, {options}, call {call}"
            result = compared(made.double().numpy(), *(loop.double().numpy() for loop in loops))
            if result != "right":
                return f"{result}, {options}, {case.first}, call {call}, nested {nested}" if result != "ill" else "ill"
    return "right"


def _answers(context: Any, module: nn.Module, batch: Batch, shared: bool, dtype: torch.dtype) -> Tensor:
    """Return the outputs of all members one after the other."""
    layout, sampler, outputs = ParameterLayout(module), context._sampler, []
    share = len(batch[0]) // MEMBERS
    for which in range(MEMBERS):
        direction, sign = sampler.side(which)
        flat = layout.flatten(module) + SIGMA * sign * sampler.explicit(context._generation, direction, torch.float32)
        rows = batch[0] if shared else batch[0][which * share : (which + 1) * share]
        outputs.append(alone(module, layout, flat, lambda member, dtype, rows=rows: logits(member(cast(rows, dtype))), dtype))
    return torch.cat(outputs)
