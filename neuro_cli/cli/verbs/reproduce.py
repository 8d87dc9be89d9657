"""``neuro reproduce``: lists the published tables and figures, or reproduces one of them, or some, or all."""

import shlex
from pathlib import Path
from textwrap import shorten
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.compose import plain_keys
from neuro_cli.cli.hydra_job import shown
from neuro_cli.cli.overrides.grammar import overrides_of
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.exit_codes import INTERRUPTED
from neuro_cli.core.files import config_folder
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.core.messages.tables import print_table
from neuro_cli.launch.quoting import quoted
from neuro_cli.reproduce.entry import SIZES, Entry, entries_in, entry_of, read_entry

SHOWN = 70  # most characters of a source, which begins with the paper


def reproduce_verb(arguments: list[str]) -> int:
    if not arguments:
        _show_entries()
        return 0
    return hydra_verb("reproduce", _reproduce, _check)(arguments)


def _reproduce(config: dict[str, Any], folder: Path) -> int:
    from neuro_cli.reproduce.reproduce import reproduce
    from neuro_cli.reproduce.run import StoppedError

    try:
        entries = entries_of(config["size"], config["tables"], config["with"])
        return reproduce(entries, shown(folder), Path(str(config["root"])))
    except StoppedError:
        given = [str(text) for text in HydraConfig.get().overrides.task if not str(text).startswith("folder=")]
        again = shlex.join(["neuro", "reproduce", *given, f"folder={quoted(str(shown(folder)))}"])
        print(f"neuro: stopped; continue with: {again}")
        return INTERRUPTED


def _check(composed: DictConfig) -> None:
    """Raise UserError for a command that could not begin."""
    config = plain_keys(composed, "hydra", resolve=True)
    entries_of(config["size"], config["tables"], config["with"])
    folder = config["folder"]
    if folder is not None and Path(str(folder)).exists() and not Path(str(folder)).is_dir():
        raise ConfigError("folder", folder, "there is a file of that name")


def entries_of(size: Any, chosen: Any, more: Any) -> list[Entry]:
    """Return the ``chosen`` tables in that ``size``, whose commands have the keys of ``more``. Raises UserError."""
    size = one_of("size", size, SIZES)
    if not isinstance(chosen, dict) or not chosen:
        raise ConfigError("table", None, f"which one? {nearest('', [*entries_in(_tables()), 'all'])}")
    if not isinstance(more, dict):
        raise ConfigError("with", more, "must be keys for the commands: +with.seed=2")
    return [entry_of(str(name), node, size, list(overrides_of(more))) for name, node in chosen.items()]


def _show_entries() -> None:
    """Print all entries with title, source and duration."""
    from rich.markup import escape

    minutes = tuple(f"{size}, minutes" for size in SIZES)
    rows = []
    for path in entries_in(_tables()).values():
        entry = read_entry(path, SIZES[0])
        times = [f"{entry.minutes[size]:g}" for size in SIZES]
        rows.append((entry.name, *times, escape(entry.title), escape(shorten(entry.source, SHOWN, placeholder=" ..."))))
    print_table(("entry", *minutes, "what", "source"), rows, numbers=minutes)
    print("neuro reproduce table=ENTRY size=quick|full, or table=all; neuro reproduce --help says more")


def _tables() -> Path:
    return config_folder() / "table"
