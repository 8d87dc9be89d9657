"""Runs a command of ``neuro`` as a child process, which is asked to end with this one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from neuro_cli.core.process import die_with_parent
from neuro_cli.runner.stop import StopRequest

PATIENCE = 90.0  # seconds to end after being asked
POLL = 0.1


class StoppedError(Exception):
    """Request to stop a command; finished work is kept."""


def run_command(arguments: Sequence[str], terminal: Path) -> int:
    """Run ``neuro ARGUMENTS``, add its output to ``terminal``, and return its exit code.

    Raises StoppedError when this process is asked to stop meanwhile.
    """
    with StopRequest(None) as stop, terminal.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "neuro_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(die_with_parent, signal.SIGTERM),
        )
        try:
            while process.poll() is None and not stop.wanted():
                time.sleep(POLL)
        finally:
            _end(process)
        if stop.wanted():
            raise StoppedError
        return process.returncode


def last_words(terminal: Path) -> str:
    """Last line that a command printed."""
    lines = terminal.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("neuro: error: ") if lines else "it said nothing"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask for its end if it goes on, then enforce it: its own session, so its group and no other."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
