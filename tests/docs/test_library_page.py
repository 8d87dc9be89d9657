"""docs/how_to/library.md and own_data.md: their snippets run, the diff is that of the two scripts, scripts give what they say."""

import difflib
import io
import re
import runpy
import struct
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch
from doc_commands import ROOT

HOW_TO = ROOT / "docs" / "how_to"
PAGE, DATA_PAGE = ((HOW_TO / name).read_text() for name in ("library.md", "own_data.md"))
EXAMPLES = ROOT / "docs" / "examples"
DATA = ROOT.parent / "shared" / "data"


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def printed(script: str, *arguments: str) -> str:
    """What a script of docs/examples prints, run in this process."""
    before, text = sys.argv, io.StringIO()
    sys.argv = [script, *arguments]
    try:
        with redirect_stdout(text):
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    finally:
        sys.argv = before
    return text.getvalue()


def test_the_snippets_run_one_after_the_other(tmp_path, monkeypatch):
    images_of(tmp_path / "data" / "MNIST" / "raw", 256)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in (*blocks("python"), *blocks("python", DATA_PAGE)):
        # runs of the whole runner at a small size
        text = re.sub(r"generations=\d+", "generations=2", block) if "neuro.train(" in block else block
        text = text.replace("range(1, 9)", "range(1, 3)")  # seeds of a search
        with redirect_stdout(io.StringIO()):
            exec(compile(text, "library.md", "exec"), names)
    # the loops have learnt: the first by steps, the second by ask and tell
    assert names["report"].fitness_mean > -0.6
    assert names["es"].centre.sub(1.0).abs().max() < 0.05
    assert names["utilities"].shape == (256,)
    assert names["result"].summary["generations"] == 2
    assert names["best"] in (0.05, 0.1)


@pytest.mark.parametrize(
    ("script", "page", "guards"),
    [("mnist_evolution.py", PAGE, 6), ("mnist_forward_gradient.py", (HOW_TO / "forward_gradient.md").read_text(), 0)],
)
def test_the_diff_is_that_of_the_two_scripts(script, page, guards):
    before, after = ((EXAMPLES / name).read_text().splitlines() for name in ("mnist_backprop.py", script))
    changed = [line[0] + line[2:] for line in difflib.ndiff(before, after) if line[0] in "+-" and line[2:].strip()]
    changed = [line for line in changed if '"""' not in line]
    # the guard for other ranks, and what it indents
    guarded = [line for line in changed if "es.rank" in line or "print(" in line or "torch.save" in line] if guards else []
    (shown,) = blocks("diff", page)
    left = [line for line in changed if line not in guarded]
    assert sorted(left) == sorted(line for line in shown.splitlines() if line[1:].strip())
    assert len(guarded) == guards


def test_ask_and_tell_find_the_constants_of_the_spring():
    assert printed("black_box.py", "60") == "generation 60: stiffness 2.500, damping 0.300\n"


def images_of(folder: Path, count: int) -> None:
    """Files of MNIST's form: squares in one of ten places, which a small network learns."""
    folder.mkdir(parents=True)
    for prefix, number in (("train", count), ("t10k", count // 4)):
        draw = np.random.default_rng(number)
        targets = draw.integers(0, 10, number).astype(np.uint8)
        images = draw.integers(0, 30, (number, 28, 28)).astype(np.uint8)
        for image, target in zip(images, targets, strict=True):
            row, column = divmod(int(target), 4)
            image[row * 9 : row * 9 + 7, column * 7 : column * 7 + 7] = 250
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, number, 28, 28) + images.tobytes())
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, number) + targets.tobytes())


def test_both_scripts_train_on_files_of_mnists_form(tmp_path, monkeypatch):
    images_of(tmp_path / "MNIST" / "raw", 1024)
    monkeypatch.chdir(tmp_path)
    for script in ("mnist_backprop.py", "mnist_evolution.py"):
        lines = printed(script, str(tmp_path), "2").splitlines()
        assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2"]
        assert (tmp_path / "mnist.pt").exists()
        (tmp_path / "mnist.pt").unlink()


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "MNIST" / "raw").exists(), reason="MNIST is not there")
def test_the_accuracy_that_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = re.search(
        r"(\d\d\.\d\d) % of the 10,000 test images are right; back-propagation has (\d\d\.\d\d) %", " ".join(PAGE.split())
    )
    assert said is not None
    for script, share in zip(("mnist_evolution.py", "mnist_backprop.py"), said.groups(), strict=True):
        (line,) = printed(script, str(DATA), "1").splitlines()
        assert float(re.search(r"([\d.]+)%", line)[1]) == pytest.approx(float(share), abs=1.0)


def test_the_loop_of_digits_runs_and_its_state_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["digits.py", "3"])
    digits = runpy.run_path(str(EXAMPLES / "digits.py"))
    es, before = digits["es"], digits["es"].centre
    assert digits["report"].fitness_best >= digits["report"].fitness_mean
    assert digits["right"] > 0.15  # of ten classes
    with torch.no_grad():
        digits["module"][0].weight.zero_()
    es.load_state_dict(torch.load("state.pt", weights_only=True))
    assert torch.equal(es.centre, before)
