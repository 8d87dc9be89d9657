"""Processes that a process starts: their end with it, their end when asked, and their end by force."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until
from support.worlds import alive

from neuro_cli.core.machine.process import ended_with_us, exit_text, last_line, resident_bytes, start, stop

DEAF = ["sh", "-c", "trap '' TERM; sleep 600 & echo $!; wait"]
NOBODY = 2**22 + 1  # more than any process id
OWNER = """
import subprocess, sys
from neuro_cli.core.machine.process import start
child = start(["sleep", "600"], int(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[Any]"]]:
    processes: list[subprocess.Popen[Any]] = []
    yield processes
    stop(*processes, patience=0.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_a_killed_parent(number):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(int(number))], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdin is not None
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    assert alive(child)
    owner.kill()
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()
    until(lambda: not alive(child))


def test_a_parent_that_ended_before_the_call_is_noticed():
    words = ended_with_us(["echo", "it goes on"], signal.SIGTERM)
    done = subprocess.run([*words[:5], str(NOBODY), *words[6:]], capture_output=True)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")


def test_what_is_asked_ends_by_sigterm(started):
    started += [start(["sleep", "600"]) for _ in range(2)]
    assert stop(*started, patience=20.0) == [-signal.SIGTERM] * 2


def test_what_does_not_end_is_killed_with_what_it_started(started):
    started.append(start(DEAF, stdout=subprocess.PIPE, text=True))
    grandchild = int(started[0].stdout.readline())
    assert stop(started[0], patience=0.2) == [-signal.SIGKILL]
    until(lambda: not alive(grandchild))
    assert started[0].stdout.closed


def test_what_ends_by_itself_is_not_asked(started):
    started.append(start(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE))
    started[0].stdin.close()
    assert stop(started[0], patience=20.0, ask=False) == [3]


def test_a_process_has_a_session_of_its_own(started):
    started.append(start(["sleep", "600"]))
    assert os.getsid(started[0].pid) == started[0].pid != os.getsid(0)


def test_a_command_that_is_not_there_says_so(started):
    started.append(start(["no-such-command"], stderr=subprocess.PIPE, text=True))
    assert started[0].stderr.read() == "no-such-command: No such file or directory\n"
    assert stop(started[0], patience=20.0, ask=False) == [1]


def test_signals_that_python_ignores_are_not_ignored_in_a_command(started):
    started.append(start(["cat", "/proc/self/status"], stdout=subprocess.PIPE, text=True))
    (ignored,) = [line.split()[1] for line in started[0].stdout if line.startswith("SigIgn")]
    assert not int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_exit_codes_in_words():
    assert exit_text(3) == "exit code 3"
    assert exit_text(-signal.SIGSEGV) == "signal SIGSEGV"
    assert exit_text(-(signal.SIGRTMIN + 3)) == f"signal {signal.SIGRTMIN + 3}"  # has no name


def test_the_last_line_is_the_last_with_text(tmp_path):
    (tmp_path / "terminal.txt").write_bytes(b"first\nlast \xff\n\n  \n")
    assert last_line(tmp_path / "terminal.txt") == "last \ufffd"
    (tmp_path / "terminal.txt").write_text("")
    assert last_line(tmp_path / "terminal.txt") == ""


def test_memory_is_that_of_a_process_and_its_descendants(started):
    started.append(start(["sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE))
    started[0].stdout.readline()
    alone = int(Path(f"/proc/{started[0].pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes(started[0].pid) > alone
    assert resident_bytes(NOBODY) == 0
