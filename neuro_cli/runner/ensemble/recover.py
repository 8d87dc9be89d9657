"""A checkpoint of the last whole iteration of an ensemble whose world was lost, from what its ranks left behind."""

import logging
from pathlib import Path
from typing import Any

from neuro_cli.run_folder.checkpoint import CheckpointStore, write_shard
from neuro_cli.run_folder.last_step import content_of, in_common, left_behind, remove
from neuro_cli.run_folder.log import log_to
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.runner.build import is_ensemble
from neuro_cli.runner.ensemble.members import kinds_of, total

log = logging.getLogger(__name__)


def recover(run: Path, config: dict[str, Any]) -> int | None:
    """Make the checkpoint where it is newer than the last; its generation, or None where nothing was to be done.

    Only for a run that no process works on. Raises UserError when the checkpoint cannot be written.
    """
    if not left_behind(run) or not is_ensemble(config):  # a world that never began has its say already
        return None
    store = CheckpointStore(run, config["checkpoint"]["keep"])
    written = store.generations()
    members = total(kinds_of(config))
    recorded = read_metrics(run / "metrics.csv").last  # an iteration is whole when its row is written: no gap in the metrics
    found = {number: seconds for number, seconds in in_common(run, members).items() if number <= recorded}
    generation = max(found, default=0)
    if not written or generation <= written[-1]:
        return None
    log_to(run, 0)
    shards = [write_shard(run, generation, f"member-{number}", content_of(run, number, generation)) for number in range(members)]
    scalars = store.load(written[-1]).scalars | {"seconds": found[generation], "metrics": None}
    store.save(generation, {}, scalars, shards)
    remove(run)
    log.warning(
        "ranks were lost: checkpoint of generation %d, the last whole one, from what they left; go on with: neuro resume %s",
        generation,
        run,
    )
    return generation
