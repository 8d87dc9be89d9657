"""``neuro train``, which trains on this process's world or starts the ranks that the config asks for."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_cli.cli.arguments import folder_of_internal
from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.hydra_job import shown
from neuro_cli.cli.sweep.jobs import Left, clear, left_in
from neuro_cli.core.errors import ConfigError, interrupted, printable
from neuro_cli.core.exit_codes import BAD_INPUT, FAILED
from neuro_cli.core.messages.verbosity import say
from neuro_cli.fabric.start import launched
from neuro_cli.launch import slurm_job
from neuro_cli.launch.restarts import restarts
from neuro_cli.run_folder.config import save_config
from neuro_cli.runner import stop_signals

if TYPE_CHECKING:
    from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)


def _train(config: dict[str, Any], run: Path) -> int:
    # torch comes with them
    from neuro_cli.launch.requeue import hand_over
    from neuro_cli.run_folder.log import log_to
    from neuro_cli.runner.options import Options

    options = Options(config)
    save_config(options.plain, run)
    left = Left.NOTHING if restarts() else left_in(run)  # an earlier command may have begun this sweep
    if left is Left.FINISHED:
        return 0
    if left is Left.FAILED:
        clear(run)
    log_to(run, 0)
    code = start(options, shown(run), continues=left is Left.CUT_OFF)
    hand_over(run, options.config.generations)
    return code


def start(options: "Options", run: Path, checkpoint: Any = None, again: list[str] | None = None, continues: bool = False) -> int:
    """Train on this process's world, or start the world that ``ranks`` asks for. Returns the exit code.

    ``continues``: the folder may have a checkpoint of an earlier command.
    """
    from neuro_cli.fabric.network import MPI
    from neuro_cli.launch.capacity import check_room
    from neuro_cli.launch.launcher import launch
    from neuro_cli.launch.lock import launched_by_us, share
    from neuro_cli.launch.requeue import checkpoint_left
    from neuro_cli.run_folder.log import messages
    from neuro_cli.runner.session import lead

    ranks = options.config.ranks
    alone = ranks == 1 and options.network.launcher != MPI  # torch's launchers leave such a rank without a world too
    if ranks is not None and not launched() and not alone:
        share(run)
        if not slurm_job.in_job():  # nodes of a job have the memory that was asked for, and may be other machines
            check_room(ranks, options)
        before = len(messages(run))
        code = launch(ranks, again or ["start", str(run)], options.network)
        return _ended(options, run, code, before) if code else 0
    if checkpoint is None:
        checkpoint = checkpoint_left(run, options, continues or launched_by_us())
    world = options.world()
    if ranks not in (None, world.size):
        raise ConfigError("ranks", ranks, f"the launcher started {world.size}; leave it null there")
    code = lead(world, options, run, checkpoint)
    if code == 0:
        if checkpoint is not None and checkpoint.generation >= options.config.generations:
            say(f"neuro: its {checkpoint.generation} generations were complete; for more: neuro resume {run} generations=N")
        say(f"neuro: results in {run}")
    return code


def _ended(options: "Options", run: Path, code: int, before: int) -> int:
    """Clean up after a world that ended with ``code``, and report it if no rank did. Returns the command's exit code.

    ``before``: messages in the log before it began; an earlier session's may end with a failure.
    """
    from neuro_cli.run_folder.checkpoint import CheckpointStore
    from neuro_cli.run_folder.log import messages
    from neuro_cli.runner.ensemble.recover import recover

    recover(run, options)
    if any(line.startswith("failed: ") for line in messages(run)[before:]):
        return code
    text, heard = f"the world of {options.config.ranks} ranks ended with exit code {code}", stop_signals.heard()
    if heard:
        text += f" after {heard[0]}"
    log.info("failed: %s", text)
    if "SIGINT" in heard:
        return interrupted()
    # other codes are no rank's: MPI gives the number of the signal, in one way or the other
    if heard or code not in (FAILED, BAD_INPUT):
        cause = "it was stopped before it could write a checkpoint" if heard else "a rank was killed"
        left = CheckpointStore(run, keep=1).generations()
        then = f"continue with: neuro resume {run}" if left else f"it had not begun, so {run} can be removed"
        print(printable(f"neuro: error: {text}: {cause}; {then}"), file=sys.stderr, flush=True)
        return FAILED
    return code


def start_verb(arguments: list[str]) -> int:
    """Train a run folder with a written config that has not begun, as rank 0 of ``ranks=N``. Internal."""
    from neuro_cli.launch.lock import take
    from neuro_cli.runner.load import read_config
    from neuro_cli.runner.options import Options

    run = folder_of_internal("start", arguments)
    # the folder was made by the command that calls this one, so its targets are what the user just typed
    config = read_config(run, trust=None)
    take(run)
    return start(Options(config), run)


train_verb = hydra_verb("train", _train)
