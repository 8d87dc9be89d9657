"""Pictures of an entry that its runs made: copied beside its results, as ``NAME_RUN_FILE``."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from neuro_cli.reproduce.run import EntryRun, RunOutcome

SUFFIXES = (".svg", ".png")


def keep_pictures(
    figures: Mapping[str, Sequence[str]], cells: Mapping[str, EntryRun], records: Mapping[str, RunOutcome], folder: Path
) -> list[Path]:
    """Copy the pictures that ``figures`` names by run and pattern into ``folder``, without those of runs that did not finish."""
    for old in folder.glob(f"{folder.name}_*"):
        if old.suffix in SUFFIXES:
            old.unlink()  # of an earlier start, whose run was made again
    kept = []
    for name, patterns in figures.items():
        record = records.get(name)
        if record is None or not record.finished:
            continue
        for picture in _found(patterns, cells[name].folders(record)):
            place = folder / f"{folder.name}_{name}_{picture.name}"
            shutil.copyfile(picture, place)
            kept.append(place)
    return kept


def pictures_in(folder: Path) -> list[Path]:
    """Pictures that :func:`keep_pictures` left in an entry's folder; of one in several formats only the SVG."""
    found = sorted(path for path in folder.glob(f"{folder.name}_*") if path.suffix in SUFFIXES)
    return [path for path in found if path.suffix == ".svg" or path.with_suffix(".svg") not in found]


def _found(patterns: Sequence[str], folders: Sequence[Path]) -> list[Path]:
    """Pictures with a name that fits, in the order of the patterns."""
    paths = [path for pattern in patterns for place in folders for path in sorted(place.glob(pattern))]
    return [path for path in dict.fromkeys(paths) if path.suffix in SUFFIXES and path.is_file()]
