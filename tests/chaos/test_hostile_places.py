"""Twelve hostile file systems and containers, five commands in each: a cell works, or ends with one line.

Places are namespaces of this machine (``unshare``, as root) and a library that refuses calls (``shim.c``, by gcc).
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.worlds import clean_environment

HERE = Path(__file__).parent
TRAIN = ("population=8", "batch_size=8", "threads=1", "evaluate.every=2")
SEARCH = (
    "trainings=3",
    "max_layers=2",
    "strategy.population=2",
    "training.epochs=1",
    "training.batch_size=256",
    "model.filters=2",
)
COMMANDS = {
    "train": ("train", *TRAIN, "generations=4", "ranks=2", "hydra.run.dir=new"),
    "resume": ("resume", "run", "generations=4", "ranks=2"),
    "sweep": ("train", "-m", *TRAIN, "generations=2", "seed=1,2", "hydra.sweep.dir=new"),
    "evolve": (
        "evolve",
        "population=4",
        "batch_size=16",
        "threads=1",
        "generations=3",
        "cluster.local_peers=2",
        "hydra.run.dir=new",
    ),
    "search": ("search", *SEARCH, "hydra.run.dir=new"),
}


@dataclass(frozen=True)
class Place:
    """A hostile place: shell lines that make it in a mount namespace, variables, words before the command.

    ``lines``: commands that end with one line there; all others work.
    """

    setup: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    before: str = ""
    lines: tuple[str, ...] = ()


def _shim(name: str, *lines: str) -> Place:
    return Place(variables={"CHAOS": name, "LD_PRELOAD": "@shim@"}, lines=lines)


QUOTA = "/sys/fs/cgroup/cpu/neuro_chaos_$$"
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")
PLACES = {
    "no fsync of folders": _shim("fsync"),
    "no rename over an open file": _shim("rename"),
    "no hard links": _shim("link"),
    "no symbolic links": _shim("symlink"),
    "no locks of files": _shim("flock", "search"),  # SQLite needs locks
    "a full disk": Place(
        "mkdir full; mount -t tmpfs -o size=2m none full; [ ! -d run ] || cp -r run full/; cd full; "
        "head -c $(($(df -k --output=avail . | tail -1) - 24))K /dev/zero > filler",
        lines=tuple(COMMANDS),
    ),
    "a read-only HOME": Place("mkdir home; mount -t tmpfs -o ro none home; export HOME=$PWD/home; unset XDG_CACHE_HOME"),
    "a uid without a name": Place(before="unshare --user --map-user=54321 --map-group=54321"),
    "16 MB of /dev/shm": Place("mount -t tmpfs -o size=16m none /dev/shm"),
    "half a core of quota": Place(
        f"mkdir {QUOTA}; echo 100000 > {QUOTA}/cpu.cfs_period_us; echo 50000 > {QUOTA}/cpu.cfs_quota_us; echo $$ > {QUOTA}/tasks"
    ),
    "a TMPDIR of 100 characters": Place("export TMPDIR=/tmp/$(printf 'x%.0s' $(seq 95)); mkdir -p $TMPDIR"),
    "a proxy in the environment": Place(variables=dict.fromkeys(PROXIES, "http://127.0.0.1:9")),
}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that refuses calls; places need root, and namespaces."""
    if os.getuid() or not all(map(shutil.which, ("gcc", "unshare"))):
        pytest.skip("needs root, gcc and unshare")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(HERE / "shim.c"), "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two generations, made in a usual place."""
    folder = tmp_path_factory.mktemp("begun")
    command = [sys.executable, "-m", "neuro_cli", "train", *TRAIN, "generations=2", "hydra.run.dir=run"]
    subprocess.run(command, cwd=folder, env=clean_environment(), check=True, capture_output=True, timeout=900)
    return folder / "run"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize("name", PLACES)
def test_a_cell_works_or_is_a_line(name: str, verb: str, shim: Path, begun: Path, tmp_path: Path) -> None:
    place = PLACES[name]
    if name == "half a core of quota" and not os.access("/sys/fs/cgroup/cpu", os.W_OK):
        pytest.skip("no control groups of version 1 here")
    if verb == "resume":
        shutil.copytree(begun, tmp_path / "run")
    pairs = [f"{key}={str(shim) if value == '@shim@' else value}" for key, value in place.variables.items()]
    script = f'set -e\n{place.setup}\nexec {place.before} env "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash", *pairs]
    command += [sys.executable, "-m", "neuro_cli", *COMMANDS[verb]]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=900)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr[-3000:]
    if verb in place.lines:
        assert done.returncode, done.stdout
        assert [line for line in done.stderr.splitlines() if line.startswith("neuro: error: ")], done.stderr
    else:
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
