"""How worlds are started, and that none outlives the process that waits for it."""

import subprocess
import sys
import tempfile

import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.network import Network
from neuro_cli.launch import dev_shm, launcher


def test_open_mpi_may_share_cores_and_mpich_needs_no_word():
    assert launcher.Launcher("mpiexec", "mpich").command(3, ["x", "y"]) == ["mpiexec", "-n", "3", "x", "y"]
    words = launcher.Launcher("mpiexec", "openmpi").command(3, ["x"])
    assert words[0] == "mpiexec"
    assert words[-3:] == ["-n", "3", "x"]
    assert "--oversubscribe" in words


READS = """
import os, subprocess, sys
from neuro_cli.launch.launcher import Launcher, Start
words = [sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"]
sys.exit(Start(Launcher("mpiexec", "mpich"), words, os.environ).run())
"""


def test_a_world_leaves_the_input_to_the_loop_of_a_shell():
    assert subprocess.run([sys.executable, "-c", READS], input="7 lines", text=True, timeout=240).returncode == 0


@pytest.mark.parametrize("kind", ["mpich", "openmpi"])
def test_an_emulated_world_runs_inside_its_network(kind):
    network = Network("made", rate=1e9, latency=1e-4, emulate=True)
    words = launcher.Launcher("mpiexec", kind).emulated(2, network, ["program"])
    assert words[:7] == [sys.executable, "-P", "-m", "neuro_cli.fabric.emulation.hosts", "2", "1000000000.0", "0.0001"]
    assert words[7] == "mpiexec"
    assert words[-1] == "program"
    assert any("neuro_cli.fabric.emulation.enter_host" in word for word in words)
    assert ("10.77.0.1:1,10.77.0.2:1" in words) == (kind == "openmpi")


def test_more_hosts_than_addresses_are_refused(monkeypatch):
    network = Network("made", rate=1e9, latency=1e-4, emulate=True)
    monkeypatch.setattr(Network, "check_rights", lambda self: None)
    with pytest.raises(ConfigError, match="ranks=254: at most 253 hosts can be emulated"):
        launcher.world_start(254, ["program"], network)


@pytest.mark.parametrize(
    ("kind", "megabytes", "set_there"),
    [
        ("mpich", 29, {}),
        ("mpich", 28, {"UCX_TLS": "^posix"}),
        ("openmpi", 33, {"OMPI_MCA_btl_sm_backing_directory": tempfile.gettempdir()}),
        ("openmpi", 35, {}),
        ("srun", 1, {}),
    ],
)
def test_ranks_do_with_the_shared_memory_that_is_free(monkeypatch, kind, megabytes, set_there):
    monkeypatch.delenv("UCX_TLS", raising=False)
    monkeypatch.setattr(dev_shm, "_free", lambda: megabytes * 1e6)
    assert dev_shm.variables(kind, 2) == set_there
    for name in set_there:
        monkeypatch.setenv(name, "mine")
    assert dev_shm.variables(kind, 2) == {}


def test_too_little_shared_memory_is_one_line(monkeypatch):
    monkeypatch.setattr(dev_shm, "_free", lambda: 2e6)
    with pytest.raises(ConfigError, match=r"ranks=2: MPICH needs 2\.2 MB of /dev/shm, where 2\.0 MB are free; docker run"):
        dev_shm.variables("mpich", 2)
