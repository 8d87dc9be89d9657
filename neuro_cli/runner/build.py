"""Makes the parts of a run from its config: the one module beside the command line that knows Hydra's ``instantiate``."""

import copy
import inspect
import logging
import os
import re
from dataclasses import dataclass
from typing import Any

import torch
from hydra.errors import InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import OmegaConf
from torch import nn

from neuro_cli.algo.base import Algorithm, CentreAlgorithm
from neuro_cli.algo.ensemble import Ensemble
from neuro_cli.core.checks import integer, number, one_of, thread_count
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import ConfigError, UserError, nearest
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.memory import keep_freed_memory
from neuro_cli.core.noise import Noise
from neuro_cli.core.threads import Threads
from neuro_cli.distribution.base import Distribution, PopulationContext
from neuro_cli.distribution.ensemble.base import EnsembleMethod
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.logger.base import Logger
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.target import Target
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.episodes import EpisodeScorer
from neuro_cli.scoring.members import Scorer
from neuro_cli.task.base import Task
from neuro_cli.task.reinforcement import Reinforcement

log = logging.getLogger(__name__)

# root keys and their bounds
INTEGERS: dict[str, tuple[int, int | None]] = {
    "seed": (0, 2**64 - 1),
    "generations": (1, 2**32 - 1),
    "population": (1, 2**32 - 1),
    "batch_size": (1, None),
    "checkpoint.every": (1, None),
    "checkpoint.keep": (1, None),
    "evaluate.every": (1, None),
}
OPTIONS = tuple(
    f"neuro_cli.{part}."
    for part in ("task", "model", "sampler", "algo", "distribution", "fabric", "logger", "election", "selection")
)
OURS = (*OPTIONS, "neuro_cli.core.schedule.", "torch.optim.", "torch.nn.", "torchvision.models.")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass
class Parts:
    """All that a run is made of, on one rank. ``model`` is a form without numbers: see ``ParameterLayout.release_storage``."""

    config: dict[str, Any]
    world: World
    device: torch.device
    threads: Threads
    model: nn.Module
    layout: ParameterLayout
    task: Task
    algo: CentreAlgorithm
    distribution: Distribution
    clock: Clock


def check_root(config: dict[str, Any]) -> None:
    """Check the root keys. Raises UserError."""
    for key, (low, high) in INTEGERS.items():
        integer(key, value_of(config, key), low, high)
    one_of("layout", value_of(config, "layout"), ("shared_batch", "per_example"))
    one_of("precision", value_of(config, "precision"), tuple(PRECISIONS))
    value_of(config, "device")
    if value_of(config, "threads") is not None:
        thread_count("threads", config["threads"])
    if value_of(config, "ranks") is not None:
        # before they are started: with a typing error in it they would take all of the machine's memory
        integer("ranks", config["ranks"], 1, max(config["population"], config["batch_size"]))
    if value_of(config, "time_limit") is not None:
        number("time_limit", config["time_limit"], above=0.0)
    Target(config)


def value_of(config: dict[str, Any], key: str) -> Any:
    """The value of a dotted key. Raises UserError when it is not there."""
    node: Any = config
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            raise UserError(f"{key}: it is missing in the config")
        node = node[part]
    return node


def make(config: dict[str, Any], group: str, expected: type) -> Any:
    """The object of a group. Raises UserError with what its constructor said."""
    node = config.get(group)
    if not isinstance(node, dict) or "_target_" not in node:
        raise ConfigError(group, node, "must be a config with a _target_")
    try:
        made = instantiate(OmegaConf.create({"_convert_": "all", **node}))  # plain lists and dicts for any user's class
    except InstantiationException as error:
        raise _misfit(error, group, node) from error
    except SystemExit as ended:  # its code would be that of a command that did what it was asked for
        raise ConfigError(
            f"{group}._target_", node["_target_"], f"it ended the process (SystemExit: {ended.code or 0})"
        ) from ended
    if not isinstance(made, expected):
        kind = f"must make a {expected.__module__}.{expected.__name__}, not {type(made).__name__}"
        raise ConfigError(f"{group}._target_", node["_target_"], kind)
    return made


def _misfit(error: InstantiationException, group: str, node: dict[str, Any]) -> UserError:
    """What the constructor said, under the key of the ``_target_`` that failed."""
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, UserError):
        cause = cause.__cause__
    if isinstance(cause, UserError):
        return cause
    where = re.search(r"full_key: (\S+)", str(error))
    key = f"{where[1]}._target_" if where else "_target_"
    reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
    target = value_of(node, key)
    return ConfigError(f"{group}.{key}", target, reason + _near_argument(target, reason))


