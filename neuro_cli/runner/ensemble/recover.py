"""Recovery of an ensemble's last complete iteration from the files of its ranks, after its world was lost."""

import logging
from pathlib import Path

from neuro_cli.run_folder.checkpoint import CheckpointStore, write_shard
from neuro_cli.run_folder.last_step import content_of, in_common, left_behind, remove
from neuro_cli.run_folder.log import log_to
from neuro_cli.run_folder.metrics import read_metrics
from neuro_cli.runner.ensemble.members import kinds_of, members_of
from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)


def recover(run: Path, options: Options) -> int | None:
    """Write the checkpoint if it is newer than the last. Returns its generation, or None when there is nothing to do.

    No process may work on the run. Raises UserError when the checkpoint cannot be written.
    """
    if not left_behind(run) or not options.is_ensemble:  # a world that never began has printed its error already
        return None
    store = CheckpointStore(run, options.config.checkpoint.keep)
    written = store.generations()
    members = len(members_of(kinds_of(options.plain)))
    recorded = read_metrics(run / "metrics.csv").last  # an iteration without a row in metrics.csv would leave a gap there
    intact = {number: seconds for number, seconds in in_common(run, members).items() if number <= recorded}
    generation = max(intact, default=0)
    if not written or generation <= written[-1]:
        return None
    log_to(run, 0)
    shards = [write_shard(run, generation, f"member-{number}", content_of(run, number, generation)) for number in range(members)]
    scalars = store.load(written[-1]).scalars | {"seconds": intact[generation], "metrics": None}
    store.save(generation, {}, scalars, shards)
    remove(run)
    log.warning(
        "ranks were lost: checkpoint of generation %d, the last complete one, from their files; continue with: neuro resume %s",
        generation,
        run,
    )
    return generation
