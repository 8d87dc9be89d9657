"""Identity of a run: the config keys that determine its results. Every checkpoint stores it."""

from collections.abc import Iterator, Mapping
from typing import Any

from neuro_cli.core.errors import UserError

KEYS = ("seed", "population", "batch_size", "layout", "precision", "weights", "task", "model", "sampler", "algo")
# keys of the distribution that change results, with the value under which all methods agree
METHOD = {"ranks_shaping": "global", "wire": "float32", "staleness": 0}
# keys of those groups that leave the trained parameters as they are: where data lies, how much is tested or stepped at once,
# what is written along with checkpoints, whether a member without a finite fitness ends the run
FREE = (
    "task.root",
    "task.download",
    "task.files",
    "task.evaluation_batch",
    "task.evaluation_episodes",
    "task.environments",
    "algo.keep_last_step",
    "algo.non_finite",
)
# values that all give the same numbers, the usual one first; another value is another run
SAME = {"task.simulator": ("auto", "gymnasium", "direct"), "weights": ("float32",), "task.shift": (0,), "task.distort": (0,)}


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted keys and leaf values of a nested config."""
    if not isinstance(node, dict):
        return {prefix: node}
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return leaves


def identity_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dotted keys and values that determine the run's results."""
    leaves = flatten({key: config[key] for key in KEYS if key in config})  # folders of earlier versions lack some
    for key, usual in METHOD.items():
        value = config["distribution"].get(key, usual)
        if value != usual:
            leaves[f"distribution.{key}"] = value
    return {key: value for key, value in leaves.items() if key not in FREE and value not in SAME.get(key, ())}


def refuse_other(config: Mapping[str, Any], saved: dict[str, Any]) -> None:
    """Raise UserError when ``config`` describes another run than the checkpoint's ``saved`` identity."""
    usual = {f"distribution.{key}": value for key, value in METHOD.items()} | {key: values[0] for key, values in SAME.items()}
    now, saved = usual | identity_of(config), usual | saved
    refuse_difference(now, saved, "neuro train")


def refuse_difference(now: dict[str, Any], saved: dict[str, Any], verb: str) -> None:
    """Raise UserError, naming the first key, when two identities differ. ``verb``: what begins a new run."""
    for key in sorted(now.keys() | saved.keys()):
        if now.get(key) != saved.get(key):
            raise UserError(
                f"{key}={now.get(key)}: the run's checkpoint has {key}={saved.get(key)}; resume keeps it, "
                f"and another value is a new run ({verb})"
            )


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of everything in ``node`` that is no dict and no list."""
    if not isinstance(node, dict | list):
        yield key, node
        return
    for name, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield from leaves(value, f"{key}.{name}" if key else str(name))
