"""``neuro reproduce``: lists the published tables and figures, or reproduces one of them, or all."""

from datetime import datetime
from pathlib import Path
from typing import Any

from neuro_cli.cli.overrides import parse_plain
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError, UserError, nearest
from neuro_cli.core.files import config_folder
from neuro_cli.fabric.mpi import launched
from neuro_cli.reproduce.entry import SIZES, Entry, entries_in, read_entry

INTERRUPTED = 130  # exit code
DEFAULTS: dict[str, Any] = {"table": None, "size": "quick", "folder": None, "root": "data"}
USAGE = """usage: neuro reproduce [table=ENTRY|all|FILE.yaml size=quick|full folder=FOLDER root=FOLDER]

  table   an entry, several as [one,two], all, or a file of your own; without it the entries are listed
  size    quick: minutes on two cores; full: as near to the paper as one machine gets
  folder  where results go (outputs/reproduce/<stamp>); one that is there goes on where it ended
  root    the folder of data sets (data), for entries that need more than the bundled digits"""


def reproduce_verb(arguments: list[str]) -> int:
    if any(argument in ("--help", "-h") for argument in arguments):
        print(USAGE)
        return 0
    options = _options(arguments)
    size = one_of("size", options["size"], SIZES)
    if options["table"] is None:
        if len(arguments) > 0:
            raise ConfigError("table", None, f"which one? {nearest('', [*entries_in(_tables()), 'all'])}")
        from neuro_cli.reproduce.listing import show_entries

        show_entries([read_entry(path, size) for path in entries_in(_tables()).values()])
        return 0
    if launched():
        raise UserError("neuro reproduce starts its worlds itself: run it without a launcher")
    entries = _entries(options["table"], size)
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    folder = Path(str(options["folder"] or Path("outputs", "reproduce", stamp)))
    if folder.exists() and not folder.is_dir():
        raise ConfigError("folder", folder, "there is a file of that name")
    from neuro_cli.reproduce.reproduce import StoppedError, reproduce

    try:
        return reproduce(entries, folder, Path(str(options["root"])))
    except StoppedError:
        print(f"neuro: stopped; go on with: neuro reproduce {' '.join(_again(options, folder))}")
        return INTERRUPTED


def _options(arguments: list[str]) -> dict[str, Any]:
    """Values of all keys. Raises UserError."""
    options = dict(DEFAULTS)
    for text in arguments:
        key, value = parse_plain(text)
        if key not in DEFAULTS:
            raise ConfigError(key, value, f"no such key; {nearest(key, DEFAULTS)}")
        options[key] = value
    return options


def _again(options: dict[str, Any], folder: Path) -> list[str]:
    table = options["table"]
    named = f"[{','.join(table)}]" if isinstance(table, list) else table
    return [f"{key}={value}" for key, value in {**options, "table": named, "folder": folder}.items() if value != DEFAULTS[key]]


def _entries(table: Any, size: str) -> list[Entry]:
    """Entries that ``table`` names. Raises UserError."""
    known = entries_in(_tables())
    paths = []
    for name in known if table == "all" else table if isinstance(table, list) else [table]:
        if str(name) not in known and not str(name).endswith(".yaml"):
            raise ConfigError("table", name, f"no such entry; {nearest(str(name), [*known, 'all'])}")
        paths.append(known.get(str(name)) or Path(str(name)))
    return [read_entry(path, size) for path in paths]


def _tables() -> Path:
    return config_folder() / "table"
