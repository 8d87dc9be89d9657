"""Numbers of an Evolution: the copy of the module that it binds, and what a state saves of both."""

import copy
from collections.abc import Sequence
from typing import Any

from torch import nn

from neuro_cli.algo.base import State
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied
from neuro_cli.fabric.base import World
from neuro_cli.library.changes import with_written
from neuro_cli.runner.bind import Population
from neuro_cli.runner.frozen import share_frozen


def form_of(module: nn.Module, weights: str, modes: Sequence[bool], world: World) -> nn.Module:
    """Return a copy of ``module`` to bind, whose frozen parameters the ranks of a machine share.

    ``modes``: whether each part is in training mode. ``weights``: type of the parameters when the module was given. Raises
    ConfigError for another one.
    """
    layout = ParameterLayout(module)
    if str(layout.dtype) != f"torch.{weights}":
        allowed = f"its parameters are {layout.dtype}, and were torch.{weights} when it was given: give it to a new Evolution"
        raise ConfigError("module", type(module).__name__, allowed)
    layout.join(module)
    form = copied(module, but=module.parameters() if layout.joined(module) is not None else ())
    share_frozen(form, world, twin=module)
    for part, training in zip(form.modules(), modes, strict=True):
        part.training = training
    return form


def shapes_of(module: nn.Module) -> list[list[int]]:
    """Return the shapes of the evolved parameters."""
    return [list(place.shape) for place in ParameterLayout(module).places]


def numbers_of(population: Population | None, loaded: dict[str, Any] | None, module: nn.Module) -> dict[str, Any]:
    """Return copies of the tensors and values that a state saves of ``population``, or of ``module`` before it is bound.

    ``loaded``: those of a loaded state that no step has used yet.
    """
    if loaded is not None:
        saved = State(**copy.deepcopy(loaded))
        layout = ParameterLayout(module, saved.scalars["channels_last"])
    elif population is not None:
        saved, layout = copy.deepcopy(population.state(everywhere=True)), population.layout
    else:
        return {"module": copy.deepcopy(module.state_dict())}
    return {"tensors": with_written(saved.tensors, module, layout), "scalars": saved.scalars}


def refuse_other_numbers(state: dict[str, Any], module: nn.Module, optimizer: str | None) -> None:
    """Raise ConfigError where ``state`` is of parameters of other shapes, or of another optimizer."""
    shapes = shapes_of(module)
    if (saved := state.get("shapes", shapes)) != shapes:
        raise ConfigError("module", type(module).__name__, f"has parameters of shapes {shapes}, and the saved state of {saved}")
    if (saved := state.get("optimizer", optimizer)) != optimizer:
        raise ConfigError("optimizer", optimizer, f"the saved state is one of {saved}")
