"""Commands that kill themselves at a write: a process that is ended from outside would rarely be amid one."""

import signal
import sys
from pathlib import Path

from support.forked import run_forked
from support.worlds import clean_environment

# it ends before the last of its calls of os.CALL on a file NAME, a pattern, by path or by descriptor, or amid save_file
COMMAND = """
import os, re, signal, sys
from fnmatch import fnmatch
from pathlib import Path

import neuro_cli.run_folder.model_file as model_file
from neuro_cli.cli.main import main

call, name, count, *arguments = sys.argv[1:]
left = int(count)

def named(value):
    path = os.readlink(f"/proc/self/fd/{value}") if isinstance(value, int) else os.fspath(value)
    return re.sub(r"[.]\\d+[.]tmp$", ".tmp", os.path.basename(path))

def dying(*given, real=getattr(os, call, None), **options):
    global left
    left -= fnmatch(named(given[0 if call in ("write", "pwrite") else -1]), name)
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **options)

def torn(tensors, path, metadata=None):  # safetensors writes to a file of a random name, and then renames it
    Path(path).with_name(".tmpaBcDeF").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

if call == "save_file":
    model_file.save_file = torn
else:
    setattr(os, call, dying)
sys.argv = ["neuro", *arguments]
main()
"""


def dying(call: str, name: str, count: int) -> list[str]:
    """Return the begin of a command line of neuro that is killed before the ``count``-th ``os.CALL`` on a file ``name``.

    ``name``: a pattern; a temporary file is NAME.tmp here, without its process id. ``call``: also save_file, amid which it ends.
    """
    return [sys.executable, "-c", COMMAND, call, name, str(count)]


def killed(folder: Path, call: str, name: str, count: int, *arguments: str) -> None:
    """Run ``neuro ARGUMENTS`` in ``folder`` to its kill: see :func:`dying`. Raises AssertionError if it ends otherwise."""
    done = run_forked([*dying(call, name, count), *arguments], 300, cwd=folder, env=clean_environment())
    assert done.returncode == -signal.SIGKILL, (done.returncode, done.stderr)
