"""Estimates of ``neuro.ForwardGradient`` on random modules against autograd's gradient of the same module in float64.

The mean of many estimates may differ from the gradient by 4 standard errors. Half of the estimates give a direction in which
each parameter's mean is off, and the other half its size, so that one number is tested for a parameter. What fails is tested
with three times as many estimates, and where it also exceeds a hundredth of the gradient with a tenth of the noise: what only
the former noise shows is "smoothed".
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from random_programs.members import FIRSTS
from random_programs.parts import logits
from random_programs.reference import Batch, Case, cast, scored
from torch import Tensor, nn

import neuro_cli as neuro

# values that jump, branches, and what autograd takes for a constant
STEPS = (
    "argmax", "scatter_add", "if v", "if x", "masked_fill", "places", "Sign", "Scaled", "bucketize", "unique", "histc", "isin",
    "halting", "int(", "round(", "float(", "tolist", "if row", "numpy", "detach", "no_grad", ".data", "derivative", "History",
    "Meets", "item()", "masked_scatter", "autocast", "if self", "where(v", "key_padding", "packed", "unpool",
)  # fmt: skip
ESTIMATES, STANDARD_ERRORS, LEAST = 40, 4.0, 0.01
FINE = 1e-4  # size of noise that shows whether a difference is that of a smoothed loss (sorting, norms of small numbers)
ALONE = 0.6  # least cosine with the gradient of predictions that stand alone: they may leave half of the squares out


def loss(outputs: Any, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits(outputs), targets, reduction="none")


def exact(module: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return autograd's gradient."""
    double = scored(module, torch.float64)
    loss(double(cast(batch[0], torch.float64)), batch[1]).mean().backward()
    return {name: value.grad for name, value in double.named_parameters() if value.grad is not None}


def estimates(estimate: Any, module: nn.Module, batch: Batch, count: int) -> dict[str, Tensor]:
    """Return ``count`` estimates (count, n) of each parameter's gradient."""
    rows: dict[str, list[Tensor]] = {name: [] for name, _ in module.named_parameters()}
    for _ in range(count):
        module.zero_grad()
        estimate.backward(loss, *batch)
        for name, value in module.named_parameters():
            rows[name].append(torch.zeros(value.numel()) if value.grad is None else value.grad.flatten().clone())
    return {name: torch.stack(parts).double() for name, parts in rows.items()}


def off(made: dict[str, Tensor], right: dict[str, Tensor]) -> list[str]:
    """Return the names of the parameters whose mean estimate is off, and by how many standard errors."""
    size, found = math.sqrt(sum(float(value.square().sum()) for value in right.values())), []
    for name, rows in made.items():
        true = right[name].flatten() if name in right else torch.zeros(rows.shape[1], dtype=torch.float64)
        one, other = (rows - true).split(len(rows) // 2)
        direction = F.normalize(one.mean(0), dim=0)
        along = other @ direction
        mean, error = float(along.mean()), float(along.std()) / math.sqrt(len(along))
        if mean > STANDARD_ERRORS * error and mean > LEAST * max(float(true.norm()), LEAST * size):
            found.append(f"{name} by {mean / max(float(true.norm()), 1e-12):.2g} of it, {mean / max(error, 1e-12):.1f} errors")
    return found


def gradient(case: Case) -> str:
    """Plain noise, or control variates that are corrected always: no bias; predictions that stand alone: near the gradient."""
    r = case.r
    ways: list[dict[str, Any]] = [
        {"control_variates": False}, {"control_variates": False}, {"correction": "always"}, {"correction": "auto"}
    ]  # fmt: skip
    way = r.choice(ways)
    options = {
        "draws": 16, "antithetic": r.random() < 0.7, "space": r.choice(["auto", "outputs"]), "threads": r.choice([1, 2]),
        "schedule": r.choice(["one", "all"]), "scale": r.choice(["relative", "absolute"]), **way,
    }  # fmt: skip
    case.make(r.choice(FIRSTS))
    if case.module is None:
        return "invalid"
    if any(step in case.program.source() for step in STEPS):
        return "steps"
    module, batch = case.module, case.batch(8, 1.0)
    right = exact(module, batch)
    if not right or not all(value.isfinite().all() for value in right.values()):
        return "ill"
    estimate = neuro.ForwardGradient(module, seed=case.seed, **options)
    try:
        first = case.batches[0]
        estimate.backward(loss, first[0][:8], first[1][:8])
        if way.get("correction") == "auto":
            made = estimates(estimate, module, batch, 12)
            flat = [
                torch.cat([each[name].flatten() for name in right])
                for each in ({n: v[2:].mean(0) for n, v in made.items()}, right)
            ]
            cosine = float(F.cosine_similarity(*flat, dim=0))
            return "right" if cosine > ALONE else f"wrong: cosine {cosine:.2f}, {options}, {case.first}"
        for times in (1, 3):
            names = off(estimates(estimate, module, batch, ESTIMATES * times), right)
            if not names:
                return "right"
        smaller = neuro.ForwardGradient(module, seed=case.seed + 1, sigma=FINE, **options)
        if not off(estimates(smaller, module, batch, ESTIMATES * 3), right):
            return "smoothed"
    except neuro.UserError as error:
        return f"refused: {error}"
    return f"wrong: {'; '.join(names)}, {options}, {case.first}"
