"""``sweep.json`` in a sweep's folder: its command, which resumes it after a kill, a failure or a stop."""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import save_file

FILE = "sweep.json"
FORMAT = 1
LONGEST = 1 << 22  # bytes of a file that is read


@dataclass(frozen=True)
class SweepRecord:
    """Command ``neuro VERB ARGUMENTS``, typed in the folder ``cwd``; its jobs lie below ``folder``, relative to that.

    ``comment``: SLURM lists the jobs by it; empty elsewhere. ``submitted``: numbers of the jobs last submitted to SLURM.
    """

    verb: str
    arguments: list[str]
    cwd: str
    folder: str
    comment: str = ""
    submitted: list[int] = field(default_factory=list)

    def write(self) -> None:
        """Write the file into the sweep's folder. Raises UserError."""
        path = Path(self.cwd, self.folder, FILE)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(path, json.dumps({"format": FORMAT, **asdict(self)}, indent=2))

    @classmethod
    def typed(cls, verb: str, arguments: list[str]) -> "SweepRecord":
        """Return the record of a command that was typed here, whose folder is not known yet."""
        return cls(verb, [text for text in arguments if not text.startswith("hydra.sweep.dir=")], os.getcwd(), "")

    def began(self, folder: Path) -> bool:
        """Return whether the same command, typed here, began the sweep in ``folder``. Raises UserError."""
        other = read_record(folder)
        return other is not None and (self.verb, self.arguments, self.cwd) == (other.verb, other.arguments, other.cwd)


def read_record(sweep: Path) -> SweepRecord | None:
    """Return the record in the folder ``sweep``; None without one. Raises UserError for a file that is no record."""
    path = sweep / FILE
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
        return _record(json.loads(content) if len(content) <= LONGEST else None)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path}: not a readable record of a sweep: {' '.join(str(error).split())[:160]}") from error


def _record(node: Any) -> SweepRecord:
    """Return the record in the parsed JSON. Raises ValueError."""
    if not isinstance(node, dict) or node.pop("format", None) != FORMAT:
        raise ValueError(f"it has no format {FORMAT}")
    names = [each.name for each in fields(SweepRecord)]
    if set(node) != set(names):
        raise ValueError(f"its keys are not {', '.join(names)}")
    texts = [node["verb"], node["cwd"], node["folder"], node["comment"], *_list(node["arguments"])]
    if not all(isinstance(text, str) and "\0" not in text for text in texts):
        raise ValueError("verb, arguments, cwd, folder and comment are texts")
    if not all(isinstance(number, int) for number in _list(node["submitted"])):
        raise ValueError("submitted has the numbers of jobs")
    return SweepRecord(**node)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("arguments and submitted are lists")
    return value
