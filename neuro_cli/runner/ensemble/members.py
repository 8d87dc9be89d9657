"""Networks of an ensemble from the config: one kind (``algo.size``), and further ones (``algo.members``)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory, ScheduledOptimizer
from neuro_cli.algo.ensemble import DTYPES, Ensemble
from neuro_cli.algo.ensemble_member import Member, numbers_of
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.core.module.copies import own_memory, state_of
from neuro_cli.core.module.precision import in_precision
from neuro_cli.core.seeds import number_seed, seeded
from neuro_cli.fabric.base import World
from neuro_cli.factory.instantiate import make
from neuro_cli.run_folder.checkpoint import Checkpoint
from neuro_cli.runner.build import check_fit, load_data
from neuro_cli.runner.initial import Constants
from neuro_cli.runner.options import Options
from neuro_cli.task.base import Task
from neuro_cli.task.classification import Classification

ENTRY_KEYS = ("model", "count", "optimizer")


@dataclass(frozen=True)
class Kind:
    """Members that are alike, ``count`` of them; ``key``: their place in the config."""

    key: str
    model: dict[str, Any]
    optimizer: dict[str, Any]
    count: int

    @property
    def name(self) -> str:
        return str(self.model["_target_"]).rsplit(".", 1)[-1]


def kinds_of(config: Mapping[str, Any]) -> list[Kind]:
    """Return the kinds of members, in the order in which members are numbered. Raises UserError."""
    node = config["algo"]
    size = integer("algo.size", node["size"], 0)
    kinds = [Kind("model", config["model"], node["optimizer"], size)] if size else []
    for place, entry in enumerate(node["members"]):
        kinds.append(_entry(f"algo.members.{place}", entry, node["optimizer"]))
    return kinds


def _entry(key: str, entry: Any, optimizer: dict[str, Any]) -> Kind:
    if not isinstance(entry, dict):
        raise ConfigError(key, entry, "must be an entry like {model: MNIST_10K, count: 3, optimizer: {lr: 0.1}}")
    for name in entry:
        if name not in ENTRY_KEYS:
            raise ConfigError(f"{key}.{name}", entry[name], f"no such key; {nearest(str(name), ENTRY_KEYS)}")
    model, changes = entry.get("model"), entry.get("optimizer") or {}
    if not isinstance(model, dict) or "_target_" not in model:
        raise ConfigError(f"{key}.model", model, "must be an option of the group model, or a config with a _target_")
    if not isinstance(changes, dict):
        raise ConfigError(
            f"{key}.optimizer", changes, "must be a config: what differs from algo.optimizer, or one with a _target_"
        )
    chosen = {"_partial_": True, **changes} if "_target_" in changes else {**optimizer, **changes}
    return Kind(key, model, chosen, integer(f"{key}.count", entry.get("count", 1), 1))


def members_of(kinds: Iterable[Kind]) -> list[Kind]:
    """Return the kind of each member of the ensemble, in order."""
    return [kind for kind in kinds for _ in range(kind.count)]


def make_module(kind: Kind, seed: int, number: int) -> nn.Module:
    """Make the network of member ``number`` with initial weights of its own, a function of (seed, number)."""
    with seeded(number_seed(seed, number)):
        return make({"model": kind.model}, "model", nn.Module)


class JointPrediction(nn.Module):
    """Ensemble as one module: its logits are the mean of its ``members``', so its softmax is the product of experts."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.stack([member(inputs) for member in self.members]).mean(0)


def load_members(config: Mapping[str, Any], checkpoint: Checkpoint) -> list[nn.Module]:
    """Load the trained networks of an ensemble's checkpoint, on the CPU. Raises UserError when they have other shapes."""
    dtype, modules = DTYPES[config["algo"]["dtype"]], []
    for number, kind in enumerate(members_of(kinds_of(config))):
        module = make_module(kind, config["seed"], number)
        constants = Constants.of_member(module)
        module = in_precision(module, dtype)
        own_memory(state_of(module))
        state = checkpoint.shard(f"member-{number}")
        saved = state.part("model")
        refuse_other_shapes(kind, module, saved)
        constants.refuse_other(module, state.scalars)
        module.load_state_dict(saved, strict=False)  # buffers that are not persistent are in neither
        modules.append(module)
    return modules


def refuse_other_shapes(kind: Kind, module: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Raise UserError when ``module`` does not have the tensors that were ``saved``."""
    now = {name: tuple(tensor.shape) for name, tensor in numbers_of(module).items()}
    then = {name: tuple(tensor.shape) for name, tensor in saved.items()}
    if now != then:
        target = kind.model["_target_"]
        raise UserError(
            f"{kind.key}._target_={target}: it has other parameters now than in the run's checkpoint; resume keeps it"
        )


def make_member(
    kind: Kind, algo: Ensemble, task: Task, seed: int, number: int, device: torch.device, staleness: int
) -> tuple[Member, Constants]:
    """Make member ``number``, ready to be trained, and what its network was built with. Raises UserError."""
    module = make_module(kind, seed, number)
    constants = Constants.of_member(module)
    module = in_precision(module, algo.dtype).to(device).to(memory_format=task.memory_format)
    own_memory(state_of(module))  # an optimizer's step writes to each number, beyond an expanded parameter's memory
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    key = f"{'algo' if kind.key == 'model' else kind.key}.optimizer"
    optimizer = ScheduledOptimizer(_factory(kind, key), algo.lr_schedule, parameters, key)
    return Member(number, kind.name, module, optimizer, seed, staleness), constants


def _factory(kind: Kind, key: str) -> OptimizerFactory:
    optimizer = make({"optimizer": {**kind.optimizer, "_partial_": True}}, "optimizer", partial)
    if not (isinstance(optimizer.func, type) and issubclass(optimizer.func, torch.optim.Optimizer)):
        raise ConfigError(f"{key}._target_", kind.optimizer["_target_"], "must be a torch.optim.Optimizer")
    return optimizer


def load_task_of(kinds: Sequence[Kind], options: Options, device: torch.device, world: World) -> tuple[Classification, int]:
    """Load the task with its data, in the memory format of all kinds of members, and count the parameters of all members.

    Raises UserError: a task without classes, a kind that does not fit it or that has other classes than the first.
    """
    task, config = options.task, options.plain
    first: tuple[Kind, int] | None = None
    trained = 0
    for kind in kinds:
        module = make_module(kind, config["seed"], 0).to(device)
        named = config | {"model": kind.model}
        if first is None:
            load_data(options, module, device, world)
        before = task.memory_format
        check_fit(module, task, named)
        if first is not None and before is torch.contiguous_format:
            task.memory_format = before
        if not isinstance(task, Classification):
            raise UserError(
                f"task._target_={config['task']['_target_']}: algo=ensemble needs a task of classes (digits, mnist, ...)"
            )
        with torch.no_grad():
            classes = module.eval()(task.test_batch(0).inputs[:2]).shape[1]
        trained += kind.count * sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        first = first or (kind, classes)
        if classes != first[1]:
            raise UserError(
                f"{kind.key}: {kind.name} gives {classes} logits, {first[0].name} ({first[0].key}) gives {first[1]}; "
                "all members of an ensemble need the same classes"
            )
    assert isinstance(task, Classification)
    return task, trained
