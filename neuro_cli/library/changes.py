"""Changes that a script makes to its module after a population was bound to it.

The centre takes over new values of parameters. Members do not see any other change, and a line says so.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.algo.base import State
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.fabric.base import World
from neuro_cli.library.same_module import share_initial
from neuro_cli.runner.bind import Population
from neuro_cli.runner.consensus import collectively
from neuro_cli.scoring.candidate import moving_norms
from neuro_cli.scoring.isolation import differences

log = logging.getLogger(__name__)

CHANGED = "module: %s changed after the first step; members keep it as it was given: a new Evolution takes it"


class Changes:
    """Changes of ``module`` since ``population`` was bound to it."""

    def __init__(self, module: nn.Module, population: Population) -> None:
        self._module, self._population = module, population
        self._structure, self._said = _structure(module), set[str]()
        self._versions = _versions(module)
        norms = set(map(id, moving_norms(population.model)))  # members read no statistics of theirs
        # modes too: a script evaluates its module between steps
        self._unread = _names(population.model, lambda part: ("training", *(part._buffers if id(part) in norms else ())))
        self._read: set[str] | None = None  # None: whatever is not in the other one
        if isinstance(module, torch.jit.ScriptModule):  # its attributes are wrappers, and each copy has its own
            self._read = _names(population.model, lambda part: (name for name, _ in part._buffers.items()))
        self._uncopied: set[str] = set()
        self._uncopied = set(self._others())  # such as methods of a torch.export module

    def follow(self, world: World) -> None:
        """Move the centre to the values that rank 0's script wrote to the parameters, and warn once of any other change.

        Every rank calls this. Raises ConfigError where the algorithm has no centre to move, and for parameters of other shapes.
        """
        with collectively(world):
            moved = self._moved()
        for name in self._others():
            if name not in self._said:
                self._said.add(name)
                log.warning(CHANGED, name)
        if not world.any(moved):
            return
        share_initial(self._module, world)
        self._versions = _versions(self._module)
        algo, state = self._population.algo, self._population.algo.state()
        if "centre" not in state.tensors or algo.solution is not algo.centre:
            allowed = "cannot take parameters that a script wrote between steps: give them to a new Evolution"
            raise ConfigError("algo", type(algo).__name__, allowed)
        centre = self._population.layout.flatten(self._module).to(state.tensors["centre"])
        algo.restore(State({**state.tensors, "centre": centre}, state.scalars))

    def refuse_written(self, world: World) -> None:
        """Raise UserError where a script wrote to the centre itself, which a large module's memory is, since :meth:`follow`.

        Members around the former numbers were scored, so there is nothing to learn from. Every rank calls this.
        """
        solution, parameters = self._population.algo.solution, dict(self._module.named_parameters())
        written = None
        for place in self._population.layout.places:
            parameter = parameters.get(place.name)
            joined = parameter is not None and parameter.data_ptr() == place.view(solution).data_ptr()
            if parameter is not None and joined and _version(parameter) != self._versions[place.name]:
                written = place.name
        if world.any(written is not None):
            where = f"{written} was" if written else "parameters of another rank were"
            raise UserError(
                f"module: {where} written while members were scored, in the memory of the centre (a large module's own): "
                "write a member's numbers to a copy of the module"
            )

    def _moved(self) -> bool:
        """Return whether an evolved parameter of the module differs from the present solution."""
        population, parameters = self._population, dict(self._module.named_parameters())
        solution, moved = population.algo.solution, False
        for place in population.layout.places:
            parameter = parameters.get(place.name)
            kept = parameter is not None and tuple(parameter.shape) == place.shape and parameter.dtype == population.layout.dtype
            if parameter is None or not kept:
                kind = str(population.layout.dtype).removeprefix("torch.")
                allowed = (
                    f"{place.name} is no longer a parameter of shape {place.shape}, {kind}: give the module to a new Evolution"
                )
                raise ConfigError("module", type(self._module).__name__, allowed)
            given, view = parameter.detach().to(solution.device), place.view(solution)
            # where the module's memory is the centre, a write on one rank alone would part the ranks
            written = given.data_ptr() == view.data_ptr() and self._versions[place.name] != _version(parameter)
            moved = moved or written or not _equal(given, view)
        return moved

    def _others(self) -> list[str]:
        """Return the names of hooks, buffers, attributes, frozen parameters and parts that differ from the members'."""
        before, now = self._structure, _structure(self._module)
        changed = {path: part for path, part in now.items() if part != before.get(path)}
        names = [f"{path or 'the module'} ({kind.__name__})" for path, (kind, *_) in changed.items()]
        if any(path not in before or kind is not before[path][0] for path, (kind, *_) in changed.items()):
            return names  # another part differs in all its attributes
        others = [name for name in differences(self._population.model, self._module, {}) if name not in self._unread]
        others = [name for name in others if name not in self._uncopied]
        return names + [name for name in others if self._read is None or name in self._read]


def with_written(tensors: dict[str, Tensor], module: nn.Module, layout: ParameterLayout) -> dict[str, Tensor]:
    """Return ``tensors`` of a population's state, with the centre where a script wrote to the parameters of ``module``.

    An algorithm without one centre to move has its own solution: its next step refuses the written values.
    """
    parameters, solution = dict(module.named_parameters()), tensors["parameters"]
    evolved = [(parameters.get(place.name), place) for place in layout.places]
    if any(parameter is None or tuple(parameter.shape) != place.shape for parameter, place in evolved):
        return tensors  # the next step refuses these too
    if all(_equal(parameter.detach().cpu(), place.view(solution)) for parameter, place in evolved if parameter is not None):
        return tensors
    if "algo.centre" not in tensors or not _equal(tensors["algo.centre"], solution):
        return tensors
    centre = layout.flatten(module).cpu()
    return {**tensors, "algo.centre": centre, "parameters": centre}


def _versions(module: nn.Module) -> dict[str, int]:
    return {name: _version(parameter) for name, parameter in module.named_parameters()}


def _version(parameter: Tensor) -> int:
    """Return how often ``parameter`` was written to; 0 for one of inference mode, which counts nothing."""
    return 0 if parameter.is_inference() else parameter._version


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same numbers, a NaN being equal to itself."""
    if one.data_ptr() == other.data_ptr() or torch.equal(one, other):
        return True
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _names(module: nn.Module, of: Callable[[nn.Module], Iterable[str]]) -> set[str]:
    """Return the names of attributes that ``of`` gives for each part of ``module``, as :func:`differences` writes them."""
    parts = [(path, part, name) for path, part in module.named_modules() for name in of(part)]
    return {f"{path}.{name} of {type(part).__name__}".removeprefix(".") for path, part, name in parts}


def _structure(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    """Return class, hooks, parameters and frozen ones of each part of ``module``; a shared parameter has its first name."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    return {
        path: (
            type(part),
            list(part._forward_hooks.values()),
            list(part._forward_pre_hooks.values()),
            [(name, names.get(id(parameter))) for name, parameter in part._parameters.items() if parameter is not None],
            [name for name, parameter in part.named_parameters(recurse=False) if not parameter.requires_grad],
        )
        for path, part in module.named_modules()
    }
