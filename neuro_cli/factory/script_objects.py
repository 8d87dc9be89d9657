"""Options that a script gives as objects: their entries in the saved config, and the copies that runs change.

The config has the class's name and the object's plain settings, so that a resume with another object is refused. The mark
``_made_by_: script`` says that no command line can make the object: its class may exist in a notebook only.
"""

import copy
import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.module.copies import copied, pieces_of
from neuro_cli.factory.construct import TARGET
from neuro_cli.logger.base import Logger
from neuro_cli.run_folder.identity import FREE

MARK = {"_made_by_": "script"}
SETTINGS = "_settings_"
MOST = 200  # values of a list or characters of a text; longer ones are data, not settings


class Made(dict[str, Any]):
    """Config of an option that a script made, as a run folder saves it, along with the object."""

    def __init__(self, group: str, option: Any, node: Mapping[str, Any] | None = None) -> None:
        """``node``: the object's config in an earlier session, whose class must have the same name. Raises ConfigError."""
        name = f"{type(option).__module__}.{type(option).__qualname__}"
        saved = name if node is None else str(node[TARGET])
        if saved.rpartition(".")[2] != name.rpartition(".")[2]:
            raise ConfigError(group, name, f"the run was made with a {saved}; resume keeps it")
        super().__init__({TARGET: saved, **MARK, SETTINGS: _settings(group, option)})
        self._group, self._option = group, option

    def object(self) -> Any:
        """Return a copy, since runs change their objects; a logger itself, since the script may read its rows.

        Raises ConfigError for an object that cannot be copied.
        """
        if isinstance(self._option, Logger):
            return self._option
        try:
            return copied(self._option) if isinstance(self._option, nn.Module) else copy.deepcopy(self._option)
        except Exception as error:  # locks, files and sockets raise different kinds
            raise ConfigError(self._group, self[TARGET], f"it cannot be copied: {' '.join(str(error).split())}") from error

    def digest(self) -> str:
        """Return a hash of what ranks must have in common: class, settings, and all weights and buffers of a module."""
        content = hashlib.sha256(repr(sorted(self.items())).encode())
        if isinstance(self._option, nn.Module):
            for name, value in self._option.state_dict().items():
                if not isinstance(value, Tensor):  # some classes hold other things there
                    continue
                content.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
                for part in pieces_of(value.detach().cpu()):
                    content.update(part.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return content.hexdigest()


def is_made(node: Any) -> bool:
    """Return whether a node of a saved config stands for an object of a script."""
    return isinstance(node, dict) and MARK.items() <= node.items()


def refuse_made(run: Path, config: Mapping[str, Any], groups: Iterable[str], verb: str) -> None:
    """Raise UserError when one of ``groups`` was made by a script and is not given to ``verb``."""
    needed = set(groups)
    missing = [group for group, node in config.items() if group in needed and is_made(node) and not isinstance(node, Made)]
    if missing:
        raise made_by_script(missing, verb, repr(str(run)))


def made_by_script(groups: Iterable[str], verb: str, run: str) -> UserError:
    """Return the error that says how to give ``verb`` the objects of ``groups``."""
    names = list(groups)
    return UserError(
        f"{', '.join(names)}: made by a script: neuro_cli.{verb}({run}, {', '.join(f'{name}=...' for name in names)})"
    )


def placed(config: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saved ``config`` with ``objects`` by group, where a script made the saved ones too. Raises ConfigError."""
    for group, option in objects.items():
        if not is_made(config.get(group)):
            name = config[group].get(TARGET) if isinstance(config.get(group), dict) else None
            raise ConfigError(group, type(option).__qualname__, f"no object can take the place of the run's {name}")
    return {**config, **{group: Made(group, option, config[group]) for group, option in objects.items()}}


def plain(config: Any) -> Any:
    """Return ``config`` with dicts in place of objects, as files have it."""
    if isinstance(config, dict):
        return {key: plain(value) for key, value in config.items()}
    return [plain(value) for value in config] if isinstance(config, list) else config


def _settings(group: str, option: Any) -> dict[str, Any]:
    """Return public attributes with plain values, except those that may change between sessions; for a module its shapes."""
    if isinstance(option, nn.Module):  # a module's attributes may count its calls
        shapes = [(name, tuple(parameter.shape)) for name, parameter in option.named_parameters()]
        return {"shapes_sha256": hashlib.sha256(repr(shapes).encode()).hexdigest()}
    free = {key.removeprefix(f"{group}.") for key in FREE if key.startswith(f"{group}.")}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in sorted(getattr(option, "__dict__", {}).items())
        if not name.startswith("_") and name not in free and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= MOST and all(_is_plain(item) and not isinstance(item, list | tuple) for item in value)
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is str:
        return len(value) <= MOST and "${" not in value  # saved configs have no interpolations
    return value is None or type(value) in (bool, int)
