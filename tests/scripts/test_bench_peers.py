"""``scripts/bench_peers.py`` for real: what it refuses, neuro alone on a small network, and all three systems (slow)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import well
from support.tables import rows_of
from support.worlds import clean_environment

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_peers.py"
PHASES = ("sample", "perturb", "forward", "communicate", "update")
SMALL = ("--model", "MNIST_10K", "--population", "4", "--batch-size", "16", "--threads", "1")


def bench_peers(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], cwd=cwd, env=clean_environment(), capture_output=True, text=True
    )


@pytest.mark.slow  # three processes compile their passes
def test_neuro_and_its_references_are_timed_and_written(tmp_path):
    systems = ("neuro", "textbook", "roof")
    done = well(bench_peers("--systems", ",".join(systems), *SMALL, "--repeats", "2", "--output", "here/peers.csv", cwd=tmp_path))
    rows = rows_of(tmp_path / "here" / "peers.csv")
    assert [(row["system"], row["repeat"]) for row in rows] == [(system, repeat) for system in systems for repeat in "01"]
    for row in rows:
        assert 0 < sum(float(row[part]) for part in PHASES) <= float(row["seconds"]) * 1.05
        assert 1e8 < float(row["imports_memory_bytes"]) < 1.05 * float(row["peak_memory_bytes"])
    record = json.loads((tmp_path / "here" / "peers.json").read_text())
    assert record["threads"] == 1
    assert record["versions"]["neuro"]["torch"]
    for word in (
        "candidates/s",
        "neuro / textbook: ",
        "neuro / roof: ",
        "MNIST_10K, population 4, 16 examples",
        "1 threads",
        "torch 2",
    ):
        assert word in done.stdout
    assert not (tmp_path / "outputs").exists()  # no environment is made for a system that is not asked for


@pytest.mark.slow  # downloads the peers: 3 to 7 GB
@pytest.mark.timeout(3000)
def test_all_three_systems_run(tmp_path):
    environments = tmp_path / "peers"
    once = (*SMALL, "--repeats", "1", "--environments", str(environments))
    done = well(bench_peers(*once, "--output", "all.csv", cwd=tmp_path))
    assert [row["system"] for row in rows_of(tmp_path / "all.csv")] == ["neuro", "evosax", "evotorch"]
    for word in ("neuro / evosax: ", "neuro / evotorch: ", "jax 0", "evotorch 0"):
        assert word in done.stdout
    again = well(bench_peers(*once, "--vmap", "--model", "MNIST_3M", "--output", "again.csv", cwd=tmp_path))
    assert "creating its environment" not in again.stdout
