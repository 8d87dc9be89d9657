"""Relative links from the report to the files of a run: tables, logs, configs, checkpoints."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from neuro_cli.report.runs import ReportedRun

FILES = (
    "metrics.csv", "summary.json", "log.txt", "curves.png", "candidates.csv", ".hydra/config.yaml", ".hydra/resumed.yaml",
    ".hydra/overrides.yaml", "ledger.bin",
)  # fmt: skip
CHECKPOINT = re.compile(r"(\d+)\.safetensors")  # not the shards of an ensemble's members
SHOWN = 20  # newest checkpoints of a run


@dataclass(frozen=True)
class Folder:
    """Run folder with its links, (text, address), a list per line."""

    name: str
    address: str
    lines: list[list[tuple[str, str]]]


def linked(report: Path) -> Callable[[Path], str]:
    """Return the function from a path to its address relative to the file ``report``."""
    start = report.resolve().parent

    def address(path: Path) -> str:
        relative = Path(os.path.relpath(path.resolve(), start)).as_posix()
        return quote(relative if relative.startswith(".") else f"./{relative}") + ("/" if path.is_dir() else "")

    return address


def folders(runs: Sequence[ReportedRun], address: Callable[[Path], str]) -> list[Folder]:
    """Return the folders of all runs. Secrets of ``neuro evolve`` are no file of a report."""
    listed = []
    for run in runs:
        files = [run.path / name for name in FILES if (run.path / name).is_file()]
        saved = sorted(path for path in run.path.glob("checkpoints/*.safetensors") if CHECKPOINT.fullmatch(path.name))
        paths = [files, saved[: -SHOWN - 1 : -1], sorted(run.path.glob("best/*.yaml"))]
        lines = [[(path.relative_to(run.path).as_posix(), address(path)) for path in some] for some in paths if some]
        listed.append(Folder(run.name, address(run.path), lines))
    return listed
