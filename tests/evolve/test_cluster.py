"""One cluster of real peers, from its founding to its end: joins, refusals, the loss of its leader, export, replay."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_lab import SECRET, SMALL, Lab, consistent, descendants_with
from support.inside import Done, neuro_inside, one_line
from support.waiting import until
from support.worlds import clean_environment

from neuro_cli.evolve.ledger.file import read_ledger
from neuro_cli.evolve.network.secret import VARIABLE
from neuro_cli.runner.load import load

# examples of a direction's own; the schedule ends at one iteration, at whichever a peer ends; models are averages of centres
PAIRS = (
    "layout=per_example", "algo.average=0.9", "selection.shaping=pair_z_score", "selection.lr_schedule.kind=cosine",
    "selection.lr_schedule.generations=10000000",
)  # fmt: skip
# peers that train while others start: naps leave the cores to those
NAPPING, TRUST = "model._target_=napping_digits.NappingDigits", "trust=napping_digits"


@pytest.fixture
def lab(tmp_path):
    shutil.copy(Path(__file__).parent / "napping_digits.py", tmp_path)
    found = Lab(
        tmp_path, "generations=10000000", "cluster.grace=2.0", "cluster.deadline=2.0", "cluster.join_timeout=30", NAPPING, *PAIRS
    )  # fmt: skip
    yield found
    found.end()


def test_a_cluster_outlives_its_leader_refuses_strangers_and_leaves_runs_like_any_other(lab, tmp_path, monkeypatch):
    founder = lab.start()
    second, third = (lab.start(join=founder.address) for _ in range(2))
    lab.wait(lambda: lab.entered([founder, second, third]), 120, "a cluster of three")
    lab.wait(lambda: third.iteration() > 5, 60, "training")

    def peer(*arguments: str) -> Done:
        """Be a peer inside the test's own process, to its end."""
        where = {VARIABLE: SECRET, "OMP_NUM_THREADS": "1"}
        return neuro_inside("evolve", *SMALL, NAPPING, *PAIRS, "cluster.local_peers=1", *arguments, cwd=tmp_path, **where)

    # a stranger: its run has another seed
    place = f"cluster.join={founder.address}"
    assert one_line(peer(place, "seed=2")) == f"{place}: refused: seed is 1 in the cluster, 2 at the newcomer"
    lab.wait(
        lambda: "seed is 1 in the cluster, 2 at the newcomer" in (founder.run / "log.txt").read_text(),
        10,
        "the refusal in the log",
    )

    # the leader is killed; somebody else leads, and a new peer gets the whole history
    lab.wait(lambda: lab.leader() is not None, 30, "a leader")
    leader = lab.leader()
    before = max(peer.iteration() for peer in lab.alive)
    leader.kill()
    survivors = lab.alive
    lab.wait(lambda: min(peer.iteration() for peer in survivors) > before + 3, 60, "training without the first leader")
    last = survivors[0].iteration() + 60
    more = (f"generations={last}", "cluster.deadline=3.0", "hydra.run.dir=newcomer")
    joined = peer(f"cluster.join={survivors[0].address}", *more)
    assert joined.returncode == 0, joined.stderr
    lab.wait(lambda: min(peer.iteration() for peer in survivors) > last + 3, 60, "training without the newcomer, which has left")

    # any peer writes the model at any time
    exported = neuro_inside("evolve", "export", str(survivors[0].run), "file=model.safetensors", TRUST, cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "model.safetensors").stat().st_size > 4 * 11274

    # all end; all have one history, the killed one too
    lab.end()
    assert consistent([*lab.ledgers(), read_ledger(tmp_path / "newcomer")]) > last
    for left in survivors:
        assert left.process.returncode == 0, left.errors()
    run, summary = survivors[0].run, survivors[0].summary()
    last = summary["generations"]
    rows = (run / "metrics.csv").read_text().splitlines()
    assert rows[0].startswith("generation,fitness_mean,")
    again = neuro_inside("evolve", "export", str(run), "from_start=true", TRUST, cwd=tmp_path)
    assert f"iteration {last}, parameters {summary['parameters_sha256'][:16]}" in again.stdout

    # and anybody makes it again from what it began with and one small file
    for file in (("file=tuned.ledger",), ("file=base.safetensors", "iteration=0")):
        assert neuro_inside("evolve", "export", str(run), *file, TRUST, cwd=tmp_path).returncode == 0
    applied = neuro_inside("apply", "tuned.ledger", "base.safetensors", TRUST, cwd=tmp_path)
    assert f"iteration {last}, parameters {summary['parameters_sha256'][:16]}" in applied.stdout
    assert (tmp_path / "tuned.ledger").stat().st_size < 4000 + 200 * last
    monkeypatch.syspath_prepend(tmp_path)
    model = load(run, trust=["napping_digits"])
    assert sum(parameter.numel() for parameter in model.parameters()) == summary["parameters"]
    for verb in (("evaluate", TRUST), ("report", "html=false")):
        done = neuro_inside(verb[0], str(run), *verb[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "a peer of neuro evolve" in one_line(neuro_inside("resume", str(run), TRUST, cwd=tmp_path))

    # what is left of a cluster goes on, when told so
    alone = peer(f"cluster.from_run={run}", "cluster.force_new=true", f"generations={last + 3}", "hydra.run.dir=alone")
    assert alone.returncode == 0, alone.stderr
    assert consistent([read_ledger(run), read_ledger(tmp_path / "alone")]) == last + 3


@pytest.mark.slow  # by default the cluster above loses its leader, and a search's processes end with it
def test_the_default_cluster_ends_with_its_founder(tmp_path):
    """Three peers by one command; SIGKILL of the founder leaves no orphans, and a finished one leaves equal models."""
    mark = f"NEURO_TEST_MARK=evolve-{os.getpid()}"
    environment = clean_environment() | dict([mark.split("=")])
    command = [sys.executable, "-m", "neuro_cli", "evolve", *SMALL, "hydra.run.dir=run"]
    done = subprocess.run(
        [*command, "generations=20", "algo.average=0.9"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summaries = [
        json.loads((folder / "summary.json").read_text()) for folder in (tmp_path / "run", *(tmp_path / "run/peers").iterdir())
    ]
    assert len(summaries) == 3
    assert len({(s["parameters_sha256"], s["ledger_head"], s["generations"]) for s in summaries}) == 1
    secret = tmp_path / "run" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text().strip() not in (tmp_path / "run/.hydra/config.yaml").read_text()

    process = subprocess.Popen(
        [*command[:-1], "hydra.run.dir=other", "generations=1000000", "cluster.local_peers=2"], cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until((tmp_path / "other/peers/1/ledger.bin").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: descendants_with(mark) == [])
