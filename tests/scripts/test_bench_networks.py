"""``scripts/bench_networks.py``: what it refuses, its rows, and some of them for real (slow)."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.inside import well
from support.tables import rows_of
from support.worlds import clean_environment

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_networks.py"


def test_torch_networks_have_the_sizes_that_the_rows_promise(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent / "peers")
    import torch
    from network_evolution import sequential
    from networks import NETWORKS

    for name, network in NETWORKS.items():
        if network.gpt is None:
            assert sequential(network.layers)(torch.zeros(2, *network.shape)).dim() == 2, name


LARGE = [f"large_512_256x16_{sampler}_float32" for sampler in ("low_rank", "sign_flip")]


@pytest.mark.slow  # processes of their own, which compile their passes
@pytest.mark.parametrize(
    ("pattern", "names", "reference"),
    [("large_512*float32", LARGE, "inference"), ("rollout_cart*", ["rollout_cart_pole"], "bare")],
)
def test_rows_are_compared_with_their_references(tmp_path, pattern, names, reference):
    if reference == "bare":
        pytest.importorskip("gymnasium")
    options = ("--rows", pattern, "--repeats", "2", "--threads", "1", "--output", "here/rows.csv")
    done = well(
        subprocess.run(
            [sys.executable, str(SCRIPT), *options], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True
        )
    )
    rows = rows_of(tmp_path / "here" / "rows.csv")
    assert [(row["row"], row["system"]) for row in rows] == [
        (name, system) for name in names for system in ("neuro", reference) for _ in range(2)
    ]
    assert all(float(row["seconds"]) > 0 for row in rows)
    assert "ratio of" in done.stdout
