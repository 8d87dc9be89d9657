"""scripts/gpu_check.sh where there is no GPU: one clear line, exit code 2, nothing written."""

from pathlib import Path

import pytest
import torch
from support.inside import script_inside

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.py"


def test_without_a_gpu_it_says_so_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = script_inside(SCRIPT, "--folder", str(tmp_path / "results"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "neuro: gpu_check: no CUDA device that torch can use; run it where `neuro doctor` names one\n"
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--only", "noise,tabels"], "neuro: gpu_check: --only noise: must be among tests, generation, reproduce, "),
        (["--data", "/no/such/folder"], "neuro: gpu_check: --data /no/such/folder: no MNIST/raw there"),
        (["--folders", "x"], "neuro: gpu_check: unrecognized arguments: --folders x"),
    ],
)
def test_bad_arguments_are_one_line(arguments, line, tmp_path):
    done = script_inside(SCRIPT, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(line)
