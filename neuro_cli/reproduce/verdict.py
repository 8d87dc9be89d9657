"""Verdicts on measured values by the expectations of an entry.

An expectation is a bound: at most or at least a multiple of the published value, of another row's, or of a number; or near it.
Only a row that is compared with a published number can be reproduced. A goal, an order of two rows or a formula that holds is
as expected.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
AS_EXPECTED, NOT_AS_EXPECTED = "as expected", "not as expected"
NOT_REACHED, NOT_JUDGED, NOT_MEASURABLE = "not reached", "not judged", "not measurable here"
FAILED, REFERENCE = "failed", "reference"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, AS_EXPECTED, NOT_AS_EXPECTED, NOT_REACHED, NOT_JUDGED, NOT_MEASURABLE, FAILED, REFERENCE)
KINDS = {"at_most": "≤", "at_least": "≥", "near": "≈"}
PUBLISHED = "published"


@dataclass(frozen=True)
class Expectation:
    """Bound on a value. ``kind``: at_most | at_least | near; ``of``: ``published``, the name of a row, or a number.

    ``times``: factor of that; ``within``: relative deviation that ``near`` allows; ``gpu``: judged on a GPU only.
    """

    kind: str
    of: str | float
    times: float = 1.0
    within: float = 0.0
    gpu: bool = False

    def holds(self, value: float, reference: float) -> bool:
        """Return whether ``value`` meets the expectation given ``reference``; both may be infinite."""
        target = self.times * reference
        if self.kind == "near":
            return abs(value - target) <= self.within * abs(target)
        return value <= target if self.kind == "at_most" else value >= target

    def __str__(self) -> str:
        of = f"{self.of:g}" if isinstance(self.of, float) else "published" if self.of == PUBLISHED else f"“{self.of}”"
        target = of if self.times == 1.0 else f"{self.times:g} x {of}"
        allowed = f" ± {100 * self.within:g}%" if self.kind == "near" else ""
        return f"{KINDS[self.kind]} {target}{allowed}"


@dataclass(frozen=True)
class Verdict:
    """Verdict: ``word``, one of ``VERDICTS``, and ``reason``, empty where the word says all."""

    word: str
    reason: str = ""


def judge(
    value: float,
    expectations: Sequence[Expectation],
    references: Mapping[str, float | None],
    gpu: bool,
    tried: float | None = None,
    unit: str = "",
) -> Verdict:
    """Judge ``value`` by all expectations. ``references``: published value and rows by name, None for a missing one.

    One that fails outweighs others that cannot be judged, and one that cannot be judged outweighs those that hold; so a row is
    reproduced, or as expected, when all expectations hold. Without expectations the value is a reference for other rows.

    An infinite value or reference is a goal that was never reached, so no order of the two is known; ``tried`` (in ``unit``) was
    spent on it, and a bound that lies within that is broken. A row that did not reach its goal is "not reached", one whose
    reference did not is "not judged"; "not measurable here" is what this machine lacks.
    """
    spent = f"not reached in {tried:.4g} {unit}".strip() if math.isinf(value) and tried is not None else ""
    if not expectations:
        return Verdict(REFERENCE, spent)
    broken, skipped, met = [], [], []
    for expectation in expectations:
        reference = expectation.of if isinstance(expectation.of, float) else references[expectation.of]
        if expectation.gpu and not gpu:
            skipped.append(f"{expectation} is for a GPU, there is none")
        elif reference is None or math.isnan(reference):
            skipped.append(f"{expectation} is not judged, that was not measured")
        elif math.isinf(reference):
            skipped.append(f"{expectation} is not judged, that was never reached")
        elif spent and not (expectation.kind == "at_most" and tried is not None and tried >= expectation.times * reference):
            skipped.append(f"{expectation} is not judged")
        elif expectation.holds(value, reference):
            met.append(f"{expectation} holds")
        else:
            target = expectation.times * reference
            broken.append(f"not {expectation}" + ("" if expectation.of == target else f" = {target:.4g}"))
    never = [spent] if spent else []
    others = [references[each.of] or 0.0 for each in expectations if isinstance(each.of, str)]
    published = any(expectation.of == PUBLISHED for expectation in expectations)
    if broken:
        return Verdict(NOT_REPRODUCED if published else NOT_AS_EXPECTED, "; ".join(never + broken + skipped))
    if skipped:
        word = NOT_REACHED if spent else NOT_JUDGED if any(map(math.isinf, others)) else NOT_MEASURABLE
        return Verdict(word, "; ".join(never + skipped + met))
    return Verdict(REPRODUCED if published else AS_EXPECTED)
