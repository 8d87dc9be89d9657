"""Short names of run folders: ``latest``, and a part of a stamp that only one folder of ``outputs/`` has.

``outputs/train/latest`` is a symbolic link to the run that started or resumed last, among the folders that neuro named. Commands
write to the folder itself, which must be a sibling of the link.
"""

import logging
import os
import re
from pathlib import Path

from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

LATEST, OUTPUTS = "latest", Path("outputs")
STAMP = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(-\d{1,6})?")  # the form of names that conf/command.yaml sets
PART = re.compile(r"[\d_-]{3,30}")


def never_began(run: Path) -> bool:
    """Return whether the command in this folder ended before its run wrote anything but config and log."""
    names = {path.name for path in run.iterdir()} if run.is_dir() else set()
    return (run / ".hydra" / "hydra.yaml").is_file() and names <= {".hydra", ".lock", "log.txt"}


def refuse_unbegun(run: Path) -> None:
    """Raise UserError for the name of a folder whose run :func:`never_began`."""
    if never_began(run):
        raise UserError(f"{run}: its run never began: its command was ended before the first checkpoint; the folder can go")


def remember(run: Path) -> None:
    """Let ``latest`` lead to the folder of ``run``, or of its sweep, if neuro named it. Errors only go to the log."""
    run = run.absolute()
    folder = run if STAMP.fullmatch(run.name) else run.parent
    if not STAMP.fullmatch(folder.name):
        return
    path = folder.parent / LATEST
    if path.exists() and not path.is_symlink():
        log.info("%s: exists and is not neuro's: it stays", path)
        return
    temporary = path.with_name(f".{LATEST}-{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(folder.name, target_is_directory=True)
        os.replace(temporary, path)
    except OSError as error:
        log.info("%s: cannot be written: %s", path, error.strerror)
        temporary.unlink(missing_ok=True)


def folder_of(given: Path) -> Path:
    """Return the folder that a user means: as typed if it exists, else by a short name. Raises UserError for an unclear one."""
    for parent in (given, *given.parents):
        if parent.name == LATEST and parent.is_symlink():
            return _led_to(parent) / given.relative_to(parent)
    if given.exists() or given.is_absolute():
        return given
    if given.name == LATEST and len(given.parts) <= 2:
        links = [path for path in OUTPUTS.glob(f"{given.parent.name or '*'}/{LATEST}") if path.is_symlink()]
        return max(map(_led_to, links), key=lambda folder: folder.name, default=given)
    return _by_part(given)


def _led_to(latest: Path) -> Path:
    """Return the folder that ``latest`` leads to. Raises UserError for one that is no sibling of it, or does not exist."""
    name = os.readlink(latest)
    if not STAMP.fullmatch(name):
        raise UserError(f"{latest}: it leads to {name[:100]}, which is no run that neuro has named: name the folder itself")
    folder = latest.parent / name
    if folder.is_symlink() or not folder.is_dir():
        raise UserError(f"{latest}: it leads to {name}, which no longer exists")
    return folder


def _by_part(given: Path) -> Path:
    """Return the only folder of ``outputs/`` whose stamp contains ``given``; ``given`` itself where none does."""
    verb, part = (given.parts[0], given.parts[1]) if len(given.parts) == 2 else ("*", str(given))
    if len(given.parts) > 2 or not PART.fullmatch(part) or any(letter in verb for letter in "[]?"):
        return given
    matches = sorted(folder for folder in OUTPUTS.glob(f"{verb}/*{part}*") if STAMP.fullmatch(folder.name) and folder.is_dir())
    if len(matches) > 1:
        names = ", ".join(map(str, matches[:3])) + (f" and {len(matches) - 3} more" if len(matches) > 3 else "")
        raise UserError(f"{given}: ambiguous, matches {names}")
    return matches[0] if matches else given
