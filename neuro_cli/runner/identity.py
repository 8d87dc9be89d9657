"""What makes a run this run: the config keys that its numbers depend on. A checkpoint carries them."""

from typing import Any

from neuro_cli.core.errors import UserError

KEYS = ("seed", "population", "batch_size", "layout", "precision", "task", "model", "sampler", "algo")
FREE = ("task.root", "task.download", "task.evaluation_batch")  # where data lies, not what they are


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted keys and leaf values of a nested config."""
    if not isinstance(node, dict):
        return {prefix: node}
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        leaves |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return leaves


def identity_of(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys and values that the run's numbers depend on."""
    leaves = flatten({key: config[key] for key in KEYS})
    if config["distribution"].get("ranks_shaping") == "local":
        leaves["distribution.ranks_shaping"] = "local"
    return {key: value for key, value in leaves.items() if key not in FREE}


def refuse_other(config: dict[str, Any], saved: dict[str, Any]) -> None:
    """Raise UserError when ``config`` describes another run than the checkpoint's ``saved`` identity."""
    now = identity_of(config)
    for key in sorted(now.keys() | saved.keys()):
        if now.get(key) != saved.get(key):
            raise UserError(
                f"{key}={now.get(key)}: the run's checkpoint has {key}={saved.get(key)}; resume keeps it, "
                "and another value is a new run (neuro train)"
            )
