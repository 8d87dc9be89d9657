"""What a reader may want to open of a run: its folder, its tables and logs, its checkpoints, by relative addresses."""

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
SHOWN = 20  # checkpoints of a run, the newest


@dataclass(frozen=True)
class Link:
    text: str
    address: str


@dataclass(frozen=True)
class Folder:
    """A run folder: links to what lies in it."""

    run: Link
    files: list[Link]
    checkpoints: list[Link]
    best: list[Link]


def linked(report: Path) -> Callable[[Path], str]:
    """Of a path, its address relative to the file ``report``."""
    start = report.resolve().parent

    def address(path: Path) -> str:
        relative = Path(os.path.relpath(path.resolve(), start)).as_posix()
        return quote(relative if relative.startswith(".") else f"./{relative}") + ("/" if path.is_dir() else "")

    return address


def folders(runs: Sequence[ReportedRun], address: Callable[[Path], str]) -> list[Folder]:
    """The folders of all runs. What is secret in one (of ``neuro evolve``) is no file of a report."""

    def links(paths: Sequence[Path], base: Path) -> list[Link]:
        return [Link(path.relative_to(base).as_posix(), address(path)) for path in paths]

    found = []
    for run in runs:
        files = [run.path / name for name in FILES if (run.path / name).is_file()]
        saved = sorted(path for path in run.path.glob("checkpoints/*.safetensors") if CHECKPOINT.fullmatch(path.name))
        best = sorted(run.path.glob("best/*.yaml"))
        found.append(
            Folder(
                Link(run.name, address(run.path)),
                links(files, run.path),
                links(saved[: -SHOWN - 1 : -1], run.path),
                links(best, run.path),
            )
        )
    return found