def _near_argument(target: str, reason: str) -> str:
    """A clause that names the nearest arguments of ``target`` if ``reason`` says that it has not the one given."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", reason)
    return f"; {nearest(unknown[1], inspect.signature(get_object(target)).parameters)}" if unknown else ""


def is_ours(target: str, ours: tuple[str, ...] = OURS) -> bool:
    """Whether a ``_target_`` is an option of ours or a class of torch, not only by its name: dots lead from any module to any."""
    if not target.startswith(ours):
        return False
    found = found_by(target)
    if found is None:
        return True  # it does not exist: making it says so
    home = f"{found.__module__}.{found.__qualname__}" if callable(found) else ""
    return home.startswith(ours) and (isinstance(found, type) or _builds_network(found))


def found_by(target: str) -> Any:
    """The class or function of a ``_target_``; None where there is none."""
    try:
        return get_object(target)
    except Exception:
        return None


def _builds_network(found: Any) -> bool:
    """Whether a function is one of torchvision's that make a network."""
    import torchvision

    name = getattr(found, "__name__", "")
    return name in torchvision.models.list_models() and torchvision.models.get_model_builder(name) is found


def device_of(name: str) -> torch.device:
    """``auto``: the first CUDA device if there is one, else the CPU. Raises ConfigError."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    allowed = f"must be auto, cpu or cuda[:N]; {torch.cuda.device_count()} CUDA devices here"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError("device", name, allowed) from error
    there = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    if device.type != "cpu" and not there:
        raise ConfigError("device", name, allowed)
    return device


def threads_of(config: dict[str, Any], world: World, device: torch.device) -> int:
    """Threads of one rank: as configured, else the machine's usable cores over the ranks on it; 1 on a GPU."""
    if config["threads"] is not None:
        return int(config["threads"])
    if device.type != "cpu":
        return 1
    return max(1, len(os.sched_getaffinity(0)) // world.local_size)


def make_model(config: dict[str, Any]) -> nn.Module:
    """The model with initial weights that depend on the seed only; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config["seed"] & 0x7FFFFFFFFFFFFFFF)
        model: nn.Module = make(config, "model", nn.Module)
    return model


def build(config: dict[str, Any], world: World) -> Parts:
    """All parts of a run, bound to each other. Raises UserError for whatever does not fit."""
    check_root(config)
    config = completed(config)
    device = device_of(config["device"])
    if device.type == "cpu":
        keep_freed_memory()
    algo = make(config, "algo", CentreAlgorithm)
    sampler = make(config, "sampler", Sampler)
    distribution: Distribution = make_method(config, Distribution)
    sampler.check(config["population"])
    check_task(config, algo.uses_gradient)
    model = make_model(config).to(device)
    task = load_task(config, model, device, world)
    layout = ParameterLayout(model, task.memory_format is torch.channels_last)
    threads = Threads(threads_of(config, world, device))
    clock = Clock()
    sampler.bind(Noise(config["seed"], layout.size, device, threads), config["population"], layout)
    per_example = config["layout"] == "per_example"
    if per_example and config["batch_size"] % sampler.directions:
        allowed = f"layout=per_example needs a multiple of the {sampler.directions} directions of noise"
        raise ConfigError("batch_size", config["batch_size"], allowed)
    initial = layout.flatten(model)
    layout.release_storage(model)
    scorer: Scorer | EpisodeScorer
    if isinstance(task, Reinforcement):
        scorer = EpisodeScorer(model, layout, task, sampler, device, threads, clock, initial)
    else:
        scorer = Scorer(
            model, layout, task, sampler, device, PRECISIONS[config["precision"]], threads, clock, initial, task.batch_size,
            per_example,
        )  # fmt: skip
    algo.start(initial, layout, config["population"], config["seed"])
    distribution.bind(
        PopulationContext(
            world=world,
            algo=algo,
            sampler=sampler,
            scorer=scorer,
            clock=clock,
            population=config["population"],
            batch_size=task.batch_size,
            layout="per_example" if task.own_examples else config["layout"],
            columns=layout.size,
        )
    )
    return Parts(config, world, device, threads, model, layout, task, algo, distribution, clock)


def completed(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` with the sizes of the model that it leaves null and that the task knows. Raises UserError."""
    model = config.get("model")
    if not isinstance(model, dict) or all(value is not None for value in model.values()):
        return config
    declared = model.get("input_shape")
    sizes = make(config, "task", Task).model_arguments(tuple(declared) if isinstance(declared, list) else None)
    return {**config, "model": {**model, **{key: size for key, size in sizes.items() if model.get(key, 0) is None}}}


def check_task(config: dict[str, Any], gradient: bool) -> None:
    """Raise UserError where the task does not serve the rest of the config; ``gradient``: trained by back-propagation."""
    task: Task = make(config, "task", Task)
    task.refuse(layout=config["layout"], precision=config["precision"], gradient=gradient)


def make_algo(config: dict[str, Any]) -> Algorithm:
    """The configured algorithm. The networks that ``algo.members`` describes are not made here: each rank makes its own."""
    node = config.get("algo")
    if isinstance(node, dict) and isinstance(node.get("members"), list):
        # Hydra would make every object in the list at once, on every rank
        node = {**node, "members": [None] * len(node["members"])}
    algo: Algorithm = make({**config, "algo": node}, "algo", Algorithm)
    return algo


def is_ensemble(config: dict[str, Any]) -> bool:
    """Whether the run trains an ensemble."""
    return isinstance(make_algo(config), Ensemble)


def make_method(config: dict[str, Any], kind: type) -> Any:
    """The distribution method, which must be of a kind: Distribution, or EnsembleMethod. Raises ConfigError."""
    method = make(config, "distribution", Method)
    if isinstance(method, kind):
        return method
    if kind is EnsembleMethod:
        allowed = "algo=ensemble needs one of logits_allreduce, _tree, _pipelined, _microbatches, single_graph, batch_parallel"
    else:
        allowed = (
            "it trains ensembles: choose algo=ensemble, or local, chromosome_updates, semi_updates, replicated, data_parallel"
        )
    raise ConfigError("distribution", method.name, allowed)


def load_task(config: dict[str, Any], model: nn.Module, device: torch.device, world: World) -> Task:
    """The task with its data, in the memory format that ``model`` takes. Raises UserError."""
    task: Task = make(config, "task", Task)

    def load() -> None:
        shape = getattr(model, "input_shape", None)
        task.load(input_shape=shape, device=device, seed=config["seed"], batch_size=config["batch_size"])

    if config["task"].get("download"):
        with collectively(world):  # one rank downloads, the others find the files
            if world.rank == 0:
                load()
        if world.rank:
            load()
    else:
        load()
    check_fit(model, task, config)
    return task


def check_fit(model: nn.Module, task: Task, config: dict[str, Any]) -> None:
    """Score two examples, and set the task's memory format. Raises UserError when model and task do not fit."""
    if isinstance(task, Reinforcement):
        task.check_model(model)
        return
    names = f"model={_short(config, 'model')}, task={_short(config, 'task')}"
    reasons = []
    for task.memory_format in (torch.channels_last, torch.contiguous_format):
        layout = ParameterLayout(model, task.memory_format is torch.channels_last)
        probe = copy.deepcopy(model).eval()
        layout.attach(probe, layout.flatten(model))
        batch = task.batch(0, 0, min(2, config["batch_size"]))
        try:
            task.score(probe, batch)
        except UserError:
            raise
        except Exception as error:  # a user's module may check its input in any way
            reasons.append(" ".join(str(error).split()))
            continue
        if reasons:
            log.info("the model takes no channels_last activations (%s): contiguous ones are used, slower", reasons[0])
        return
    shape = "x".join(map(str, batch.inputs.shape[1:]))
    raise UserError(f"{names}: the model does not take {shape} examples: {reasons[-1]}")


def _short(config: dict[str, Any], group: str) -> str:
    return str(config[group]["_target_"]).rsplit(".", 1)[-1]


def world_for(config: dict[str, Any]) -> World:
    """The world of ranks that the config's fabric gives. Raises UserError without MPI where the method needs it."""
    method = make(config, "distribution", Method)
    try:
        return make_network(config).connect(method.needs_mpi)
    except ConfigError:
        raise
    except UserError as error:
        raise ConfigError("distribution", method.name, str(error)) from error


def make_network(config: dict[str, Any]) -> Network:
    """The configured network. Raises UserError."""
    network: Network = make(config, "fabric", Network)
    return network


def make_logger(config: dict[str, Any]) -> Logger:
    """The configured logger (csv is always on beside it)."""
    logger: Logger = make(config, "logger", Logger)
    return logger
