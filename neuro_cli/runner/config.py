"""Root keys of a training run, a field each: its check, and whether ``neuro resume`` may change it.

A new key is a field here and a line in ``conf/train.yaml``, whose comment ``--help`` and the configuration page show.
The keys are no structured config of Hydra, which answers ``generations=abc`` with "Error merging override" and ``generations=0``
not at all. The checks here end with the key, the value and its range.

Commands check the keys before they import torch, so this module imports none.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Self, TypeVar

from neuro_cli.core.checks import PRECISION_NAMES, boolean, integer, number, one_of, thread_count
from neuro_cli.core.errors import ConfigError, UserError

LAYOUTS = ("shared_batch", "per_example")
BITS_32, BITS_64 = 2**32 - 1, 2**64 - 1

Check = Callable[[str, Any], Any]
Section = TypeVar("Section")


def key(check: Check | None = None, *, resumable: bool = False, default: Any = MISSING) -> Any:
    """Declare a key. ``check(key, value)`` returns the value or raises ConfigError; None: other code checks it.

    ``resumable``: ``neuro resume`` may change it. ``default``: its value in folders of versions that had no such key.
    """
    return field(default=default, metadata={"check": check or (lambda key, value: value), "resumable": resumable})


def bounded(low: int, high: int | None = None) -> Check:
    """Return the check of a config key: an integer in [low, high]."""
    return lambda key, value: integer(key, value, low, high)


def positive(key: str, value: Any) -> float:
    """Check a config key: a number above 0. Raises ConfigError."""
    return number(key, value, above=0.0)


def choice(*allowed: str) -> Check:
    """Return the check of a config key: a text among ``allowed``."""
    return lambda key, value: one_of(key, value, allowed)


def or_none(check: Check) -> Check:
    """Return ``check`` for a config key that may be null."""
    return lambda key, value: None if value is None else check(key, value)


def several(check: Check) -> Check:
    """Return the check of a config key that is a value or a list of them, null for none: a tuple."""

    def checked(key: str, value: Any) -> tuple[Any, ...]:
        values = [] if value is None else value if isinstance(value, list | tuple) else [value]
        return tuple(check(key, each) for each in values)

    return checked


def _metric_name(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(key, value, "must be the name of a metric of the test")
    return value


@dataclass(frozen=True)
class StopConfig:
    """Metric that ends the run, and its value ``at`` that time; both None: the run has no target. Raises ConfigError."""

    metric: str | None = key(or_none(_metric_name), resumable=True, default=None)
    at: float | None = key(or_none(number), resumable=True, default=None)

    def __post_init__(self) -> None:
        if (self.metric is None) != (self.at is None):
            missing = "stop.at" if self.at is None else "stop.metric"
            raise ConfigError(missing, None, "stop.metric and stop.at go together: a metric, and the value that ends the run")


@dataclass(frozen=True)
class CheckpointConfig:
    """Checkpoints: generations between two, number of last ones that stay, and whether the best one stays too."""

    every: int = key(bounded(1), resumable=True)
    keep: int = key(bounded(1), resumable=True)
    best: bool = key(boolean, resumable=True, default=False)


@dataclass(frozen=True)
class EvaluateConfig:
    """Evaluations on the test set: generations between two, and whether one precedes the first generation."""

    every: int = key(bounded(1), resumable=True)
    start: bool = key(boolean, resumable=True, default=False)


@dataclass(frozen=True)
class PaceConfig:
    """Pace of a run with a time limit. ``measure``: measure it. From generation ``since[i]`` on schedules end at ``end[i]``.

    Raises ConfigError.
    """

    measure: bool = key(boolean, resumable=True, default=False)
    since: tuple[int, ...] = key(several(bounded(1, BITS_32)), default=())
    end: tuple[int, ...] = key(several(bounded(1)), default=())

    def __post_init__(self) -> None:
        if len(self.since) != len(self.end):
            allowed = f"needs as many as pace.since ({len(self.since)}): from generation pace.since on schedules end at pace.end"
            raise ConfigError("pace.end", list(self.end), allowed)
        if list(self.since) != sorted(set(self.since)):
            raise ConfigError("pace.since", list(self.since), "must ascend")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Root keys of ``conf/train.yaml``; ``plain``: the whole resolved config, as a run folder keeps it."""

    plain: dict[str, Any]
    seed: int = key(bounded(0, BITS_64))
    generations: int = key(bounded(1, BITS_32), resumable=True)
    population: int = key(bounded(1, BITS_32))
    batch_size: int = key(bounded(1))
    layout: str = key(choice(*LAYOUTS))
    precision: str = key(choice(*PRECISION_NAMES))
    weights: str = key(choice(*PRECISION_NAMES), default="float32")
    time_limit: float | None = key(or_none(positive), resumable=True)
    pace: PaceConfig
    stop: StopConfig
    threads: int | None = key(or_none(thread_count), resumable=True)
    cuda_graphs: bool = key(boolean, resumable=True, default=False)
    device: str = key(resumable=True)
    ranks: int | None = key(resumable=True)
    checkpoint: CheckpointConfig
    evaluate: EvaluateConfig

    def __post_init__(self) -> None:
        if self.ranks is not None:
            # more ranks than work is a typing error, whose processes would take all of the machine's memory
            integer("ranks", self.ranks, 1, max(self.population, self.batch_size))

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Check the root keys. Raises UserError for a key that is missing, of another type, or out of its range."""
        return section(cls, plain, plain=plain)


def section(kind: type[Section], node: Any, prefix: str = "", **more: Any) -> Section:
    """Make the dataclass ``kind`` of the keys in ``node``, which stand below ``prefix``. Raises UserError."""
    if not isinstance(node, Mapping) and node not in (None, MISSING):
        names = [prefix + each.name for each in fields(kind)]  # type: ignore[arg-type]
        raise ConfigError(prefix.rstrip("."), node, f"it has keys of its own: {', '.join(names)}")
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]  # typing has no name for dataclasses
        name = prefix + each.name
        if isinstance(each.type, type) and is_dataclass(each.type):
            values[each.name] = section(each.type, _value(node, each.name), f"{name}.")
        elif "check" in each.metadata:
            value = _value(node, each.name, each.default)
            if value is MISSING:
                raise UserError(f"{name}: it is missing in the config")
            values[each.name] = each.metadata["check"](name, value)
    return kind(**values, **more)


def keys_of(kind: type = RunConfig, prefix: str = "") -> dict[str, "Field[Any]"]:
    """Return the fields of all keys of ``kind``, those of its sections too, by dotted key."""
    declared: dict[str, Field[Any]] = {}
    for each in fields(kind):
        if isinstance(each.type, type) and is_dataclass(each.type):
            declared |= keys_of(each.type, f"{prefix}{each.name}.")
        elif "check" in each.metadata:
            declared[prefix + each.name] = each
    return declared


def check_early(config: Mapping[str, Any], kind: type = RunConfig) -> None:
    """Check the keys that ``config`` has, except those that refer to others. Raises ConfigError."""
    for name, each in keys_of(kind).items():
        value: Any = config
        for part in name.split("."):
            value = _value(value, part)
        if value is not MISSING and not (isinstance(value, str) and "${" in value):
            each.metadata["check"](name, value)


def resumable(kind: type = RunConfig) -> tuple[str, ...]:
    """Return the root keys that ``neuro resume`` may change."""
    return tuple(name for name, each in keys_of(kind).items() if each.metadata["resumable"])


def _value(node: Any, name: str, default: Any = MISSING) -> Any:
    return node.get(name, default) if isinstance(node, Mapping) else default


# groups and keys of a run that ``neuro resume`` may change; all others stay as its config has them
RESUME_GROUPS = ("distribution", "fabric", "logger")
RESUME_KEYS = (
    *resumable(),
    "task.root",
    "task.download",
    "task.files",
    "task.environments",
    "task.simulator",
    "task.evaluation_episodes",
    "distribution.ranks_shaping",
    "distribution.wire",
    "distribution.overlap",
    "distribution.share_node",
    "distribution.encoding",
    "distribution.pieces",
    "algo.keep_last_step",
    "algo.non_finite",
)
