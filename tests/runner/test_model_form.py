"""Our networks have a form without numbers, from which parameters are counted."""

import pytest
import torch
from support.configs import composed
from torch import nn

from neuro_cli.cli.options.groups import groups
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.runner.build import form_of, make_model
from neuro_cli.runner.options import Options

TASKS = {"char_gpt": "text", "gru_policy": "gymnasium"}


class ReadsItsNumbers(nn.Module):
    """Class of a user, whose constructor needs numbers: a tensor on the meta device has none."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = torch.linspace(0, 1, 3).tolist()
        self.layer = nn.Linear(2, 3)


@pytest.mark.parametrize("model", sorted({*groups()["model"]} - {"huggingface"}))  # which reads a file: tests/model
def test_the_form_has_the_sizes_of_the_network_and_no_storage(model):
    if TASKS.get(model) == "gymnasium":
        pytest.importorskip("gymnasium")
    config = Options(composed(f"model={model}", f"task={TASKS.get(model, 'digits')}")).plain
    generator = torch.get_rng_state()
    form = form_of(config)
    assert torch.equal(torch.get_rng_state(), generator)
    assert {parameter.device.type for parameter in form.parameters()} == {"meta"}
    network = make_model(config)
    assert ParameterLayout(form).places == ParameterLayout(network).places
    assert {parameter.device.type for parameter in network.parameters()} == {"cpu"}


def test_a_class_of_the_users_is_made_with_its_numbers():
    form = form_of({"seed": 1, "model": {"_target_": f"{__name__}.ReadsItsNumbers"}})
    assert ParameterLayout(form).size == 9


def test_a_network_of_torchvision_that_reads_its_numbers_is_made_with_them():
    form = form_of({"seed": 1, "model": {"_target_": "torchvision.models.regnet_x_400mf"}})
    assert {parameter.device.type for parameter in form.parameters()} == {"cpu"}
