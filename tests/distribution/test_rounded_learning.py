"""A network learns from rounded sums as it does from whole ones."""

from pathlib import Path

import pytest
from support.configs import composed

from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.centre import centre_module, evaluate_centre
from neuro_cli.runner.options import Options

GENERATIONS = 100
SETTING = (
    "model._target_=digit_nets.Perceptron",
    "distribution=chromosome_updates",
    "population=64",
    "batch_size=64",
    "threads=1",
    f"generations={GENERATIONS}",
)


def accuracy(*overrides: str) -> float:
    """On the test set of digits; 0.1 is chance."""
    parts = build(Options(composed(*SETTING, *overrides)), SingleProcess())
    for generation in range(GENERATIONS):
        parts.distribution.step(generation)
    return evaluate_centre(parts, centre_module(parts, parts.algo.centre, GENERATIONS - 1))["test_accuracy"]


@pytest.mark.slow  # by default test_codec.py and test_error_feedback.py hold what is rounded
@pytest.mark.parametrize("algo", ["openai_es", "snes"])
def test_int8_learns_the_digits_as_float32_does(algo, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    whole, rounded = accuracy(f"algo={algo}"), accuracy(f"algo={algo}", "distribution.wire=int8")
    print(f"{algo}: float32 {whole:.3f}, int8 {rounded:.3f}")
    assert whole > 0.8
    assert rounded > whole - 0.05
