"""Metrics of an ensemble on the test set: the joint prediction, every member by itself, and the members' diversity.

Legend: M members, T test examples, K classes.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.algo.ensemble import DTYPES
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.metric import ACCURACY, FRACTION, LOSS, LOWER, Metric
from neuro_cli.distribution.ensemble.wire import wire_of
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.runner.ensemble.members import JointPrediction, kinds_of, load_task_of
from neuro_cli.runner.options import Options
from neuro_cli.task.classification import Classification, outcomes

JOINT_LOSS = replace(LOSS, column=True)
OF_MEMBERS = (
    Metric("member_loss_mean", "mean loss of the members", LOSS.form, better=LOWER),
    Metric("member_accuracy_mean", "mean accuracy of the members", ACCURACY.form, FRACTION),
    Metric("member_accuracy_best", "best accuracy of a member", ACCURACY.form, FRACTION),
    Metric("diversity", "diversity", ACCURACY.form, FRACTION),
)


def metrics_of(size: int) -> tuple[Metric, ...]:
    """Return all metrics of an ensemble of ``size`` members, the joint ones first."""
    each = (_of_member(number, metric) for number in range(size) for metric in (JOINT_LOSS, ACCURACY))
    return (ACCURACY, JOINT_LOSS, *OF_MEMBERS, *each)


def _of_member(number: int, metric: Metric) -> Metric:
    return replace(metric, name=f"member_{number}_{metric.name}", label=f"{metric.label} of member {number}")


def evaluate_ensemble(
    modules: Mapping[int, nn.Module], size: int, task: Classification, world: World, threads: Threads, dtype: torch.dtype
) -> dict[str, float]:
    """Return the metrics of ``size`` members, ``modules`` of them on this rank; the same bits on any number of ranks.

    ``diversity``: share of examples that two members classify differently, mean over all pairs.
    """
    logits, targets = test_logits(modules, task, threads, dtype)
    examples, classes = len(targets), next(iter(logits.values())).shape[1] if logits else 0
    local = np.array([[number, *_scores(table, targets)] for number, table in sorted(logits.items())]).reshape(-1, 3)
    lengths = world.all_gather(np.array([local.size, classes], np.int64), [2] * world.size).reshape(-1, 2)
    table = world.all_gather(local.ravel(), [int(length) for length in lengths[:, 0]]).reshape(-1, 3)
    classes = int(lengths[:, 1].max())
    tables = [*logits.values()] or [torch.zeros(examples, classes, dtype=dtype)]
    wire = wire_of("fixed", size)
    total = wire.encode(tables)
    world.all_reduce(total)
    mean = wire.decode(total, (examples, classes), dtype)
    votes = sum(
        (F.one_hot(scores.argmax(1), classes) for scores in logits.values()), torch.zeros(examples, classes, dtype=torch.int64)
    )
    counts = votes.numpy().ravel()
    world.all_reduce(counts)
    loss, accuracy = _scores(mean, targets) if mean is not None else (float("nan"), 0.0)
    metrics = {
        ACCURACY.name: accuracy,
        LOSS.name: loss,
        "member_loss_mean": float(table[:, 1].mean()),
        "member_accuracy_mean": float(table[:, 2].mean()),
        "member_accuracy_best": float(table[:, 2].max()),
        "diversity": disagreement(counts.reshape(examples, classes)),
    }
    for number, loss, accuracy in table:
        metrics |= {_of_member(int(number), LOSS).name: float(loss), _of_member(int(number), ACCURACY).name: float(accuracy)}
    return metrics


def evaluate_whole_ensemble(model: JointPrediction, options: Options, device: torch.device, threads: Threads) -> dict[str, float]:
    """Return the metrics of an ensemble whose members are all in this process."""
    world = SingleProcess()
    task, _ = load_task_of(kinds_of(options.plain), options, device, world)
    modules = dict(enumerate(model.members))
    return evaluate_ensemble(modules, len(modules), task, world, threads, DTYPES[options.plain["algo"]["dtype"]])


def test_logits(
    modules: Mapping[int, nn.Module], task: Classification, threads: Threads, dtype: torch.dtype
) -> tuple[dict[int, Tensor], Tensor]:
    """Return the logits (T, K) of every module in evaluation mode, and the targets (T,), on the CPU."""
    batches = [task.test_batch(chunk).to(dtype) for chunk in range(task.evaluation_chunks)]
    pieces: dict[tuple[int, int], Tensor] = {}

    def run(place: tuple[int, int]) -> None:
        with torch.no_grad():
            pieces[place] = modules[place[0]](batches[place[1]].inputs).cpu()

    modes = {number: module.training for number, module in modules.items()}
    for module in modules.values():
        module.eval()
    threads.passes(run, [(number, chunk) for number in modules for chunk in range(len(batches))])
    for number, training in modes.items():
        modules[number].train(training)
    logits = {number: torch.cat([pieces[number, chunk] for chunk in range(len(batches))]) for number in modules}
    return logits, torch.cat([batch.targets.cpu() for batch in batches])


def _scores(logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """Return mean loss and accuracy of ``logits`` (T, K)."""
    correct, loss = outcomes(logits, targets)
    return float(loss.mean(dtype=torch.float64)), float(correct.mean(dtype=torch.float64))


def disagreement(counts: np.ndarray) -> float:
    """Return the share of (pair of members, example) that differ, from votes ``counts`` (T, K); 0 for one member."""
    members = int(counts[0].sum())
    if members < 2:
        return 0.0
    agreeing = float((counts * (counts - 1)).sum())
    return 1.0 - agreeing / (len(counts) * members * (members - 1))
