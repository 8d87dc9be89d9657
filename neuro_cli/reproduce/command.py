"""A command of ``neuro`` in a process that ends, cleanly where it can, with the one that started it."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from neuro_cli.core.machine.process import last_line, start, stop
from neuro_cli.runner.stop_signals import StopRequest

PATIENCE = 90.0  # seconds to end after a request
POLL = 0.1


class StoppedError(Exception):
    """Request to stop a command; finished work is kept."""


def run_command(arguments: Sequence[str], terminal: Path) -> int:
    """Run ``neuro ARGUMENTS`` with its output added to ``terminal``. Returns the exit code.

    Raises StoppedError when this process is asked to stop meanwhile.
    """
    with StopRequest(None) as request, terminal.open("ab") as output:
        command = [sys.executable, "-P", "-m", "neuro_cli", *arguments]
        process = start(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            while process.poll() is None and not request.wanted():
                time.sleep(POLL)
        finally:
            (code,) = stop(process, patience=PATIENCE)
        if request.wanted():
            raise StoppedError
        return code


def last_words(terminal: Path) -> str:
    """Return the last line that a command printed."""
    return last_line(terminal).removeprefix("neuro: error: ") or "no output"
