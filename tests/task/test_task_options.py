"""Every option of conf/task composes and becomes a task, with nothing read yet."""

from pathlib import Path

import pytest
from hydra.utils import instantiate
from support.configs import composed

from neuro_cli.task.base import Task

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(path.stem for path in (CONF / "task").glob("*.yaml"))


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_composes_and_becomes_a_task(option):
    assert isinstance(instantiate(composed(f"task={option}")["task"]), Task)


def test_the_folder_is_not_empty():
    assert {"digits", "mnist", "fashion_mnist", "cifar10", "image_folder"} <= set(OPTIONS)
