"""Import path of a user's packages: the current folder, after everything installed, and only in the user's own runs.

A folder from elsewhere may hold a ``matplotlib`` or a ``torch`` of its own: it must neither replace the
installed package nor be imported where none is installed. So ``neuro`` drops the current folder, which ``python -m`` puts first,
starts its own processes without it (``-P``), and appends it for a command that the user has typed in full (``neuro train``). In
a saved run (``neuro resume``, ``evaluate``, ``load``) it is appended where ``trust=`` names a package that lies in it.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from neuro_cli.core.machine.current_folder import importable


def let_import() -> None:
    """Append the current folder, with the user's own code, to the import path."""
    if not importable():
        sys.path.append(str(Path.cwd()))


def let_trusted(trust: Sequence[str]) -> None:
    """Append the current folder to the import path where own code, a package of ``trust``, lies in it."""
    here = Path.cwd()
    if any((here / f"{name}.py").is_file() or (here / name).is_dir() for name in trust if name.isidentifier()):
        let_import()


@contextmanager
def import_path_put_back() -> Iterator[None]:
    """Restore the import path of a calling script; imported modules stay."""
    before = sys.path[:]
    try:
        yield
    finally:
        sys.path[:] = before
