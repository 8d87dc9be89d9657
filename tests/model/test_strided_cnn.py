import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.model.strided_cnn import StridedCNN


def test_sizes():
    model = StridedCNN()
    assert sum(parameter.numel() for parameter in model.parameters()) == 37_610
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)
    assert StridedCNN(image=[3, 32, 13])(torch.zeros(2, 3, 32, 13)).shape == (2, 10)
    assert StridedCNN([4, 6], 20, 7)(torch.zeros(2, 1, 28, 28)).shape == (2, 7)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"channels": [8]}, r"model.channels=\[8\]: must be two numbers, of the two convolutions"),
        ({"channels": [8, 0]}, "model.channels=0: must be an integer >= 1"),
        ({"hidden": 0}, "model.hidden=0: must be an integer >= 1"),
        ({"image": [28, 28]}, r"model.image=\[28, 28\]: must be three numbers: channels, height, width"),
        ({"image": [1, 28, 12]}, "model.image=12: must be an integer >= 13"),
        ({"outputs": 1.5}, "model.outputs=1.5: must be an integer >= 1"),
    ],
)
def test_bad_sizes_name_the_key(arguments, line):
    with pytest.raises(ConfigError, match=f"^{line}$"):
        StridedCNN(**arguments)
