"""Tab in a real shell: the scripts of ``neuro completion`` in bash, zsh and fish on a terminal, where they are installed."""

import os
import pty
import re
import select
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.worlds import clean_environment

from neuro_cli.cli.completion import SHELLS

SET_UP = {
    "bash": (("--norc",), "PS1='ready> '"),
    "zsh": (("-f", "-i"), "PROMPT='ready> '; autoload -U compinit; compinit -D -u"),
    "fish": (("--no-config", "-i"), "function fish_prompt; echo -n 'ready> '; end"),
}
ESCAPES = re.compile(r"\x1b(\[[\d;?>=]*[a-zA-Z]|\][^\x07]*\x07|[()=>].?)")
SECONDS = 240.0  # on a machine at work the first Tab starts Python


class Terminal:
    """An interactive shell with ``neuro`` on its PATH, whose completion script is loaded."""

    def __init__(self, shell: str, folder: Path) -> None:
        flags, prompt = SET_UP[shell]
        command = [str(shutil.which(shell)), *flags]
        neuro = folder / "bin" / "neuro"
        neuro.parent.mkdir()
        neuro.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m neuro_cli "$@"\n')
        neuro.chmod(neuro.stat().st_mode | stat.S_IXUSR)
        path = f"{neuro.parent}:{os.environ['PATH']}"
        ours, theirs = pty.openpty()
        self._terminal, self.said = ours, ""
        environment = {**clean_environment(), "PATH": path, "TERM": "xterm", "HOME": str(folder), "COLUMNS": "200"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.type(f"{prompt}\n")
        self.wait("ready> ")
        (folder / "script").write_text(SHELLS[shell])
        self.type("source ./script; echo lo''aded\n")
        self.wait("loaded")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self, text: str) -> None:
        """Read what the shell shows until ``text`` is there, without escapes."""
        deadline = time.monotonic() + SECONDS
        while text not in self.said:
            assert time.monotonic() < deadline, (text, self.said)
            if select.select([self._terminal], [], [], 1.0)[0]:
                self.said += ESCAPES.sub("", os.read(self._terminal, 4096).decode(errors="replace"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_verbs_options_and_keys(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    terminal = Terminal(shell, tmp_path)
    try:
        for typed, shown in (
            ("neuro res\t", "neuro resume"), ("neuro train algo=sn\t", "algo=snes"), ("neuro train popu\t", "population="),
        ):  # fmt: skip
            terminal.said = ""
            terminal.type(typed)
            terminal.wait(shown)
            terminal.type("\x15")  # the line is removed
    finally:
        terminal.end()
