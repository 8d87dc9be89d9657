"""Metrics that a task declares for evaluations on the test set; columns, figures and tables follow from them."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

FRACTION, FITNESS = "fraction", "fitness"  # units that a figure knows: an axis from 0 to 1, and the axis of the fitness
HIGHER, LOWER = "higher", "lower"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_FORM = re.compile(r",?\.\d{1,2}[efg%]")  # others could write gigabytes, and a run folder may be a stranger's


@dataclass(frozen=True)
class Metric:
    """Metric of an evaluation, a number. Raises ValueError for fields of another kind.

    ``name``: its key in ``summary.json`` and its column of ``metrics.csv``; ``label``: its words in tables and figures.
    ``form``: the format of a value, for example ``.4f``, ``,.1f`` or ``.3g``. ``unit``: ``fraction`` (from 0 to 1), ``fitness``
    (drawn on the fitness's axis), or a text behind the label. ``better``: higher | lower. ``column``: False for a
    metric that is in ``summary.json`` alone.
    """

    name: str
    label: str
    form: str = ".4g"
    unit: str = ""
    better: str = HIGHER
    column: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ValueError(f"a metric's name={self.name!r}: must be letters, digits and _, a letter first, at most 64")
        for field, most in (("label", 60), ("unit", 20)):
            text = getattr(self, field)
            if not isinstance(text, str) or not text.isprintable() or len(text) > most:
                raise ValueError(f"metric {self.name}: {field}={str(text)[:most]!r}: must be text of at most {most} characters")
        if not isinstance(self.form, str) or not _FORM.fullmatch(self.form):
            raise ValueError(f"metric {self.name}: form={str(self.form)[:20]!r}: must be a format like .4f, ,.1f, .3g or .1%")
        if self.better not in (HIGHER, LOWER):
            raise ValueError(f"metric {self.name}: better={self.better!r}: must be {HIGHER} or {LOWER}")
        if not isinstance(self.column, bool):
            raise ValueError(f"metric {self.name}: column={self.column!r}: must be True or False")

    @property
    def heading(self) -> str:
        """Label of the metric, with the unit where that is a text."""
        return self.label if self.unit in ("", FRACTION, FITNESS) else f"{self.label} ({self.unit})"

    def text(self, value: float) -> str:
        """Return ``value`` of the metric for reading."""
        return format(float(value), self.form)

    def reached(self, value: float, goal: float) -> bool:
        """Return whether ``value`` is at ``goal`` or better; a value that is not a number never is."""
        return value >= goal if self.better == HIGHER else value <= goal


# metrics of the tasks that come with neuro. Run folders that declare no metrics were made by versions that had these three
ACCURACY = Metric("test_accuracy", "test accuracy", ".4f", FRACTION)
LOSS = Metric("test_loss", "test loss", ".4f", better=LOWER, column=False)
RETURN = Metric("mean_return", "mean return", ".1f", FITNESS)


def as_plain(metrics: Sequence[Metric]) -> list[dict[str, Any]]:
    """Declaration of ``metrics`` as lists and dicts."""
    return [asdict(metric) for metric in metrics]


def from_plain(node: Any) -> tuple[Metric, ...]:
    """Return metrics of a declaration that :func:`as_plain` made. Raises ValueError for anything else."""
    if not isinstance(node, list) or not node or not all(isinstance(fields, dict) for fields in node):
        raise ValueError("it must be a list of metrics, the headline first")
    try:
        return tuple(Metric(**fields) for fields in node)
    except TypeError as error:
        raise ValueError(" ".join(str(error).split())[:100]) from error
