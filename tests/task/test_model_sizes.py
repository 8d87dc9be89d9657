"""A task says the sizes of a model that its config leaves null: shape, numbers and classes of the images."""

import json

import pytest
from support.configs import composed
from support.inside import neuro_inside, well
from support.made_data import write_image

from neuro_cli.run_folder.config import saved_config
from neuro_cli.runner.options import Options
from neuro_cli.search import command

SHAPES = {"digits": [1, 8, 8], "mnist": [1, 28, 28], "fashion_mnist": [1, 28, 28], "cifar10": [3, 32, 32]}
NULL = ("model.inputs=null", "model.outputs=null")


@pytest.mark.parametrize("task", SHAPES)
def test_a_data_set_says_its_sizes_before_it_is_there(task, tmp_path):
    root = () if task == "digits" else (f"task.root={tmp_path}",)
    model = Options(composed(f"task={task}", "model=mlp_policy", "+model.input_shape=null", *NULL, *root)).plain["model"]
    channels, height, width = SHAPES[task]
    assert (model["input_shape"], model["inputs"], model["outputs"]) == (SHAPES[task], channels * height * width, 10)


def test_images_of_a_folder_say_theirs(image_root):
    write_image(image_root / "train" / "ape" / "0.png", seed=5)
    write_image(image_root / "test" / "ape" / "0.png", seed=6)
    words = ("task=image_folder", f"task.root={image_root}", "model=mlp_policy", *NULL)
    model = Options(composed(*words)).plain["model"]
    assert (model["inputs"], model["outputs"]) == (3 * 5 * 6, 3)
    assert Options(composed(*words, "+model.input_shape=[1,4,2]")).plain["model"]["inputs"] == 8


def test_what_the_config_says_stays(tmp_path):
    config = composed("task=digits", "model=module_cnn", "model.input_shape=[3,16,16]", "model.outputs=null")
    model = Options(config).plain["model"]
    assert (model["input_shape"], model["outputs"]) == ([3, 16, 16], 10)
    assert Options(composed("model=module_cnn", "model.outputs=12")).plain["model"]["outputs"] == 12


def test_members_of_an_ensemble_are_filled_in_too():
    config = composed("algo=ensemble", "algo.size=1", "distribution=single_graph", "model=MNIST_10K")
    config["algo"]["members"] = [{"model": composed("model=mlp_policy")["model"], "count": 2}, {"count": 1}]
    members = Options(config).plain["algo"]["members"]
    assert (members[0]["model"]["inputs"], members[0]["model"]["outputs"], members[0]["count"]) == (64, 10, 2)
    assert members[1] == {"count": 1}


def test_a_search_fills_in_the_same_sizes():
    search = command.completed(command.check(composed(verb="search")))
    assert search.plain["model"] | {"module": []} == (Options(composed(verb="search")).plain["model"] | {"module": []})


OWN = """
from torch import nn

class Residual(nn.Module):
    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)

    def forward(self, images):
        hidden = self.first(images.flatten(1)).tanh()
        return self.last(hidden + self.middle(hidden).tanh())
"""


def test_a_model_without_sizes_trains_on_images_and_its_folder_says_them(tmp_path):
    (tmp_path / "own_residual.py").write_text(OWN)
    (tmp_path / "residual.yaml").write_text("_target_: own_residual.Residual\ninputs: null\noutputs: null\nwidth: 8\n")
    small = ("population=4", "batch_size=8", "generations=1", "threads=1", "hydra.run.dir=run")
    well(neuro_inside("train", "model=residual.yaml", *small, cwd=tmp_path))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["parameters"] == 64 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10
    model = saved_config(tmp_path / "run")["model"]
    assert (model["inputs"], model["outputs"]) == (64, 10)
