"""Default sigma and learning rate by the number of parameters."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.step_size.by_size import TUNED, by_size
from neuro_cli.core.layout import ParameterLayout


def started(inputs: int, **chosen: object) -> OpenAIES:
    layout = ParameterLayout(module := nn.Linear(inputs, 10, bias=False))
    algo = OpenAIES(**chosen)  # type: ignore[arg-type]
    algo.start(layout.flatten(module), layout, 8, 1)
    return algo


@given(parameters=st.integers(1, 10**10))
def test_a_default_is_whole_for_small_networks_and_falls_with_the_cube_root(parameters):
    value = by_size(0.05, parameters)
    if parameters <= TUNED:
        assert value == 0.05
    else:
        assert (value / 0.05) ** 3 * parameters == pytest.approx(TUNED)
        assert value < by_size(0.05, parameters - 1) or parameters > 10**7  # there neighbours may share a float


@pytest.mark.parametrize(("inputs", "factor"), [(16, 1.0), (8 * 1127, 0.5 * (11274 / 11270) ** (1 / 3))])
def test_what_is_open_goes_by_size(inputs, factor):
    algo = started(inputs)
    assert algo.sigma_at(1) == pytest.approx(0.05 * factor)
    assert algo.rate_at(1) == pytest.approx(0.02 * factor)


def test_what_is_chosen_stays():
    algo = started(20_000, sigma=0.3, optimizer=partial(torch.optim.SGD, lr=0.7, momentum=0.9))
    assert (algo.sigma_at(1), algo.rate_at(1)) == (0.3, 0.7)
    half = started(20_000, sigma=0.3)
    assert (half.sigma_at(1), half.rate_at(1)) == (0.3, by_size(0.02, 200_000))


def test_another_optimizer_without_a_rate_has_the_rate_by_size():
    algo = started(20_000, optimizer=partial(torch.optim.SGD, lr=None, momentum=0.9))
    assert algo.rate_at(1) == by_size(0.02, 200_000)
    assert started(20_000, optimizer=torch.optim.Adam).rate_at(1) == 0.001  # torch's own default, where nothing is said
