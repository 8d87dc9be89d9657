"""Sizes that a network cannot have are refused in one line, which names the key."""

from functools import partial

import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.model.gru_policy import GRUPolicy
from neuro_cli.model.int8_mlp import Int8MLP
from neuro_cli.model.mlp_policy import MLPPolicy
from neuro_cli.model.module_cnn import ModuleCNN
from neuro_cli.model.spiking import SpikingMLP
from neuro_cli.model.strided_cnn import StridedCNN
from neuro_cli.model.ternary_cnn import TernaryCNN
from neuro_cli.model.wide_resnet import WideResNet

TEXT = partial(CharGPT, outputs=5, context=4, width=8, depth=1, heads=4)
MODULE = partial(ModuleCNN, module=["1x1"], input_shape=[1, 8, 8], outputs=10, filters=4, repeats=2, batch_norm=False)
POLICY, MEMORY = (partial(kind, inputs=3, outputs=2) for kind in (MLPPolicy, GRUPolicy))
LAYERS = "must be a list of 1x1, 3x3, 3x1-1x3, 5x5, 5x1-1x5, at least one"
OPEN = "the task does not set it, so a number is needed"


@pytest.mark.parametrize(
    ("make", "wrong", "line"),
    [
        (TEXT, {"outputs": None}, f"outputs=None: {OPEN}"),
        (TEXT, {"width": 10}, "width=10: must be a multiple of model.heads=4"),
        (POLICY, {"inputs": None}, f"inputs=None: {OPEN}"),
        (POLICY, {"hidden": 64}, "hidden=64: must be a list of widths, for example [64,64]"),
        (MEMORY, {"outputs": None}, f"outputs=None: {OPEN}"),
        (MODULE, {"module": ["3x3", "7x7"]}, f"module=[3x3,7x7]: 7x7 is no layer; {LAYERS}"),
        (MODULE, {"module": []}, f"module=[]: {LAYERS}"),
        (MODULE, {"module": "3x3"}, f"module=3x3: {LAYERS}"),
        (MODULE, {"input_shape": [8, 8]}, "input_shape=[8, 8]: must be [channels, height, width]"),
        (StridedCNN, {"channels": [8]}, "channels=[8]: must be two numbers, of the two convolutions"),
        (StridedCNN, {"image": [28, 28]}, "image=[28, 28]: must be three numbers: channels, height, width"),
        (StridedCNN, {"image": [1, 28, 12]}, "image=12: must be an integer >= 13"),
        (WideResNet, {"depth": 27, "width": 2}, "depth=27: must be 4 more than a multiple of 6: 10, 16, 22, 28, 40"),
        (partial(Int8MLP, [28, 28], [5]), {}, "input_shape=[28, 28]: must be [channels, height, width]"),
        (partial(Int8MLP, [1, 28, 28], [5], 3), {}, "pool=3: must divide both sides of the images, 28x28"),
        (partial(Int8MLP, [1, 28, 28], 5), {}, "hidden=5: must be a list of widths, for example [64,64]"),
        (partial(Int8MLP, [1, 512, 512], [5]), {}, "hidden=[5]: a layer of integers has at most 1024 inputs, not 262144"),
        (partial(TernaryCNN, [1, 28, 28], []), {}, "channels=[]: must be a list of numbers of channels, for example [16,32]"),
        (partial(TernaryCNN, [1, 8, 8], [2, 2]), {}, "channels=[2, 2]: the images are too small for 2 convolutions"),
        (partial(SpikingMLP, [1, 8, 8], [], 4, 0.9, 1.0), {}, "hidden=[]: at least one layer of neurons is needed"),
    ],
)
def test_a_size_that_cannot_be_is_refused_in_one_line(make, wrong, line):
    with pytest.raises(ConfigError) as error:
        make(**wrong)
    assert str(error.value) == f"model.{line}"
