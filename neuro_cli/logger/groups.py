"""Names of metrics for trackers, which show each group in one panel: ``train/loss`` for the column ``train_loss``.

``metrics.csv``, ``summary.json`` and loggers of a user keep the plain names.
"""

from collections import Counter
from collections.abc import Collection

from neuro_cli.logger.columns import CLUSTER_COLUMNS, RANK_COLUMNS, Row

TRAIN, TEST, TIME, NETWORK, SCALING, CLUSTER = "train", "test", "time", "network", "scaling", "cluster"
# prefixes of columns that mean the same as a group
PREFIXES = {"train_": TRAIN, "test_": TEST, "seconds_": TIME}
KNOWN = {
    "seconds": (TIME, "seconds"),
    "elapsed_seconds": (TIME, "elapsed"),
    **{name: (SCALING, name) for name in RANK_COLUMNS},
    **{name: (NETWORK, name) for name in ("bytes_sent", "bytes_received")},
    **{name: (CLUSTER, name) for name in CLUSTER_COLUMNS},
}


def grouped(row: Row, evaluated: Collection[str] = ()) -> dict[str, int | float]:
    """Return ``row`` by group and name, without its generation and without None; names with a slash stay.

    ``evaluated``: the columns that evaluations on the test set fill. Columns that would share a name keep their full one.
    """
    columns = [name for name in row if name != "generation"]
    short = {name: _short(name, evaluated) for name in columns}
    shared = Counter(short.values())
    metrics: dict[str, int | float] = {}
    for name in columns:
        group, ending = short[name]
        value = row[name]
        if value is not None:
            metrics[f"{group}/{name if shared[group, ending] > 1 else ending}" if group else name] = value
    return metrics


def _short(name: str, evaluated: Collection[str]) -> tuple[str, str]:
    """Return the group and the name within it; no group for a name that has one."""
    if "/" in name:
        return "", name
    if name in KNOWN:
        return KNOWN[name]
    for prefix, group in PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return group, name.removeprefix(prefix)
    if name.endswith("_per_second"):
        return TIME, name
    return (TEST if name in evaluated else TRAIN), name
