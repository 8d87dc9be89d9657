"""``neuro resume``: checks the keys that may change, and continues a run from its checkpoint.

:mod:`neuro_cli.runner.load` reads config and checkpoint, :mod:`neuro_cli.runner.ensemble.recover` an ensemble after a lost rank;
:mod:`neuro_cli.launch.requeue` resumes jobs that SLURM has started again.
"""

from contextlib import nullcontext
from typing import Any

from neuro_cli.cli.arguments import names, run_arguments, set_key
from neuro_cli.cli.overrides import option_of, parse_plain
from neuro_cli.cli.search import resume_search
from neuro_cli.cli.train import start
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.fabric.mpi import launched
from neuro_cli.runner.resumable import RESUME_GROUPS, RESUME_KEYS


def resume_verb(arguments: list[str]) -> int:
    from neuro_cli.launch.lock import launched_by_us, take
    from neuro_cli.run_folder.config import is_search, resumed_config
    from neuro_cli.runner.ensemble.recover import recover
    from neuro_cli.runner.load import read_checkpoint, read_config
    from neuro_cli.runner.options import Options

    options = run_arguments("resume", arguments)
    searches = is_search(options.run)  # refuses a folder that is no run
    take(options.run)
    if searches:
        return resume_search(options.run, options.overrides)
    changes, generation, trust = _resume_arguments(options.overrides)
    config = read_config(options.run, trust)
    if "cluster" in config:
        raise UserError(f"{options.run}: a peer of neuro evolve; go on with: neuro evolve cluster.from_run={options.run}")
    if launched() and not launched_by_us() and "ranks" not in changes:
        config["ranks"] = None  # the launcher has chosen
    for key in sorted(changes, key=lambda key: "." in key):  # groups first
        set_key(config, key, changes[key])
    parts = Options(config)
    generations = parts.config.generations
    if generation is None and not launched_by_us():
        recover(options.run, parts)
    checkpoint = read_checkpoint(options.run, parts.plain, generation)
    if generations < checkpoint.generation:
        raise ConfigError("generations", generations, f"the checkpoint has {checkpoint.generation} already")
    again = ["resume", str(options.run), *[text for text in arguments[1:] if not text.startswith("ranks=")]]
    with resumed_config(options.run, parts.plain) if changes else nullcontext():
        return start(parts, options.run, checkpoint, again)


def _resume_arguments(overrides: list[str]) -> tuple[dict[str, Any], int | None, list[str]]:
    changes: dict[str, Any] = {}
    generation, trust = None, []
    for text in overrides:
        key, value = parse_plain(text)
        if key == "checkpoint":
            generation = value
        elif key == "trust":
            trust = names(value)
        elif key in RESUME_GROUPS:
            changes[key] = option_of(key, value)
        elif key in RESUME_KEYS:
            changes[key] = value
        else:
            allowed = ", ".join([*RESUME_GROUPS, *RESUME_KEYS, "checkpoint", "trust"])
            raise ConfigError(key, value, f"a resumed run keeps it; what can change: {allowed}")
    return changes, generation, trust
