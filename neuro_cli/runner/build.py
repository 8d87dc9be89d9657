"""Construction of a run from its config, on one rank."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from neuro_cli.algo.base import CentreAlgorithm
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.precision import PRECISIONS
from neuro_cli.core.seeds import model_seed, seeded
from neuro_cli.distribution.base import Distribution
from neuro_cli.fabric.base import World
from neuro_cli.factory.construct import TARGET
from neuro_cli.factory.instantiate import make
from neuro_cli.factory.script_objects import is_made
from neuro_cli.runner.bind import Numbers, Population, bind
from neuro_cli.runner.config import RunConfig
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.device import take_device
from neuro_cli.runner.frozen import share_frozen
from neuro_cli.runner.initial import Constants, refuse_unlike_ranks
from neuro_cli.runner.options import Options
from neuro_cli.task.base import Task

log = logging.getLogger(__name__)


@dataclass
class Parts(Population):
    """Parts of a run on one rank, with its config."""

    config: RunConfig
    constants: Constants


def threads_of(configured: int | None, world: World, device: torch.device) -> int:
    """Return the threads of one rank: as configured, else the usable cores divided by the machine's ranks; 1 on a GPU."""
    if configured is not None:
        return int(configured)
    if device.type != "cpu":
        return 1
    return max(1, usable_cores() // world.local_size)


def make_model(config: Mapping[str, Any]) -> nn.Module:
    """Return the model with initial weights that depend on the seed only; the global generator stays as it was."""
    with seeded(model_seed(config["seed"])):
        return make(config, "model", nn.Module)


def form_of(config: Mapping[str, Any]) -> nn.Module:
    """Return the model with shapes in place of numbers, where its class is ours; any other as :func:`make_model` does.

    Other constructors may read their numbers (torchvision's RegNets do), or keep tensors for their next object.
    """
    node = config["model"]
    if is_made(node) or not str(node.get(TARGET)).startswith("neuro_cli.model."):
        return make_model(config)
    with torch.device("meta"):
        return make_model(config)


def build(options: Options, world: World, resumed: Mapping[str, Any] | None = None) -> Parts:
    """Build all parts of a run, bound to each other. ``resumed``: scalars of its checkpoint. Raises UserError for misfits."""
    options.bind()
    config = options.config
    device = take_device(config.device, world)
    if device.type == "cpu":
        keep_freed_memory()
    algo = options.algo_of(CentreAlgorithm)
    sampler = options.sampler
    distribution = options.method_of(Distribution)
    sampler.check(config.population)
    options.task.refuse(layout=config.layout, precision=config.precision, gradient=algo.uses_gradient)
    model = make_model(options.plain).to(device)
    refuse_unlike_ranks(model, world, is_made(options.plain["model"]))
    constants = Constants.of(model, is_made(options.plain["model"]))
    task = load_task(options, model, device, world)
    task.keep_format(resumed)
    keep_weights(model, PRECISIONS[config.weights])
    share_frozen(model, world)
    threads = Threads(threads_of(config.threads, world, device))
    precision = PRECISIONS[config.precision]
    numbers = Numbers(config.seed, config.population, config.layout == "per_example", precision, config.cuda_graphs)
    return Parts(
        **vars(bind(model, task, algo, sampler, distribution, world, threads, numbers)), config=config, constants=constants
    )


def keep_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Convert the trainable parameters of ``model`` to ``dtype``, without frozen ones and buffers."""
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.dtype == torch.float32:
            parameter.data = parameter.data.to(dtype)


def load_task(options: Options, model: nn.Module, device: torch.device, world: World) -> Task:
    """Return the task with its data, in the memory format that ``model`` takes. Raises UserError."""
    load_data(options, model, device, world)
    check_fit(model, options.task, options.plain)
    return options.task


def load_data(options: Options, model: nn.Module, device: torch.device, world: World) -> None:
    """Read the data of the task, for a ``model`` that may declare the shape of its input. Raises UserError."""
    task, config = options.task, options.plain

    def load() -> None:
        shape = getattr(model, "input_shape", None)
        task.load(input_shape=shape, device=device, seed=config["seed"], batch_size=config["batch_size"])

    if config["task"].get("download"):
        with collectively(world):  # the other ranks read the files that rank 0 downloads
            if world.rank == 0:
                load()
        if world.rank:
            load()
    else:
        load()


def check_fit(model: nn.Module, task: Task, config: Mapping[str, Any]) -> None:
    """Score two examples, and set the task's memory format. Raises UserError when model and task do not fit."""
    model_name, task_name = (str(config[group]["_target_"]).rsplit(".", 1)[-1] for group in ("model", "task"))
    reason = task.misfit(model)
    if reason is not None:
        raise UserError(f"model={model_name}, task={task_name}: {reason}")
