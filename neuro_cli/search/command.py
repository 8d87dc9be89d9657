"""`neuro search` and `neuro resume` of a search: from a config to a folder with the results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError, printable
from neuro_cli.core.metric import ACCURACY
from neuro_cli.core.verbosity import say
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.launch.launcher import world_launcher
from neuro_cli.pool.base import Pool
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.log import log_to
from neuro_cli.search.session import search
from neuro_cli.search.settings import check, completed

ROLES = ("all", "model")
PARTS = ("nameserver", "broker", "worker")  # processes of a cluster, which do not search
OURS = ("neuro_cli.strategy.", "neuro_cli.pool.")  # making these classes starts and reads nothing


def begin(config: dict[str, Any], run: Path, shown: Path, save: Callable[[dict[str, Any]], None]) -> int:
    """Search from the start. ``shown``: the folder as the user would type it; ``save`` writes the resolved config there.

    Raises UserError before anything is written.
    """
    role = one_of("role", config.get("role"), (*ROLES, *PARTS))
    search_config = check(config)
    pool = make(config, "pool", Pool)
    if config["pool"].get("ranks", 1) != 1:
        world_launcher()  # raises UserError where there is none
    if role == "model" and pool.own_workers:
        raise ConfigError("role", role, "its candidates are trained by the workers of a cluster: it needs pool=broker")
    search_config = completed(search_config)
    save(search_config.plain)
    log_to(run, 0)
    return _report(search(search_config, run), shown)


def resume(config: dict[str, Any], run: Path, trust: list[str]) -> int:
    """Resume the search of ``run`` from its last checkpoint. ``trust``: packages whose classes the saved config may name.

    Raises UserError.
    """
    refuse_untrusted(config, trust, OURS)
    search_config = check(config)
    checkpoint = CheckpointStore(run, keep=1).load()
    done = len(checkpoint.scalars["outcomes"])
    if search_config.trainings < done:
        raise ConfigError("trainings", search_config.trainings, f"the checkpoint has {done} already")
    log_to(run, 0)
    return _report(search(search_config, run, checkpoint), run)


def _report(summary: dict[str, Any], run: Path) -> int:
    """Print the best module. Returns the exit code."""
    if summary["module"] is not None:
        accuracies = (
            f"validation accuracy {summary['validation_accuracy']:.4f}, {ACCURACY.label} {ACCURACY.text(summary[ACCURACY.name])}"
        )
        best = f"best module {' '.join(summary['module'])}: {accuracies}, {summary['parameters']:,} parameters"
        print(printable(best))
        print(printable(f"neuro train model={run / 'best' / 'best_1.yaml'} trains it"), flush=True)
    say(f"neuro: results in {run}")
    return 0
