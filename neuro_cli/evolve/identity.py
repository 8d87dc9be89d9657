"""Identity of a cluster: the settings that all peers must share, since each computes the model itself."""

import json
from typing import Any

from neuro_cli.core.noise import LAW
from neuro_cli.evolve.network.messages import printable
from neuro_cli.run_folder.identity import flatten, identity_of

FORMAT = "neuro evolve 3"  # format of messages between peers
# name in the identities of earlier versions of an election that was removed: their ledgers can still be read
FORMER = {"neuro_cli.election.succession.Succession": "neuro_cli.election.takeover.Takeover"}
HISTORY = "neuro evolve 1"  # format of committed records: runs of earlier versions can be read and continued


def cluster_identity(config: dict[str, Any], initial: str) -> dict[str, Any]:
    """Return the identity as keys and values; ``initial``: SHA-256 of the initial parameters."""
    local = config["cluster"].get("local_iterations", 1)
    return {
        **({} if local == 1 else {"cluster.local_iterations": local}),
        "protocol": HISTORY,
        "noise": LAW,
        **identity_of(config),
        **flatten(config["selection"], "selection"),
        "election": FORMER.get(config["election"]["_target_"], config["election"]["_target_"]),
        "initial parameters": initial,
    }


def canonical(identity: dict[str, Any]) -> bytes:
    return json.dumps(identity, sort_keys=True, separators=(",", ":"), default=str).encode()


def difference(ours: dict[str, Any], theirs: Any) -> str | None:
    """Return the first difference, as a sentence for the newcomer; None without one."""
    if not isinstance(theirs, dict):
        return "it has no identity"
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        our, their = ours.get(key), theirs.get(key)
        if json.dumps(our, default=str) != json.dumps(their, default=str):
            return printable(f"{key} is {our} in the cluster, {their} at the newcomer", 500)
    return None
