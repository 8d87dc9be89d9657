"""A fork of the server is to its caller what a process of its own is."""

import signal
import subprocess
import sys

import pytest

from support.forked import Forked, run_forked
from support.worlds import clean_environment, own_mpi, program

PLACE = "import os, sys; print(sys.argv, sys.path, os.getcwd(), sorted(os.environ.items()), sys.stdin.read(), __name__)"
ENDS = {
    "number": "import sys; sys.exit(3)",
    "text": "import sys; sys.exit('no')",
    "error": "def f():\n    return 1 / 0\nf()",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "exit": "import atexit, threading; atexit.register(print, 'end'); threading.Timer(0.05, print, ['thread']).start()",
}


def both(*words: str, cwd, **more):
    """Return exit code, output and errors of ``python WORDS`` as a fork and as a process of its own."""
    options = {"cwd": cwd, "env": clean_environment(), "stdin": subprocess.DEVNULL} | more
    fork = run_forked([sys.executable, *words], 120, **options)
    own = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, **options)
    return [(done.returncode, done.stdout, done.stderr) for done in (fork, own)]


@pytest.mark.parametrize("code", [PLACE, *ENDS.values()], ids=["place", *ENDS])
def test_a_fork_ends_as_a_process_of_its_own(code, tmp_path):
    fork, own = both("-c", code, "word", cwd=tmp_path)
    assert fork == own


def test_a_module_and_a_file_begin_as_from_a_shell(tmp_path):
    (tmp_path / "asked.py").write_text(PLACE)
    for words in (["-m", "asked", "a"], ["asked.py", "b"], ["-P", "-c", PLACE], ["-m", "neuro_cli", "train", "sead=1"]):
        fork, own = both(*words, cwd=tmp_path)
        assert fork == own


def test_a_process_that_a_fork_starts_is_a_fork(tmp_path):
    code = "import subprocess, sys; print('torch' in sys.modules, *sys.argv[1:], flush=True)"
    code += "; sys.argv[1:] and subprocess.run([sys.executable, '-P', '-c', sys.argv[1]], check=True)"
    assert run_forked([sys.executable, "-c", code, code], 120, cwd=tmp_path, env=clean_environment()).stdout.endswith("\nTrue\n")


def test_a_signal_of_the_caller_reaches_the_process_and_its_code_the_caller(tmp_path):
    words = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"]
    with Forked(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(), start_new_session=True
    ) as process:
        assert process.stdout.read(1) == b"1"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
        assert process.stderr.read().endswith(b"KeyboardInterrupt\n")


def test_another_number_of_threads_needs_a_start_of_its_own(tmp_path):
    with pytest.raises(AssertionError, match="start of its own"):
        run_forked([sys.executable, "-c", ""], 60, env=clean_environment() | {"OMP_NUM_THREADS": "3"})


@pytest.mark.skipif(bool(own_mpi().missing), reason=own_mpi().missing or "-")
@pytest.mark.parametrize("end", ["", "if MPI.COMM_WORLD.rank == 1: MPI.COMM_WORLD.Abort(7)\nelse: MPI.COMM_WORLD.Barrier()"])
def test_ranks_meet_and_end_as_those_of_their_own(end, tmp_path):
    path = tmp_path / "ranks.py"
    # no rank aborts before both have printed: the other would be killed first
    path.write_text(f"from mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1), flush=True)\nMPI.COMM_WORLD.Barrier()\n{end}")
    fork, own = (program(path, cwd=tmp_path, ranks=2, fresh=fresh) for fresh in (False, True))
    assert fork.stdout.count("2") == own.stdout.count("2") == 2
    assert fork.returncode == own.returncode == (7 if end else 0)
