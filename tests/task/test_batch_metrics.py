"""Metrics of a batch as a whole: on the test set, and as a fitness."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, one_line, well
from support.made_data import load
from torch import nn
from torch.nn import functional as F

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.batch_metrics import BatchMetrics
from neuro_cli.task.dataset import Dataset

MODULE = """
import torch

def balanced(outputs, targets):
    '''The mean over classes of the share of right answers.'''
    right = outputs.argmax(1) == targets
    return torch.stack([right[targets == label].float().mean() for label in targets.unique()]).mean()

def text(outputs, targets):
    return "no number"
"""


def halves(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The smaller of two means: no sum over examples."""
    right = (outputs.argmax(1) == targets).float()
    return torch.minimum(right[: len(right) // 2].mean(), right[len(right) // 2 :].mean())


class Error:
    """As a metric of torchmetrics says which way is better."""

    higher_is_better = False

    def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> float:
        return float((outputs.argmax(1) != targets).float().mean())


def source(count: int = 23, kind: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 4, generator=generator), torch.randint(0, 3, (count,), generator=generator).to(kind)


def loaded(batch_size: int = 8, **settings: Any) -> Dataset:
    return load(Dataset(source(), source(), **settings), batch_size=batch_size)


def test_outputs_with_a_nan_have_no_fitness():
    metrics, targets = BatchMetrics({"halves": halves, "error": Error()}), torch.zeros(4, dtype=torch.int64)
    outputs = torch.eye(3)[targets]
    assert metrics.fitness("halves", outputs, targets) == 1
    outputs[2, 1] = torch.nan  # argmax takes it for class 1, the others stay right
    assert np.isnan([metrics.fitness(name, outputs, targets) for name in metrics.names]).all()
    assert np.isnan(metrics.values(outputs, targets)).all()


@pytest.mark.parametrize("loss", [None, nn.CrossEntropyLoss(), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]))])
def test_the_metric_of_the_test_set_is_of_all_its_examples(loss):
    task, net, (inputs, targets) = loaded(loss=loss, metrics=halves, evaluation_batch=5), nn.Linear(4, 3), source()
    assert task.evaluation_chunks == 1
    values = task.summarise(task.evaluate_chunk(net, 0))
    assert values["test_halves"] == halves(net(inputs), targets).item()
    assert values["test_accuracy"] == pytest.approx((net(inputs).argmax(1) == targets).float().mean().item())
    whole = F.cross_entropy if loss is None else loss
    assert values["test_loss"] == pytest.approx(whole(net(inputs), targets).item(), rel=1e-6)
    assert [metric.name for metric in task.metrics if metric.name in values] == [metric.name for metric in task.metrics]


@pytest.mark.parametrize("loss", [None, nn.CrossEntropyLoss()])
def test_a_metric_is_the_fitness_of_a_whole_batch(loss):
    task, net = loaded(loss=loss, metrics={"both": halves, "error": Error()}, fitness="error"), nn.Linear(4, 3)
    batch = task.batch(2, 0, 8)
    assert task.score_names == ("fitness", "loss")
    sums = task.score(net, batch)
    error = (net(batch.inputs).argmax(1) != batch.targets).float().mean().item()
    assert np.allclose(task.means(sums[None], 8)[0], [-error, F.cross_entropy(net(batch.inputs), batch.targets).item()])
    assert {metric.name: metric.better for metric in task.metrics}["test_error"] == "lower"


@pytest.mark.parametrize(
    ("use", "line"),
    [
        (lambda task: task.refuse(layout="per_example", precision="float32", gradient=False), r"layout=per_example splits it$"),
        (
            lambda task: task.rewards(nn.Linear(4, 3), task.batch(0, 0, 8)),
            r"noise on activations needs a score for each example$",
        ),
    ],
)
def test_what_needs_a_fitness_for_each_example_is_refused(use, line):
    with pytest.raises(ConfigError, match=r"^task.fitness=halves: .*" + line):
        use(loaded(metrics=halves, fitness="halves"))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (3, r"^task.metrics=3: must be a function of \(outputs, targets\)"),
        ("operator.ad", r"^task.metrics=operator.ad: cannot be imported: .* has no attribute 'ad'; did you mean add"),
        ("no_such_module.f1", r"^task.metrics=no_such_module.f1: cannot be imported: No module named 'no_such_module'$"),
        ("f1", r"^task.metrics=f1: must be package.function$"),
        ({"a b": halves}, r"^task.metrics=\['a b'\]: a metric's name='test_a b': must be letters"),
    ],
)
def test_what_is_no_metric_is_refused(given, line):
    with pytest.raises(ConfigError, match=line):
        _ = BatchMetrics(given).declared


def test_torchmetrics_see_each_batch_alone():
    torchmetrics = pytest.importorskip("torchmetrics")
    metric = torchmetrics.classification.MulticlassF1Score(num_classes=3)
    task, net, (inputs, targets) = loaded(metrics=metric), nn.Linear(4, 3), source()
    task.evaluate_chunk(nn.Linear(4, 3), 0)
    values = task.summarise(task.evaluate_chunk(net, 0))
    assert values["test_multiclass_f1_score"] == metric(net(inputs), targets).item()


@pytest.mark.parametrize("name", ["R2Score", "ExplainedVariance"])
def test_torchmetrics_of_targets_far_from_zero_are_those_near_zero(name):
    torchmetrics, generator = pytest.importorskip("torchmetrics"), torch.Generator().manual_seed(1)
    targets = torch.randn(200, generator=generator)
    outputs = targets + torch.randn(200, generator=generator) / 2
    metrics = BatchMetrics({"score": getattr(torchmetrics, name)()})
    near, far = (metrics.fitness("score", outputs + offset, targets + offset) for offset in (0.0, 1e5))
    assert 0.6 < near < 0.9
    assert far == pytest.approx(near, abs=0.01)  # 0.9998 in float32


def test_torchmetrics_with_weights_of_their_own_see_the_type_of_the_outputs():
    class Judge(nn.Linear):
        def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return super().forward(outputs - targets).mean()

    assert np.isfinite(BatchMetrics({"judge": Judge(4, 1)}).fitness("judge", torch.ones(3, 4), torch.zeros(3, 4)))


def test_a_run_is_scored_by_a_function_of_ones_own(tmp_path):
    (tmp_path / "judge.py").write_text(MODULE)
    setting = ("task.metrics=judge.balanced", "population=8", "batch_size=48", "generations=6", "algo.optimizer.lr=0.05")
    well(neuro_inside("train", *setting, "task.fitness=balanced", "hydra.run.dir=one", cwd=tmp_path))
    assert 0 < json.loads((tmp_path / "one" / "summary.json").read_text())["test_balanced"] < 1
    assert "test_balanced" in (tmp_path / "one" / "metrics.csv").read_text().splitlines()[0]
    for change, line in (
        ({"distribution=data_parallel", "task.fitness=balanced"}, "task.fitness=balanced: is a metric of a whole batch"),
        ({"task.fitness=f1"}, "task.fitness=f1: must be one of negative_cross_entropy, accuracy, balanced"),
        ({"task.metrics=judge.text"}, "task.metrics=text: it gives no number for outputs and targets of 360x10 and 360: "),
    ):
        done = neuro_inside("train", *setting, *change, "hydra.run.dir=bad", cwd=tmp_path)
        assert one_line(done).startswith(line)
    assert "trust=judge" in one_line(neuro_inside("resume", "one", "generations=8", cwd=tmp_path))
