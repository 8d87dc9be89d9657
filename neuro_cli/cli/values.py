"""Python values as overrides: what a script gives to ``train``, ``resume`` and ``evaluate`` becomes the command line's text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from neuro_cli.algo.base import Algorithm
from neuro_cli.cli.overrides.grammar import overrides_of, text_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.factory.script_objects import Made
from neuro_cli.logger.base import Logger
from neuro_cli.runner.consensus import collectively
from neuro_cli.sampler.base import Estimator
from neuro_cli.task.base import Task

CONTRACTS: dict[str, type] = {
    "task": Task,
    "model": nn.Module,
    "sampler": Estimator,
    "distribution": Method,
    "algo": Algorithm,
    "fabric": Network,
    "logger": Logger,
}


@dataclass(frozen=True)
class Request:
    """Request of a script to ``verb``: ``texts`` in the command line's syntax, ``objects`` by group; ``run``: of the folder."""

    verb: str
    texts: list[str]
    objects: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    def made(self) -> dict[str, Made]:
        """Return the objects with their description in a config."""
        return {group: Made(group, value) for group, value in self.objects.items()}

    def agree(self, world: World) -> None:
        """Raise UserError on every rank if their requests differ. Every rank calls this."""
        mine = {"train(), resume()": self.verb, "run": self.run, "overrides": " ".join(self.texts)}
        mine |= {group: value.digest() for group, value in self.made().items()}
        first = json.loads(world.broadcast(json.dumps(mine).encode()))
        with collectively(world):
            for key in sorted(mine.keys() | first.keys()):
                if mine.get(key) == first.get(key):
                    continue
                hint = ", its weights included: call torch.manual_seed before it is made" if key == "model" else ""
                raise UserError(f"{key}: all ranks of a world must give the same as rank 0{hint}")


def request_of(verb: str, overrides: Sequence[str], values: Mapping[str, Any], run: str = "") -> Request:
    """Return the overrides and objects of a call; a dict has keys below its own. Raises ConfigError for another value."""
    texts, objects = [str(text) for text in overrides], {}
    for key, value in values.items():
        if key in CONTRACTS and isinstance(value, CONTRACTS[key]):
            objects[key] = value
        elif isinstance(value, Mapping):
            texts += overrides_of(value, f"{key}.")
        elif key in CONTRACTS and not isinstance(value, str | Path):
            kind = CONTRACTS[key]
            raise ConfigError(key, value, f"must be a name, a dict of keys or a {kind.__module__}.{kind.__qualname__}")
        else:
            texts.append(f"{key}={text_of(key, value)}")
    for text in texts:
        key, _, value = text.lstrip("+~").partition("=")
        if key.partition(".")[0] in objects:
            raise ConfigError(key, value, f"the script gives the {key.partition('.')[0]} as an object: set it there")
    return Request(verb, texts, objects, run)
