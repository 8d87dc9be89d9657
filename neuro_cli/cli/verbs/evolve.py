"""``neuro evolve``, ``neuro evolve export`` and ``neuro apply``."""

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig

from neuro_cli.cli.arguments import Parser, folder_of_internal, names, run_arguments, values_of
from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.hydra_job import shown
from neuro_cli.cli.options.groups import options_in
from neuro_cli.cli.registry import HELP
from neuro_cli.core.checks import boolean, integer
from neuro_cli.core.errors import ConfigError, no_exit, printable
from neuro_cli.run_folder.config import save_config

EXPORT_KEYS = ("file", "from_start", "iteration", "trust")
APPLY_KEYS = ("file", "trust")
# groups that a cluster of neuro evolve does not use, with the options that change nothing
EVOLVES_WITH: dict[str, tuple[str, ...]] = {"algo": (), "distribution": ("auto", "local"), "fabric": ("native",)}
ALGO_KEYS = {"_target_", "sigma", "average"}  # other keys of algo have no effect on peers: conf/peers.yaml has these alone
PEERS = "_peers"  # ends the name of an experiment for neuro evolve, where another one is for neuro train


def _evolve(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.evolve.evolve import evolve
    from neuro_cli.run_folder.log import log_to

    choices = HydraConfig.get().runtime.choices
    for group, usual in EVOLVES_WITH.items():
        if choices.get(group) not in (*usual, "null", "None", None):
            raise ConfigError(group, choices.get(group), "neuro evolve does not use it: see election, selection and cluster")
    _refuse_training(config, choices.get("experiment"))
    log_to(run, 0)
    return evolve(config, run, shown(run), lambda resolved: save_config(resolved, run))


def _refuse_training(config: dict[str, Any], experiment: str | None) -> None:
    """Raise ConfigError for an ``experiment`` of neuro train: it sets keys of an algorithm, which a cluster does not have."""
    more = sorted(config["algo"].keys() - ALGO_KEYS)
    if experiment is None or not more:
        return
    peers = f"{experiment}{PEERS}"
    instead = f"; take experiment={peers}" if peers in options_in("experiment") else ""
    raise ConfigError("experiment", experiment, f"is for neuro train: it sets algo.{more[0]}, which neuro evolve lacks{instead}")


def export_verb(arguments: list[str]) -> int:
    from neuro_cli.evolve.evolve import check_packages
    from neuro_cli.evolve.training.export import export

    run, values = run_arguments("evolve export", arguments, EXPORT_KEYS)
    file = Path(values["file"]) if "file" in values else None
    from_start = boolean("from_start", values.get("from_start", False))
    iteration = integer("iteration", values["iteration"], 0) if "iteration" in values else None
    check_packages()
    with no_exit():
        export(run, file, names(values.get("trust", [])), from_start, iteration)
    return 0


def apply_verb(arguments: list[str]) -> int:
    """Run ``neuro apply LEDGER MODEL [file=NAME] [trust=PACKAGE]``."""
    parser = Parser("neuro apply", description=HELP["apply"], usage="neuro apply LEDGER MODEL [key=value ...]")
    parser.add_argument("ledger", type=Path, metavar="LEDGER", help="file that neuro evolve export RUN file=NAME.ledger wrote")
    base = "its base: a GGUF file or a folder of Hugging Face, or the network's first safetensors (export iteration=0)"
    parser.add_argument("model", type=Path, metavar="MODEL", help=base)
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help=f"keys: {', '.join(APPLY_KEYS)}")
    options = parser.parse_args(arguments)
    values = values_of(options.overrides, APPLY_KEYS, "neuro apply takes")
    from neuro_cli.evolve.evolve import check_packages

    check_packages()
    from neuro_cli.evolve.training.apply import apply_ledger

    with no_exit():
        file = Path(values["file"]) if "file" in values else None
        print(printable(apply_ledger(options.ledger, options.model, file, names(values.get("trust", [])))))
    return 0


def evolve_verb(arguments: list[str]) -> int:
    if arguments[:1] == ["export"]:
        return export_verb(arguments[1:])
    return hydra_verb("evolve", _evolve)(arguments)


def peer_verb(arguments: list[str]) -> int:
    """Run a further peer of ``neuro evolve`` on this machine in a run folder with a written config."""
    from neuro_cli.evolve.evolve import evolve
    from neuro_cli.launch.lock import take
    from neuro_cli.run_folder.log import log_to
    from neuro_cli.runner.load import read_config

    run = folder_of_internal("peer", arguments)
    # the folder was made by the command that calls this one, so its targets are what the user just typed
    config = read_config(run, trust=None)
    take(run)
    log_to(run, 0)
    return evolve(config, run, run, lambda _: None, quiet=True)
