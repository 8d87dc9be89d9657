"""A dataset with a loss of torch: tables, regression, sequences, dicts as of Hugging Face's ``datasets``."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from inside import neuro_inside, one_line
from made_data import load
from torch import nn
from torch.nn import functional as F

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.task.dataset import Dataset
from neuro_cli.task.own_loss import OwnLoss

TABLE = """
import torch

def table(count, seed):
    '''Inputs of five columns, two targets that are linear in them.'''
    inputs = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return inputs, inputs[:, :2] * 2 - 1
"""


def pair(*shapes: tuple[int, ...], kind: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shapes[0], generator=generator), torch.randn(*shapes[1], generator=generator).to(kind)


def made(source: Any, loss: Any, **options: Any) -> OwnLoss:
    task = load(Dataset(source, source, loss=loss, **options), batch_size=4)
    assert isinstance(task, OwnLoss)
    return task


def test_a_regression_of_two_targets_is_the_mean_over_its_numbers():
    source = pair((6, 3), (6, 2))
    task, net = made(source, nn.MSELoss()), nn.Linear(3, 2)
    batch = task.batch(0, 0, 4)
    assert torch.allclose(task.loss(net, batch), F.mse_loss(net(batch.inputs), batch.targets))
    assert np.isclose(task.score(net, batch)[0], -4 * F.mse_loss(net(batch.inputs), batch.targets).item())
    sums = sum(task.evaluate_chunk(net, chunk) for chunk in range(task.evaluation_chunks))
    assert np.isclose(task.summarise(sums)["test_loss"], F.mse_loss(net(source[0]), source[1]).item())
    assert Dataset(source, source, loss=nn.MSELoss()).model_arguments(None) == {"input_shape": [3], "inputs": 3, "outputs": 2}


def test_words_and_a_target_for_each_of_them():
    """Sequences: logits (B, K, T) for words (B, T)."""
    words = torch.arange(24).reshape(6, 4) % 5
    task = made((words, words), nn.CrossEntropyLoss())
    net = nn.Embedding(5, 5)
    batch = task.batch(0, 0, 4)
    assert batch.inputs.dtype == torch.int64

    class Net(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return net(inputs).transpose(1, 2)

    assert torch.allclose(task.loss(Net(), batch), F.cross_entropy(net(batch.inputs).flatten(0, 1), batch.targets.flatten()))
    assert task.model_arguments(None)["outputs"] == 5


def test_examples_that_are_dicts_name_their_fields():
    inputs, targets = pair((6, 3), (6,))
    rows = [{"id": number, "x": inputs[number], "y": targets[number]} for number in range(6)]
    task = made(rows, F.l1_loss, fields=["x", "y"])
    assert torch.equal(task._train[0], inputs)
    assert torch.equal(task._train[1], targets)
    with pytest.raises(ConfigError, match=r"^task\.train=list: example 0 is a dict of id, x, y; task\.fields=\[INPUT,TARGET\]"):
        made(rows, F.l1_loss)
    with pytest.raises(ConfigError, match=r"^task\.fields=z: example 0 of task\.train has id, x, y"):
        made(rows, F.l1_loss, fields=["x", "z"])
    classes = [{"image": row["x"], "label": number % 2} for number, row in enumerate(rows)]
    assert load(Dataset(classes, classes, fields=["image", "label"]), batch_size=4).output_size == 2


@pytest.mark.parametrize(
    ("source", "loss", "line"),
    [
        (
            pair((6, 3), (5, 2)),
            nn.MSELoss(),
            r"^task\.train=a pair of tensors: must have as many inputs as targets, not 6 and 5$",
        ),
        (pair((6, 3), (6, 2)), 3, r"^task\.loss=int: must be a loss of torch\.nn or a function"),
        ([(torch.zeros(3), "cat")] * 6, nn.MSELoss(), r"^task\.train=list: example 0 has the target 'cat': numbers are needed$"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(source, loss, line):
    with pytest.raises(ConfigError, match=line):
        made(source, loss)


def test_a_loss_that_gives_one_number_for_all_is_refused():
    task = made(pair((6, 3), (6, 2)), lambda output, targets: (output - targets).square().mean())
    with pytest.raises(ConfigError, match=r"^task\.loss=function: gives one number for 4 examples; a number for each is needed"):
        task.example_scores(nn.Linear(3, 2), task.batch(0, 0, 4))


def test_a_test_set_of_another_shape_is_refused():
    task = Dataset(pair((6, 3), (6, 2)), pair((6, 3), (6, 1)), loss=nn.MSELoss())
    with pytest.raises(
        UserError, match=r"^task=dataset: test targets are 1 \(torch\.float32\), training targets 2 \(torch\.float32\)$"
    ):
        load(task, batch_size=4)


def test_a_run_learns_a_table_and_says_its_loss(tmp_path):
    (tmp_path / "my_table.py").write_text(TABLE)
    data = ("task=dataset", "task.train._target_=my_table.table", "+task.train.count=200", "+task.train.seed=1")
    data += (
        "task.test._target_=my_table.table",
        "+task.test.count=50",
        "+task.test.seed=2",
        "task.loss._target_=torch.nn.MSELoss",
    )
    small = ("model=mlp_policy", "model.hidden=[]", "population=32", "batch_size=32", "threads=1", "generations=60")
    done = neuro_inside("train", *data, *small, "algo.optimizer.lr=0.1", "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["test_loss"] < 0.5  # 5 at the beginning
    assert "test loss" in done.stdout
    assert one_line(neuro_inside("train", *data, *small, "task.loss._target_=torch.nn.Nothing", cwd=tmp_path)).startswith("task")
