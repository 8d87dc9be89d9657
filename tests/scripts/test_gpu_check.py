"""scripts/gpu_check.sh where there is no GPU: one clear line, exit code 2, nothing written."""

from pathlib import Path

import torch
from support.inside import script_inside

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.py"


def test_without_a_gpu_it_says_so_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = script_inside(SCRIPT, "--folder", str(tmp_path / "results"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "neuro: gpu_check: no CUDA device that torch can use; run it where `neuro doctor` names one\n"
    assert not (tmp_path / "results").exists()
