"""``neuro evolve`` and ``neuro evolve export``."""

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from neuro_cli.cli.arguments import names, run_arguments, values_of
from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.hydra_job import save, shown
from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import ConfigError

# groups that a cluster of neuro evolve does not use, with the options that change nothing
EXPORT_KEYS = ("file", "from_start", "trust")
EVOLVES_WITH: dict[str, tuple[str, ...]] = {"algo": (), "distribution": ("auto", "local"), "fabric": ("native",)}


def _evolve(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.evolve.evolve import evolve
    from neuro_cli.run_folder.log import log_to

    choices = HydraConfig.get().runtime.choices
    for group, usual in EVOLVES_WITH.items():
        if choices.get(group) not in (*usual, "null", "None", None):
            raise ConfigError(group, choices.get(group), "neuro evolve does not use it: see election, selection and cluster")
    log_to(run, 0)
    return evolve(config, run, shown(run), lambda resolved: save(resolved, run))


def export_verb(arguments: list[str]) -> int:
    from neuro_cli.evolve.evolve import check_packages
    from neuro_cli.evolve.training.replay import export

    options = run_arguments("evolve export", arguments, EXPORT_KEYS)
    values = values_of(options.overrides, EXPORT_KEYS, "neuro evolve export takes", as_typed=["file"])
    file = Path(values["file"]) if "file" in values else None
    from_start = boolean("from_start", values.get("from_start", False))
    check_packages()
    export(options.run, file, names(values.get("trust", [])), from_start)
    return 0


def evolve_verb(arguments: list[str]) -> int:
    if arguments[:1] == ["export"]:
        return export_verb(arguments[1:])
    return hydra_verb("evolve", _evolve)(arguments)


def peer_verb(arguments: list[str]) -> int:
    """Run a further peer of this machine in a run folder with a written config."""
    from neuro_cli.evolve.evolve import evolve
    from neuro_cli.launch.lock import take
    from neuro_cli.run_folder.log import log_to
    from neuro_cli.runner.load import read_config

    run = Path(arguments[0])
    take(run)
    log_to(run, 0)
    # the folder was made by the command that calls this one, so its targets are what the user just typed
    return evolve(read_config(run, trust=None), run, run, lambda _: None, quiet=True)
