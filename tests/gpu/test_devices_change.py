"""A run that began on a CUDA device continues without one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.inside import well
from support.tables import rows_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

SETTING = ("population=32", "batch_size=64", "generations=6", "checkpoint.every=3", "evaluate.every=3", "seed=3")


def neuro(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neuro_cli", *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_a_run_on_cuda_is_resumed_on_a_cpu(tmp_path, sampler):
    well(neuro(tmp_path, "train", f"sampler={sampler}", *SETTING, "device=cuda", "hydra.run.dir=there"))
    shutil.copytree(tmp_path / "there", tmp_path / "here")
    well(neuro(tmp_path, "resume", "there", "generations=9"))
    # a machine without a GPU
    well(neuro(tmp_path, "resume", "here", "device=cpu", "generations=9", CUDA_VISIBLE_DEVICES=""))
    here, there = rows_of(tmp_path / "here" / "metrics.csv"), rows_of(tmp_path / "there" / "metrics.csv")
    assert [int(row["generation"]) for row in here] == list(range(1, 10))
    # the first generation after the checkpoint: the same members on the same examples; later ones part by rounding
    assert float(here[6]["fitness_mean"]) == pytest.approx(float(there[6]["fitness_mean"]), rel=1e-4)
    assert json.loads((tmp_path / "here" / "summary.json").read_text())["generations"] == 9


def test_a_device_that_is_gone_is_one_line(tmp_path):
    well(neuro(tmp_path, "train", *SETTING, "device=cuda", "hydra.run.dir=run"))
    done = neuro(tmp_path, "resume", "run", "generations=9", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "device=cuda: must be auto, cpu or cuda[:N]; 0 CUDA devices here" in done.stderr
