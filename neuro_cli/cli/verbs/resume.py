"""``neuro resume``: checks the keys that may change, and continues a run or a search from its checkpoint.

:mod:`neuro_cli.runner.load` reads config and checkpoint, :mod:`neuro_cli.runner.ensemble.recover` an ensemble after a lost rank;
:mod:`neuro_cli.launch.requeue` resumes jobs that SLURM has started again.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from neuro_cli.cli.arguments import names, run_and_overrides, set_key, values_of
from neuro_cli.cli.compose import plain_keys
from neuro_cli.cli.options.groups import option_of
from neuro_cli.cli.sweep.resume import is_sweep, refuse_other_sweep, resume_sweep
from neuro_cli.cli.verbs.train import start
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.start import launched
from neuro_cli.run_folder.config import saved_config
from neuro_cli.runner.config import RESUME_GROUPS, RESUME_KEYS

if TYPE_CHECKING:
    from neuro_cli.run_folder.checkpoint import Checkpoint
    from neuro_cli.runner.options import Options

SEARCH_RESUME_GROUPS = ("pool", "logger")  # groups and keys that a resumed search takes
SEARCH_RESUME_KEYS = ("trainings", "time_limit", "best", "checkpoint.keep", "task.root", "task.download")
CHANGES = (*RESUME_GROUPS, *RESUME_KEYS, "checkpoint", "trust")  # keys that a resumed run takes


def resume_verb(arguments: list[str]) -> int:
    from neuro_cli.launch.lock import take
    from neuro_cli.run_folder.config import is_search, resumed_config

    run, overrides = run_and_overrides("resume", arguments, CHANGES)
    if is_sweep(run):
        return resume_sweep(run, overrides)
    refuse_other_sweep(run)
    searches = is_search(run)  # refuses a folder that is no run
    if not searches:
        _resume_arguments(overrides)  # refuses them before anything is touched
    take(run)
    if searches:
        return resume_search(run, overrides)
    session = resumed(run, overrides)
    with resumed_config(run, session.options.plain) if session.changed else nullcontext():
        return start(session.options, run, session.checkpoint, session.again)


@dataclass(frozen=True)
class ReadyRun:
    """Run that is ready to train or to resume. ``again``: arguments of a command for its ranks; ``changed``: keys differ."""

    options: "Options"
    run: Path
    checkpoint: "Checkpoint | None"
    again: list[str]
    changed: bool = False


def resumed(run: Path, overrides: list[str], objects: Mapping[str, Any] | None = None) -> ReadyRun:
    """Return options and checkpoint of a resumed run. ``objects``: those of a script, by group. Raises UserError."""
    from neuro_cli.factory.script_objects import Made, is_made
    from neuro_cli.launch.lock import launched_by_us
    from neuro_cli.runner.ensemble.recover import recover
    from neuro_cli.runner.load import read_checkpoint, read_config
    from neuro_cli.runner.options import Options

    changes, generation, trust = _resume_arguments(overrides)
    objects = dict(objects or {})
    changes |= {group: Made(group, objects.pop(group)) for group in RESUME_GROUPS if group in objects}
    config = read_config(run, trust, objects, groups=[group for group in saved_config(run) if group not in changes])
    if "cluster" in config:
        raise UserError(f"{run}: a peer of neuro evolve; continue with: neuro evolve cluster.from_run={run}")
    if launched() and not launched_by_us() and "ranks" not in changes:
        config["ranks"] = None  # the launcher has chosen
    for key in sorted(changes, key=lambda key: "." in key):  # groups first
        if is_made(config.get(key.partition(".")[0])) and "." in key:
            raise ConfigError(key, changes[key], f"a script made the {key.partition('.')[0]}: set it there")
        set_key(config, key, changes[key])
    options = Options(config)
    generations = options.config.generations
    if generation is None and not launched_by_us():
        recover(run, options)
    checkpoint = read_checkpoint(run, options.plain, generation)
    if generations < checkpoint.generation:
        raise ConfigError("generations", generations, f"the checkpoint has {checkpoint.generation} already")
    again = ["resume", str(run), *[text for text in overrides if not text.startswith("ranks=")]]
    return ReadyRun(options, run, checkpoint, again, bool(changes))


def _resume_arguments(overrides: list[str]) -> tuple[dict[str, Any], int | None, list[str]]:
    """Return changed keys, generation and trusted packages. Raises ConfigError for what a resumed run keeps."""
    values = values_of(overrides, CHANGES, "a resumed run keeps it; what can change:")
    generation, trust = values.pop("checkpoint", None), names(values.pop("trust", []))
    changes = {key: option_of(key, value) if key in RESUME_GROUPS else value for key, value in values.items()}
    return changes, generation, trust


def resume_search(run: Path, overrides: list[str]) -> int:
    """Resume a search from its last checkpoint, with the keys of ``SEARCH_RESUME_KEYS`` and the pool as in ``overrides``."""
    from neuro_cli.run_folder.config import resumed_config, saved_config
    from neuro_cli.search.command import resume

    config = saved_config(run)
    keys = [*SEARCH_RESUME_KEYS, *SEARCH_RESUME_GROUPS, "pool.", "trust"]
    values = values_of(overrides, keys, "a resumed search keeps it; what can change:")
    trust = names(values.pop("trust", []))
    for key, value in values.items():
        set_key(config, key, option_of(key, value) if key in SEARCH_RESUME_GROUPS else value)
    # a pool may refer to what the config says of a cluster
    config = plain_keys(OmegaConf.create(config), resolve=True)
    with resumed_config(run, config) if overrides else nullcontext():
        return resume(config, run, trust)
