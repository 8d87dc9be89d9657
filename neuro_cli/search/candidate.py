"""Task kind `candidate`: its payload; train one network, and score it on examples that it has not seen.

A payload comes over a network as data. Still it names classes (task, model, optimizer), whose constructors run code, so only
classes of neuro and torch are allowed.
"""

import hashlib
import json
import math
import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.memory import give_back_memory, keep_freed_memory
from neuro_cli.core.metric import ACCURACY, LOSS
from neuro_cli.core.module.memory_formats import formats_of
from neuro_cli.core.noise import random_permutation
from neuro_cli.core.schedule import Schedule
from neuro_cli.core.seeds import seeded, text_seed
from neuro_cli.factory.instantiate import make, value_of
from neuro_cli.factory.trust import refuse_foreign
from neuro_cli.model.module_cnn import ModuleCNN
from neuro_cli.pool.base import WorkUnit
from neuro_cli.runner.config import section
from neuro_cli.runner.device import device_of
from neuro_cli.search.config import NONE, SearchConfig, TrainingConfig
from neuro_cli.search.slices import SlicedBatch, world_of_task
from neuro_cli.search.weights import packed
from neuro_cli.strategy.space import Module, text_of
from neuro_cli.task.base import Task
from neuro_cli.task.classification import Classification, Data, Split

PARTS = ("task", "model", "training.optimizer")
OPTIMIZER, SCHEDULE = "training.optimizer", "training.lr_schedule"  # keys that errors name


@dataclass(frozen=True)
class Examples:
    """Examples for training a candidate: ``data`` of a task with its training examples split in two."""

    data: Data
    training: Split
    validation: Split


