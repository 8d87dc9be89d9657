"""Options by their names in ``conf/``, with the values from there, for library calls without a config."""

import copy
from collections.abc import Mapping
from functools import lru_cache, partial
from io import StringIO
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.core.layout import refuse_lazy
from neuro_cli.core.messages.did_you_mean import nearest, no_option
from neuro_cli.core.schedule import OwnSchedule
from neuro_cli.factory.construct import TARGET, located
from neuro_cli.factory.instantiate import Kind, expect, make
from neuro_cli.factory.own_code import let_import
from neuro_cli.factory.script_objects import Made
from neuro_cli.runner.build import make_model

CONSTANT = {"kind": "constant", "final": 1.0, "generations": 1, "warmup": 0}


class Point(nn.Module):
    """Module with one parameter, ``vector`` (M,), for a black-box function of a point."""

    def __init__(self, vector: Tensor) -> None:
        super().__init__()
        self.vector = nn.Parameter(vector.detach().clone().float())

    def forward(self) -> Tensor:
        return self.vector


def option(group: str, choice: Any, kind: type[Kind], generations: int | None, values: dict[str, Any] | None = None) -> Kind:
    """Return the option ``choice`` of a group: an object of ``kind`` as it is, or made from a name in ``conf/<group>``.

    ``generations``: length of the schedules; None keeps them constant. ``values``: replacements for keys of a named option.
    Raises ConfigError with the command line's message.
    """
    values = _given(values)
    if not isinstance(choice, str):
        if values:
            key, value = next(iter(values.items()))
            raise ConfigError(key, value, f"give it to {type(choice).__name__}(...), or {group}= by its name")
        if isinstance(choice, type) and issubclass(choice, kind):
            raise ConfigError(group, choice.__name__, f"give an object of it, {choice.__name__}(...), or an option's name")
        return expect(choice, {group: {"_target_": type(choice).__name__}}, group, kind)
    node = node_of(group, choice, generations, values)
    if not _makes(node[TARGET], kind):
        files = sorted((config_folder() / group).glob("*.yaml"))
        fitting = [file.stem for file in files if _makes(OmegaConf.load(file)[TARGET], kind)]  # type: ignore[index]
        raise ConfigError(group, choice, f"is an option of neuro train alone; here are {', '.join(fitting)}")
    return make({group: node}, group, kind)


def _makes(target: str, kind: type) -> bool:
    """Return whether a ``_target_`` of ours is a class of ``kind``."""
    return issubclass(located(target), kind)


def node_of(group: str, choice: str, generations: int | None, values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the config of an option by its name, with factories of optimizers as objects. Raises ConfigError."""
    names = [path.stem for path in (config_folder() / group).glob("*.yaml")]
    if choice not in names:
        raise no_option(group, choice, names)
    file = config_folder() / group / f"{choice}.yaml"
    plain = copy.deepcopy(_resolved(file.read_text(encoding="utf-8"), generations or 1))
    if generations is None:
        for key, value in plain.items():
            if key.endswith("_schedule"):
                value |= CONSTANT
    given = _given(values)
    _refuse_two_rates(given)
    for key, value in sorted(given.items()):  # lr before optimizer, which takes it over
        _set(plain, group, choice, key, value)
    return plain


@lru_cache  # parsing YAML took a third of the time in which an Evolution begins
def _resolved(text: str, generations: int) -> dict[str, Any]:
    """Return the config in a ``text`` of YAML, with its references to ``generations`` resolved."""
    config = OmegaConf.create({"option": OmegaConf.load(StringIO(text)), "generations": generations})
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)["option"]  # type: ignore[index, call-overload, assignment]
    plain.pop("defaults", None)
    return plain


def saved_nodes(generations: int | None, algo: tuple[Any, dict[str, Any]], **choices: Any) -> dict[str, Any]:
    """Return the options by group for a run folder: their configs, or the mark of an object from a script.

    ``algo``: the choice with its values.
    """
    nodes: dict[str, Any] = {}
    for group, (choice, values) in {"algo": algo, **{group: (choice, None) for group, choice in choices.items()}}.items():
        node = node_of(group, choice, generations, values) if isinstance(choice, str) else Made(group, choice)
        nodes[group] = {key: _described(key, value) for key, value in node.items()}
    return nodes


def model_of(choice: Any, seed: int) -> tuple[nn.Module, dict[str, Any]]:
    """Return a module and what a run folder stores of it; ``choice``: a module, a vector, or a config that names its class.

    An option's name stands for its config. Initial weights of a config depend on ``seed`` alone. Raises ConfigError.
    """
    if isinstance(choice, str | Mapping):
        let_import()
        node = node_of("model", choice, None) if isinstance(choice, str) else dict(choice)
        return make_model({"model": node, "seed": seed}), node
    if isinstance(choice, Tensor):
        if choice.dim() != 1:
            raise ConfigError("module", f"a tensor of {choice.dim()} dimensions", "must be a module or a vector")
        choice = Point(choice)
    if not isinstance(choice, nn.Module):
        raise ConfigError("module", type(choice).__name__, "must be a torch.nn.Module, its config, or a vector")
    own = uncompiled(choice)
    refuse_lazy(own)
    return own, Made("model", own)


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module inside torch.compile's wrapper, any other as it is: each copy of a wrapper would compile again."""
    return getattr(module, "_orig_mod", module)


def _given(values: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (values or {}).items() if value is not None}


def _described(key: str, value: Any) -> Any:
    """Return what a run folder saves of a key: of a partial of a class its config."""
    if isinstance(value, partial):
        return {"_target_": f"{value.func.__module__}.{value.func.__qualname__}", "_partial_": True, **value.keywords}
    return Made(key, value) if isinstance(value, OwnSchedule) else value


def _set(plain: dict[str, Any], group: str, choice: str, key: str, value: Any) -> None:
    """Set a key of an option: ``optimizer``, a class or a partial of one; ``lr``, a number or a function of the generation."""
    if key == "lr" and isinstance(plain.get("optimizer"), dict):
        if callable(value):
            plain["lr_schedule"] = OwnSchedule("lr", value)
        plain["optimizer"]["lr"] = 1.0 if callable(value) else value
    elif key in plain:
        plain[key] = _factory(value, plain[key]) if key == "optimizer" else value
    else:
        raise ConfigError(
            key, value, f"{group}={choice} has none; {nearest(key, [name for name in plain if name != '_target_'])}"
        )


def _refuse_two_rates(values: dict[str, Any]) -> None:
    """Raise ConfigError where ``lr`` comes with an optimizer that has another one."""
    own = getattr(values.get("optimizer"), "keywords", {}).get("lr")
    if "lr" in values and own is not None:
        lr = "a function" if callable(values["lr"]) else values["lr"]
        raise ConfigError("lr", lr, f"the optimizer has lr={own} of its own: give one of the two")


def _factory(optimizer: Any, before: dict[str, Any]) -> "partial[Any]":
    """Return a factory of an optimizer from a class or a partial of one; ``before`` gives the learning rate if it has none."""
    if not callable(optimizer) or (isinstance(optimizer, partial) and optimizer.args):
        given = optimizer if isinstance(optimizer, str | partial) else type(optimizer).__name__
        raise ConfigError("optimizer", given, "must be a class such as torch.optim.Adam, or a functools.partial with keywords")
    factory = optimizer if isinstance(optimizer, partial) else partial(optimizer)
    return partial(factory.func, **{"lr": before["lr"], **factory.keywords})
