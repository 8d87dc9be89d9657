"""The network that repeats a module: its size by a formula, its shapes, and what it refuses."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.model.module_cnn import LAYERS, ModuleCNN

MODULES = st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4)
AREAS = {"1x1": [1], "3x3": [9], "3x1-1x3": [3, 3], "5x5": [25], "5x1-1x5": [5, 5]}


def parameters(module: list[str], channels: int, outputs: int, filters: int, repeats: int, batch_norm: bool) -> int:
    """Weights and biases: of every convolution and its norm, of the 1x1 ones that double the filters, of the linear layer."""
    areas = [area for name in module for area in AREAS[name]]
    total = (channels * areas[0] + 1) * filters - (filters * areas[0] + 1) * filters  # the first of all has other inputs
    for repetition in range(repeats):
        width = filters * 2**repetition
        total += sum((width * area + 1) * width for area in areas)
        total += 2 * width * len(areas) if batch_norm else 0
        total += (width // 2 + 1) * width if repetition else 0
    return total + (width + 1) * outputs


@settings(max_examples=25, deadline=None)
@given(MODULES, st.sampled_from([1, 3]), st.integers(2, 11), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_the_size_follows_a_formula_and_sides_are_halved_between_repetitions(
    module, channels, outputs, filters, repeats, batch_norm
):
    model = ModuleCNN(module, (channels, 9, 6), outputs, filters, repeats, batch_norm)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == parameters(module, channels, outputs, filters, repeats, batch_norm)
    images = torch.rand(2, channels, 9, 6)
    assert model(images).shape == (2, outputs)
    sides = {1: (9, 6), 2: (5, 3), 3: (3, 2)}[repeats]
    assert model.features(images).shape == (2, filters * 2 ** (repeats - 1), *sides)
