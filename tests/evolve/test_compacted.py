"""Peers whose ledger lacks its first iterations, which a snapshot replaces: what one leaves when it is killed is a model."""

import signal
import sys
import time

import pytest
from cluster_lab import SECRET, SMALL, Lab
from support.forked import run_forked
from support.inside import neuro_inside
from support.worlds import clean_environment

from neuro_cli.evolve.ledger.file import read_ledger
from neuro_cli.evolve.network.secret import VARIABLE

# a command of a peer that is killed before it scores a member
KILLED = """
import os, signal, sys
from neuro_cli.cli.main import main
from neuro_cli.evolve.training.worker import PeerWorker
PeerWorker._score = lambda self: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["neuro", *sys.argv[1:]]
main()
"""


def killed(folder, name, *arguments):
    words = ["evolve", "cluster.local_peers=1", *SMALL, f"hydra.run.dir={name}", *arguments]
    environment = clean_environment() | {VARIABLE: SECRET}
    done = run_forked([sys.executable, "-c", KILLED, *words], 240, cwd=folder, env=environment)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow  # three peers and two exports, some seconds each
def test_a_peer_that_is_killed_behind_a_snapshot_leaves_a_model(tmp_path):
    lab = Lab(tmp_path, "generations=1000000", "cluster.compact_every=2", "cluster.grace=60")
    founder = lab.start()
    deadline = time.monotonic() + 240
    while not (founder.iteration() and read_ledger(founder.run).base) and time.monotonic() < deadline:
        time.sleep(0.1)
    killed(tmp_path, "joined", "generations=1000000", "cluster.compact_every=2", f"cluster.join={founder.address}")
    founder.kill()
    last = founder.iteration()
    more = ("generations=1000000", "cluster.compact_every=2", f"cluster.from_run={founder.run}", "cluster.force_new=true")
    killed(tmp_path, "continued", *more)
    for name in ("joined", "continued"):
        ledger = read_ledger(tmp_path / name)
        assert 0 < ledger.base <= ledger.next <= last
        exported = neuro_inside("evolve", "export", name, cwd=tmp_path)
        assert exported.returncode == 0, exported.stderr
        assert f"iteration {ledger.next}, parameters" in exported.stdout
