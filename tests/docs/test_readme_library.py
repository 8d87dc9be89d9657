"""The README's loop runs as it stands there: in this process at a small size; slow: whole, and on two ranks."""

import re
import runpy
from pathlib import Path

import pytest
import torch
from doc_commands import ROOT, section_of
from worlds import needs_mpi, program

PAGE = section_of((ROOT / "README.md").read_text(), "The library")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
LOOP = next(block for block in BLOCKS if "neuro.Evolution(" in block)
SHORT = LOOP.replace("range(100)", "range(3)")


def written(code: str, folder: Path) -> Path:
    script = folder / "loop.py"
    script.write_text(code)
    return script


def test_the_loop_runs_and_its_state_is_read(tmp_path, monkeypatch):
    assert SHORT != LOOP
    monkeypatch.chdir(tmp_path)
    left = runpy.run_path(str(written(SHORT, tmp_path)))
    es, before = left["es"], left["es"].centre
    assert es.generation == 3
    assert left["report"].fitness_best >= left["report"].fitness_mean
    with torch.no_grad():
        left["module"][0].weight.zero_()
    es.load_state_dict(torch.load("state.pt", weights_only=True))
    assert torch.equal(es.centre, before)


def test_a_whole_run_from_the_readme(tmp_path, monkeypatch):
    """Its block at a small size, in a folder of its own."""
    block = next(block for block in BLOCKS if "neuro.train(" in block)
    small = block.replace("generations=100", "generations=2, population=8, batch_size=16, threads=1")
    assert small != block
    monkeypatch.chdir(tmp_path)
    left = runpy.run_path(str(written(f"import neuro_cli as neuro\n{small}", tmp_path)))
    assert len(left["run"].metrics["fitness_mean"]) == 2
    assert (left["run"].run / "summary.json").is_file()


@pytest.mark.slow
def test_the_whole_loop_learns_the_digits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = runpy.run_path(str(written(LOOP, tmp_path)))
    with torch.no_grad():
        right = left["module"](left["images"].float() / 16).argmax(1) == left["labels"]
    assert right.double().mean() > 0.9


@pytest.mark.slow
@needs_mpi
def test_the_loop_under_a_launcher_has_the_bits_of_one_process(tmp_path):
    seeded = SHORT.replace("images, labels =", "torch.manual_seed(1)\nimages, labels =")
    script = written(seeded + "    torch.save((first, es.centre), 'centre.pt')\n", tmp_path)
    script.write_text(script.read_text().replace("for generation", "first = es.centre\nfor generation"))
    centres = []
    for ranks in (0, 2):
        done = program(script, cwd=tmp_path, ranks=ranks)
        assert done.returncode == 0, done.stderr
        first, last = torch.load(tmp_path / "centre.pt")
        (tmp_path / "centre.pt").unlink()
        assert not torch.equal(first, last)
        centres.append(last)
    assert torch.equal(*centres)