def trained(
    model: nn.Module, task: Classification, examples: Examples, optimizer: partial[Any], training: TrainingConfig, seed: int
) -> float:
    """Train ``model`` in place for ``training.epochs``. Returns the mean loss of the last epoch.

    The order of the examples is a function of ``seed``; examples left after the last full batch of an epoch begin the next one.
    Several ranks share the ``training.slices`` of a batch. Raises ConfigError for more slices than a batch has examples.
    """
    device = next(model.parameters()).device
    batch_size = min(training.batch_size, len(examples.training.targets))
    data = replace(examples.data, train=examples.training, test=examples.validation)
    task.take(data, input_shape=None, device=device, seed=seed, batch_size=batch_size)
    per_epoch = max(1, len(examples.training.targets) // batch_size)
    steps = training.epochs * per_epoch
    schedule = Schedule(**training.lr_schedule, key=SCHEDULE, generations=steps)
    stepper = ScheduledOptimizer(optimizer, schedule, list(model.parameters()), OPTIMIZER)
    model.train()
    slices = integer("training.slices", training.slices, 1, batch_size)
    batches = SlicedBatch(model, task, slices, world_of_task())
    total = 0.0
    for step in range(steps):
        loss = batches.backward(step, batch_size)
        stepper.step(step)
        total += loss.item() if step >= steps - per_epoch else 0.0
    return total / per_epoch


def scores(model: nn.Module, task: Classification, data: Data, split: Split) -> tuple[float, float]:
    """Return (accuracy, loss) of the trained ``model`` on ``split``."""
    device = next(model.parameters()).device
    task.take(replace(data, test=split), input_shape=None, device=device, seed=0, batch_size=1)
    model.eval()
    metrics = task.summarise(np.sum([task.evaluate_chunk(model, chunk) for chunk in range(task.evaluation_chunks)], axis=0))
    return metrics[ACCURACY.name], metrics[LOSS.name]


def task_of(search: SearchConfig, module: Module, name: str) -> WorkUnit:
    """Make the task that trains ``module``; the search ``name`` gets the same one each time."""
    payload = payload_of(search, module)
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    return WorkUnit(f"{name}-{digest[:24]}", "candidate", payload)


def payload_of(search: SearchConfig, module: Module) -> dict[str, Any]:
    """Make the payload of the candidate ``module``, for :func:`train_candidate`."""
    config = search.plain
    return {
        "task": config["task"],
        "model": {**config["model"], "module": list(module)},
        "training": config["training"],
        "seed": text_seed(f"{search.seed}: {text_of(module)}"),  # the same for an architecture whenever it is bred
        **({} if search.keep_weights == NONE else {"weights": True}),
    }


def network_of(search: SearchConfig, module: Module) -> ModuleCNN:
    """Make the network of a candidate without values (on the device ``meta``)."""
    with torch.device("meta"):
        return make(payload_of(search, module), "model", ModuleCNN)


def train_candidate(payload: dict[str, Any]) -> dict[str, Any]:
    """Train the network of ``payload``: ``task``, ``model``, ``training`` as in `conf/search.yaml`, and a ``seed``.

    Returns fitness (validation accuracy), loss, train_loss, accuracy and loss of the test, parameters, seconds; also the trained
    weights (`weights.packed`) where ``weights`` of the payload is true. A network that does not fit in memory, or diverges, gives
    ``error`` instead, one line. The same payload gives the same numbers on processors of one kind.
    Raises UserError for a payload that describes no training.
    """
    for part in PARTS:
        value_of(payload, f"{part}._target_")
    refuse_foreign(payload, "candidates")
    training = section(TrainingConfig, payload["training"], "training.")
    device = device_of(training.device)
    torch.set_num_threads(training.threads)
    torch.use_deterministic_algorithms(device.type != "cpu")  # one thread of a CPU is deterministic anyway
    keep_freed_memory()
    begun = time.perf_counter()
    try:
        result = _trained(payload, training, device)
    except Exception as error:  # an error of an allocation may come wrapped in that of a constructor
        if not _no_memory(error):
            raise
        result = {"error": f"it does not fit in memory: {' '.join(str(error).split())[:160]}"}
        if world_of_task().size > 1:  # other ranks may have had room and wait for this one: it must fail
            raise UserError(result["error"]) from error
    if "error" in result:
        give_back_memory()  # memory in pieces would be too small for the next candidate in this process
    return {**result, "seconds": time.perf_counter() - begun}


def _trained(payload: dict[str, Any], training: TrainingConfig, device: torch.device) -> dict[str, Any]:
    shape = tuple(payload["model"]["input_shape"])
    examples = examples_of(json.dumps(payload["task"], sort_keys=True), shape, training.validation)
    task = make(payload, "task", Classification)
    with seeded(payload["seed"]):
        model = make(payload, "model", nn.Module)
    task.memory_format = formats_of(model.to(device), training.batch_size * math.prod(shape[1:]))[0]
    model = model.to(memory_format=task.memory_format)
    optimizer = make(payload["training"], "optimizer", partial)
    train_loss = trained(model, task, examples, optimizer, training, payload["seed"])
    fitness, loss = scores(model, task, examples.data, examples.validation)
    test_accuracy, test_loss = scores(model, task, examples.data, examples.data.test)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if not all(map(math.isfinite, (train_loss, loss, test_loss))):
        return {"parameters": parameters, "error": "its training diverged: a loss is not a finite number"}
    return {
        "fitness": fitness,
        "loss": loss,
        "train_loss": train_loss,
        ACCURACY.name: test_accuracy,
        LOSS.name: test_loss,
        "parameters": parameters,
        **(packed(model) if payload.get("weights") is True else {}),
    }


@lru_cache(maxsize=1)  # a worker trains many candidates on the same examples
def examples_of(task: str, input_shape: tuple[int, ...] | None, share: float) -> Examples:
    """Load the examples of a task, given as the JSON of its config; ``share`` of the training ones validate. Raises UserError."""
    source = make({"task": json.loads(task)}, "task", Task)
    if not isinstance(source, Classification):
        raise ConfigError("task", type(source).__name__, "a search needs a task of images with classes to train on")
    data = source.read(input_shape)
    return Examples(data, *hold_out(data, share, "training.validation"))


def hold_out(data: Data, share: float, key: str) -> tuple[Split, Split]:
    """Return the (training, validation) parts of ``data.train``, with about ``share`` of every class held out.

    The choice depends only on the number of examples and their classes. Raises ConfigError for ``key`` if a part would be empty.
    """
    targets = data.train.targets
    shuffled = random_permutation(0, 0, len(targets))
    order = shuffled[targets[shuffled].argsort(stable=True)]
    held_out = _spread(len(order), share)
    if not 0 < int(held_out.sum()) < len(order):
        raise ConfigError(key, share, f"leaves no training or no validation example, of {len(order)}")
    # sorted into the order of the data: training shuffles its batches itself
    training, validation = order[~held_out].sort().values, order[held_out].sort().values
    return _part(data.train, training), _part(data.train, validation)


def _spread(count: int, share: float) -> Tensor:
    """Return (count,) bool: True at ``share`` of the places, evenly spread."""
    marks = (torch.arange(count + 1, dtype=torch.float64) * share).floor()
    return marks[1:] > marks[:-1]


def _part(split: Split, rows: Tensor) -> Split:
    return Split(split.images[rows], split.targets[rows])


def _no_memory(error: Exception) -> bool:
    words = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "not enough memory" in words or "allocate memory" in words
