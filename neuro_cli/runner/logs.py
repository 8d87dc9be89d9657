"""Where log lines go: all of a run to its log.txt, warnings to the terminal too. Followers show warnings only."""

import logging
import sys
from pathlib import Path

_ROOT = logging.getLogger("neuro_cli")


def log_to(run: Path | None, rank: int) -> None:
    """Send the package's log to ``run``/log.txt (None: no file) and warnings to stderr, replacing earlier handlers."""
    for handler in list(_ROOT.handlers):
        _ROOT.removeHandler(handler)
        handler.close()
    _ROOT.setLevel(logging.INFO)
    _ROOT.propagate = False
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("neuro: %(message)s" if rank == 0 else f"neuro: rank {rank}: %(message)s"))
    if rank == 0:
        _ROOT.addHandler(terminal)
    else:
        _ROOT.addHandler(logging.NullHandler())
    if run is not None and rank == 0:
        file = logging.FileHandler(run / "log.txt")
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        _ROOT.addHandler(file)
