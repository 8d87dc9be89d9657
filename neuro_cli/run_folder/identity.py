"""What makes a run this run: the config keys that its numbers depend on. A checkpoint carries them."""

from collections.abc import Iterator
from typing import Any

from neuro_cli.core.errors import UserError

KEYS = ("seed", "population", "batch_size", "layout", "precision", "task", "model", "sampler", "algo")
# of the distribution, where it is not the value with which all methods give the same numbers
METHOD = {"ranks_shaping": "global", "wire": "float32", "staleness": 0}
# where data lies, not what they are; how much is tested or held at once; what is kept beside checkpoints;
# whether a member without a finite fitness ends a run
FREE = (
    "task.root",
    "task.download",
    "task.files",
    "task.evaluation_batch",
    "task.evaluation_episodes",
    "task.environments",
    "task.simulator",
    "algo.keep_last_step",
    "algo.non_finite",
)

# classes with other names in earlier versions: folders that those wrote keep the old names
MOVED = {
    "neuro_cli.search.generational.Generational": "neuro_cli.strategy.generational.Generational",
    "neuro_cli.search.random_search.RandomSearch": "neuro_cli.strategy.random.RandomSearch",
    "neuro_cli.search.steady_state.SteadyState": "neuro_cli.strategy.steady_state.SteadyState",
    "neuro_cli.broker.broker_pool.BrokerPool": "neuro_cli.pool.broker.BrokerPool",
    "neuro_cli.broker.embedded.EmbeddedPool": "neuro_cli.pool.embedded.EmbeddedPool",
}
MOVED |= {
    f"neuro_cli.distribution.{name}": f"neuro_cli.distribution.ensemble.{name}"
    for name in (
        "batch_parallel.BatchParallel",
        "logits_allreduce.LogitsAllReduce",
        "logits_microbatches.LogitsMicrobatches",
        "logits_pipelined.LogitsPipelined",
        "logits_tree.LogitsTree",
        "single_graph.SingleGraph",
    )
}


def renamed(node: Any) -> Any:
    """A saved config or identity with the present names of its classes."""
    if isinstance(node, dict):
        return {key: renamed(value) for key, value in node.items()}
    if isinstance(node, list):
        return [renamed(value) for value in node]
    return MOVED.get(node, node) if isinstance(node, str) else node


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
    for key, usual in METHOD.items():
        value = config["distribution"].get(key, usual)
        if value != usual:
            leaves[f"distribution.{key}"] = value
    return {key: value for key, value in leaves.items() if key not in FREE}


def refuse_other(config: dict[str, Any], saved: dict[str, Any]) -> None:
    """Raise UserError when ``config`` describes another run than the checkpoint's ``saved`` identity."""
    usual = {f"distribution.{key}": value for key, value in METHOD.items()}
    now, saved = usual | identity_of(config), usual | saved
    refuse_difference(now, saved, "neuro train")


def refuse_difference(now: dict[str, Any], saved: dict[str, Any], verb: str) -> None:
    """Raise UserError, naming the first key, when two identities differ. ``verb``: what begins a new run."""
    saved = renamed(saved)
    for key in sorted(now.keys() | saved.keys()):
        if now.get(key) != saved.get(key):
            raise UserError(
                f"{key}={now.get(key)}: the run's checkpoint has {key}={saved.get(key)}; resume keeps it, "
                f"and another value is a new run ({verb})"
            )


def leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything in ``node`` that is no dict and no list."""
    if not isinstance(node, dict | list):
        yield key, node
        return
    for name, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield from leaves(value, f"{key}.{name}" if key else str(name))
