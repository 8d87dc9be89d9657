"""Identity of a cluster: the settings that all peers must share, since each computes the model itself."""

import json
from typing import Any

from neuro_cli.core.noise import LAW
from neuro_cli.election.fields import printable
from neuro_cli.run_folder.identity import flatten, identity_of

FORMAT = "neuro evolve 3"  # format of messages between peers
BASE_KEY = "path"  # key of a pretrained model's file or folder, whose path differs between machines
PATH, SCHEDULE, AVERAGE = f"model.{BASE_KEY}", "selection.lr_schedule", "algo.average"
BASE, INITIAL = "frozen parameters (SHA-256)", "initial parameters"  # keys of entries that are hashes of contents
ADVICE = {BASE: ": give model.path the same file", INITIAL: ""}
HISTORY = "neuro evolve 1"  # format of committed records: runs of earlier versions can be read and continued


def cluster_identity(config: dict[str, Any], initial: str, base: str | None = None) -> dict[str, Any]:
    """Return the identity as keys and values; ``initial``: SHA-256 of the initial parameters.

    ``base``: SHA-256 of the frozen tensors, None without frozen parameters. The path to them may differ from peer to peer.
    """
    local = config["cluster"].get("local_iterations", 1)
    path = config["model"].get(BASE_KEY) or PATH  # a task may name it too, for the tokenizer
    settings = {key: value for key, value in identity_of(config).items() if key != PATH and value != path}
    if not settings.get(AVERAGE):
        settings.pop(AVERAGE, None)  # ledgers of earlier versions have no such entry
    return {
        **({} if local == 1 else {"cluster.local_iterations": local}),
        "protocol": HISTORY,
        "noise": LAW,
        **settings,
        **_selection(config["selection"]),
        "election": config["election"]["_target_"],
        **({} if base is None else {BASE: base}),
        INITIAL: initial,
    }


def _selection(config: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of the selection; ledgers of earlier versions have no schedule, which means a constant one."""
    schedule = config.get("lr_schedule") or {"kind": "constant"}
    usual = schedule["kind"] == "constant"
    return {key: value for key, value in flatten(config, "selection").items() if not (usual and key.startswith(SCHEDULE))}


def canonical(identity: dict[str, Any]) -> bytes:
    return json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str).encode()


def difference(ours: dict[str, Any], theirs: Any) -> str | None:
    """Return the first difference as a sentence for the newcomer, None for none."""
    if not isinstance(theirs, dict):
        return "it has no identity"
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        our, their = ours.get(key), theirs.get(key)
        if json.dumps(our, default=str) != json.dumps(their, default=str):
            return printable(f"{key} is {our} in the cluster, {their} at the newcomer{ADVICE.get(key, '')}", 500)
    return None
