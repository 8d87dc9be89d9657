"""docs/examples/digits.py, whose loop the README shows: in this process at a small size; slow: whole, and on two ranks."""

import runpy
import sys

import pytest
import torch
from doc_commands import ROOT
from support.worlds import needs_mpi, program

SCRIPT = ROOT / "docs" / "examples" / "digits.py"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """What three generations leave, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["digits.py", "3"])
    return runpy.run_path(str(SCRIPT))


def test_the_loop_runs_and_its_state_is_read(small):
    es, before = small["es"], small["es"].centre
    assert es.generation == 3
    assert small["report"].fitness_best >= small["report"].fitness_mean
    assert small["right"] > 0.15  # of ten classes
    with torch.no_grad():
        small["module"][0].weight.zero_()
    es.load_state_dict(torch.load("state.pt", weights_only=True))
    assert torch.equal(es.centre, before)


@pytest.mark.slow
def test_the_whole_loop_learns_the_digits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["digits.py"])
    assert runpy.run_path(str(SCRIPT))["right"] > 0.9


@pytest.mark.slow
@needs_mpi
def test_the_loop_under_a_launcher_has_the_bits_of_one_process(small, tmp_path):
    alone = torch.load(tmp_path / "state.pt", weights_only=True)
    (tmp_path / "state.pt").unlink()
    done = program(SCRIPT, "3", cwd=tmp_path, ranks=2)
    assert done.returncode == 0, done.stderr
    shared = torch.load(tmp_path / "state.pt", weights_only=True)
    assert alone["tensors"].keys() == shared["tensors"].keys()
    assert torch.equal(alone["tensors"]["parameters"], shared["tensors"]["parameters"])
