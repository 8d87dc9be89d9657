"""Peers whose ledger lacks its first iterations, which a snapshot replaces: what one leaves when it is killed is a model."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from cluster_lab import SECRET, SMALL, Lab
from support.forked import run_forked
from support.inside import neuro_inside, one_line, well
from support.worlds import clean_environment

from neuro_cli.evolve.ledger.file import NAME, read_ledger
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.network.secret import VARIABLE
from neuro_cli.evolve.training import replay

# a command of a peer that is killed before it scores a member
KILLED = """
import os, signal, sys
from neuro_cli.cli.main import main
from neuro_cli.evolve.training.worker import PeerWorker
PeerWorker._score = lambda self: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["neuro", *sys.argv[1:]]
main()
"""


COMPACTED = (*SMALL[:3], *SMALL[4:], "cluster.local_peers=1", "generations=5", "checkpoint.every=1", "cluster.compact_every=2")


def synced_names(monkeypatch) -> list[str]:
    """Names of the files that this process brings to the disk from now on, in order."""
    names, real = list[str](), os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: names.append(Path(f"/proc/self/fd/{handle}").readlink().name) or real(handle))
    return names


def test_a_damaged_checkpoint_or_one_that_a_peer_replaces_meanwhile_costs_no_model(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        synced = synced_names(patch)
        well(neuro_inside("evolve", *COMPACTED, "hydra.run.dir=run", cwd=tmp_path))
    ledger = read_ledger(tmp_path / "run")
    assert (ledger.base, ledger.next) == (4, 5)
    own = [name.split(".")[0] for name in synced if name.startswith("0000") or name == NAME]
    assert [own[at - 1] for at, name in enumerate(own) if name.isdigit()] == ["ledger"] * 5  # before each checkpoint
    checkpoints = sorted((tmp_path / "run/checkpoints").glob("*.safetensors"))
    assert [path.stem for path in checkpoints] == ["00000003", "00000004", "00000005"]

    def export() -> str:
        done = well(neuro_inside("evolve", "export", "run", "file=model.safetensors", cwd=tmp_path))
        return done.stdout.rpartition(",")[0]  # all but the seconds

    said = export()
    assert f"iteration 5, parameters {json.loads((tmp_path / 'run/summary.json').read_text())['parameters_sha256'][:16]}" in said
    earlier = [Ledger(bytes(32), 9)]  # was read before the peer compacted it
    with monkeypatch.context() as patch:
        patch.setattr(replay, "read_ledger", lambda run: earlier.pop() if earlier else read_ledger(run))
        assert export() == said
    checkpoints[2].write_bytes(checkpoints[2].read_bytes()[:-1])
    assert export() == said
    checkpoints[1].unlink()
    line = one_line(neuro_inside("evolve", "export", "run", cwd=tmp_path))
    assert line == "run: its ledger begins at iteration 4, and no checkpoint fits"


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
