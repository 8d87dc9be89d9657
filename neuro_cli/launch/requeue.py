"""Requeued SLURM jobs: a job started again after preemption, time-out or the loss of a node resumes from its checkpoint."""

import logging
import shutil
import signal
import sys
from pathlib import Path

from neuro_cli.core.errors import UserError
from neuro_cli.launch import slurm_job
from neuro_cli.launch.restarts import restarts, started_again
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore
from neuro_cli.run_folder.log import log_to
from neuro_cli.runner.options import Options
from neuro_cli.runner.stop_signals import hear, heard

log = logging.getLogger(__name__)


def checkpoint_left(run: Path, options: Options, continues: bool = False) -> Checkpoint | None:
    """Return the checkpoint from which a job that was started again resumes; None without one, and for a first start.

    ``continues``: a resumed sweep has started the job, not SLURM. Without a checkpoint the files of the earlier start that would
    be in the way are removed. Raises UserError for a checkpoint of another run.
    """
    from neuro_cli.runner.ensemble.recover import recover
    from neuro_cli.runner.load import read_checkpoint

    times = restarts()
    if not (times or continues) or not ((run / "metrics.csv").exists() or (run / "checkpoints").exists()):
        return None
    level = logging.WARNING if times else logging.INFO
    again = started_again() if times else "the sweep continues with this job"
    log_to(run, 0)
    recover(run, options)
    if CheckpointStore(run, keep=1).generations():
        checkpoint = read_checkpoint(run, options.plain, None)
        log.log(level, "%s: it resumes from generation %d", again, checkpoint.generation)
        return checkpoint
    log.log(level, "%s, before its first checkpoint: it begins again", again)
    (run / "metrics.csv").unlink(missing_ok=True)
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    return None


def hand_over(run: Path, generations: int) -> None:
    """Requeue a job of a sweep on SLURM after a signal has stopped its run, and end this process.

    Returns when nothing has to be done: no signal came, or all ``generations`` were done before it. Raises UserError
    where SLURM will not start the job again.
    """
    if not heard() or not slurm_job.by_submitit():
        return
    done = CheckpointStore(run, keep=1).generations()
    if done and done[-1] >= generations:
        return
    queue_again = signal.getsignal(signal.SIGUSR2)  # submitit's handler, which was replaced while the run stopped
    if "SIGUSR2" in heard() and callable(queue_again) and queue_again is not hear:
        log.info("queued again after generation %d", done[-1] if done else 0)
        try:
            queue_again(signal.SIGUSR2, None)
        except Exception as error:
            raise UserError(f"stopped before its last generation: {error}") from error
    slurm_job.await_end()
    sys.exit(128 + signal.SIGTERM)
