"""``scripts/random_modules.py``: a program in each use, and that a wrong number would be seen."""

import numpy as np
import pytest
import torch
from test_kept_results import ROOT


@pytest.fixture
def uses(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import random_modules

    return lambda use, seed, kind="plain": random_modules.USES[use](random_modules.Case(seed, random_modules.KINDS[kind]))


@pytest.mark.parametrize("use", ["step", "settings", "closure", "perturbed", "gradient", "ranks"])
def test_a_program_is_right_in_each_use(uses, use):
    assert uses(use, 11) == "right"


@pytest.mark.parametrize("kind", ["wide", "chains", "rare"])
def test_a_program_of_each_kind_is_right(uses, kind):
    assert uses("settings", 3, kind) == "right"


def test_numbers_that_differ_are_wrong_and_those_of_a_rounding_loop_ill(uses):
    from random_programs.reference import compared

    loop, off, rounded = np.array([0.1, 0.2, 0.4]), np.array([0.1, 0.2, 0.5]), np.array([0.1, 0.2, 0.41])
    assert compared(loop + 1e-5, loop, loop) == "right"
    assert compared(off, loop, loop).startswith("wrong: by 0.1")
    assert compared(off, loop, rounded) == "ill"


def test_a_bias_of_estimates_is_seen_and_their_spread_is_not(uses):
    from random_programs.gradient import off

    generator = torch.Generator().manual_seed(1)
    right = {"weight": torch.randn(3, 4, generator=generator, dtype=torch.float64)}
    spread = torch.randn(40, 12, generator=generator, dtype=torch.float64)
    assert off({"weight": right["weight"].flatten() + spread}, right) == []
    [found] = off({"weight": 2.0 * right["weight"].flatten() + spread}, right)
    assert found.startswith("weight by ")
