"""scripts/gpu_check.sh where there is no GPU: one clear line, exit code 2, nothing written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHON": sys.executable}
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, timeout=120)


def test_without_a_gpu_it_says_so_in_one_line(tmp_path):
    done = called("--folder", str(tmp_path / "results"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "neuro: gpu_check: no CUDA device that torch can use; run it where `neuro doctor` names one"
    ]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--only", "noise,tabels"], "neuro: gpu_check: --only tabels: must be among tests, generation, evosax, noise, "),
        (["--data", "/no/such/folder"], "neuro: gpu_check: --data /no/such/folder: no MNIST/raw there"),
        (["--folders", "x"], "neuro: gpu_check: unrecognized arguments: --folders x"),
    ],
)
def test_bad_arguments_are_one_line(arguments, line):
    done = called(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(line)
