"""A search whose candidates are trained by a cluster: the same search as without one, whatever is killed meanwhile."""

import csv
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.worlds import clean_environment

from neuro_cli.broker.local_cluster import Cluster

TINY = (
    "trainings=12",
    "max_layers=2",
    "strategy.population=4",
    "training.epochs=2",
    "training.batch_size=256",
    "model.filters=2",
)


def search(run: Path, *overrides: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "neuro_cli", "search", *TINY, *overrides, f"hydra.run.dir={run}"]
    return subprocess.Popen(command, cwd=run.parent, env=clean_environment(), stderr=subprocess.PIPE, text=True)


def found(run: Path) -> tuple:
    """What a search found, without clocks and names of workers."""
    with (run / "candidates.csv").open(newline="") as file:
        rows = [{**row, "seconds": "", "worker": ""} for row in csv.DictReader(file)]
    summary = json.loads((run / "summary.json").read_text())
    return rows, [summary[name] for name in ("module", "validation_accuracy", "test_accuracy", "generations")]


@pytest.mark.slow
def test_a_search_on_a_cluster_that_is_shot_at_finds_what_an_undisturbed_one_finds(tmp_path):
    calm = search(tmp_path / "calm", "pool.workers=2")
    assert calm.wait(200) == 0, calm.stderr.read()
    chance, cluster = random.Random(1), Cluster(tmp_path / "cluster")
    killed: list[str] = []
    try:
        cluster.start_nameserver()
        for number in range(2):
            cluster.start_broker(f"broker {number}", losses=100)
        for number in range(3):
            cluster.start_worker(f"worker {number}")
        there = (f"nameserver.address={cluster.nameserver}", f"security.certificates={cluster.certificates}")
        shot_at = search(tmp_path / "shot", "role=model", "pool=broker", *there)
        rows = tmp_path / "shot" / "candidates.csv"
        while shot_at.poll() is None:
            time.sleep(1.5)
            cluster.revive()
            if rows.exists() and len(killed) < 8:  # a task that is always killed would never be done
                killed.append(chance.choice(list(cluster.members)))
                cluster.members[killed[-1]].process.kill()
                cluster.members[killed[-1]].process.wait()
        assert shot_at.returncode == 0, shot_at.stderr.read()
    finally:
        cluster.close()
    print("killed:", killed)
    assert len(killed) >= 3
    assert found(tmp_path / "shot") == found(tmp_path / "calm")
