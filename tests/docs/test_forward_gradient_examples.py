"""docs/examples of training without back-propagation run, and the page's diff is that of two scripts."""

import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from test_library_page import images_of, printed


def test_the_script_trains_on_files_of_mnists_form(tmp_path, monkeypatch):
    images_of(tmp_path / "MNIST" / "raw", 1024)
    monkeypatch.chdir(tmp_path)
    lines = printed("mnist_forward_gradient.py", str(tmp_path), "3").splitlines()
    shares = [float(re.search(r"([\d.]+)%", line)[1]) for line in lines]
    assert len(shares) == 3
    assert shares[-1] > 60  # squares in ten places, a tenth by chance
    assert (tmp_path / "mnist.pt").exists()


def test_an_encoder_learns_in_front_of_a_black_box():
    pytest.importorskip("sklearn")
    before, after = (float(re.search(r"([\d.]+)%", line)[1]) for line in printed("black_box_inside.py", "12").splitlines())
    assert after > before + 10


@pytest.mark.slow  # each pass of each draw writes and reads files of JPEG
def test_an_encoder_learns_in_front_of_a_codec():
    pytest.importorskip("sklearn")
    pytest.importorskip("PIL")
    alone, both = (float(re.search(r"([\d.]+)%", line)[1]) for line in printed("codec_inside.py", "15").splitlines())
    assert both > alone + 10


@pytest.mark.slow
def test_lightning_trains_by_manual_optimisation(tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    losses = [float(line.split()[-1]) for line in printed("lightning_forward_gradient.py", "3").splitlines() if "loss" in line]
    assert all(later < earlier for earlier, later in pairwise(losses))


@pytest.mark.slow
def test_a_model_of_timm_trains_on_a_folder_of_images(tmp_path):
    pytest.importorskip("timm")
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    for part, each in (("train", 64), ("test", 16)):
        for name, red in (("bright", 200), ("dark", 60)):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(each):
                pixels = np.clip(random.normal([red, 120, 120], 20, (32, 32, 3)), 0, 255).astype(np.uint8)
                image.fromarray(pixels).save(tmp_path / part / name / f"{number}.png")
    printed_lines = printed("timm_forward_gradient.py", "test_resnet", str(tmp_path), "4").splitlines()
    assert float(printed_lines[-1].split()[-1]) > 0.9


@pytest.mark.slow
def test_the_trainer_of_transformers_trains(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    lines = [line for line in printed("trainer_forward_gradient.py", "3").splitlines() if " epoch: loss" in line]
    first, last = (float(line.split()[-1]) for line in lines)
    assert last < first
    assert torch.is_grad_enabled()
