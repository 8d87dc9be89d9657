"""``neuro resume SWEEP``: runs the command of a sweep again, which skips finished jobs.

The command comes from a file, ``sweep.json``. Settings of Hydra that could name code or a program are refused: such a command
must be typed again. Classes that the jobs name are checked before each job (:mod:`neuro_cli.cli.sweep.launcher`).
"""

import os
import re
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from neuro_cli.cli.arguments import names, values_of
from neuro_cli.core.errors import UserError
from neuro_cli.launch.quoting import quoted
from neuro_cli.run_folder.sweep_record import FILE, SweepRecord, read_record

_HARMLESS = re.compile(
    r"hydra/(launcher|sweeper)=\w+|hydra\.sweep\.subdir=.*|hydra\.sweeper\.(?!.*_target_)[\w.]+=[\w.+-]+"
    r"|hydra\.launcher\.(partition|account|qos|constraint|exclude|gres|name)=[\w.:,-]+|hydra\.launcher\.[\w.]+=(\d+|null|true|false)",
    re.DOTALL,
)
FLAGS = ("-m", "--multirun")


def is_sweep(folder: Path) -> bool:
    """Return whether a sweep of ``neuro train`` began in ``folder``."""
    return (folder / FILE).is_file()


def refuse_other_sweep(folder: Path) -> None:
    """Raise UserError for the folder of a sweep of another verb, which has no record."""
    if (folder / "multirun.yaml").is_file() and not (folder / ".hydra").is_dir():
        text = "a sweep, but not of neuro train: resume a search in it by its own folder"
        raise UserError(f"{folder}: {text} (neuro resume {folder}/0); else type its command with a new hydra.sweep.dir")


def resume_sweep(folder: Path, overrides: list[str]) -> int:
    """Run the unfinished jobs of the sweep in ``folder`` and return the exit code. Raises UserError."""
    from neuro_cli.cli.verbs.train import train_verb

    trust = names(values_of(overrides, ["trust"], "a sweep resumes as it began; what can be given:").get("trust", []))
    record = read_record(folder)
    assert record is not None
    if record.verb != "train":
        raise UserError(f"{folder / FILE}: verb={record.verb}: only sweeps of neuro train can be resumed")
    place = _to_folder_of(record, folder.resolve())
    _check(record, Path(place))
    return train_verb([*record.arguments, f"hydra.sweep.dir={quoted(place)}"], trust)


def _to_folder_of(record: SweepRecord, folder: Path) -> str:
    """Change to the folder in which the command was typed. Returns the sweep's folder relative to it. Raises UserError."""
    try:
        os.chdir(record.cwd)
    except OSError as error:
        raise UserError(f"{record.cwd}: the sweep was begun in this folder, which cannot be entered: {error.strerror}") from error
    return record.folder if Path(record.folder).resolve() == folder else str(folder)


def _check(record: SweepRecord, folder: Path) -> None:
    """Raise UserError for an argument of a kind that a file cannot give."""
    for text in record.arguments:
        bare = text.lstrip("+~")
        if text in FLAGS or (not text.startswith("-") and not bare.startswith("hydra")) or _HARMLESS.fullmatch(bare):
            _check_files(text)
            continue
        raise UserError(f"{folder / FILE}: {text[:80]}: it may run code, so type the sweep's command again to resume")


def _check_files(text: str) -> None:
    """Raise UserError for a file of an option that chooses other options, of Hydra's too."""
    for name in re.split(r"[\[\],=]", text):
        if name.endswith(".yaml") and Path(name).is_file():
            node = OmegaConf.load(name)
            if not isinstance(node, DictConfig) or "defaults" in node:
                raise UserError(f"{name}: it has a defaults list, so type the sweep's command again to resume")
