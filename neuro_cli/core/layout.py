"""The flat vector of a module's parameters: the place of each tensor, and views of it in the module's shapes.

Convolution weights lie channels-last in the flat vector, (out, height, width, in): the memory format in which CPU and
GPU convolutions are fastest. The views have the usual shape (out, in, height, width). A module that cannot take
channels-last activations (it calls ``view`` after a convolution) gets contiguous weights instead.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from neuro_cli.core.copies import own_memory, unshared
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.memory import give_back_memory

LARGE = 2**22  # numbers of a centre from which on a copy of it counts
STORED = (torch.float32, torch.bfloat16)  # types in which a centre is kept


@dataclass(frozen=True)
class Place:
    """One parameter: columns [start, stop) of the flat vector hold a tensor of ``shape``.

    ``groups``: of the convolution that has it as its weight, else 1.
    """

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    channels_last: bool = True
    groups: int = 1

    def view(self, flat: Tensor) -> Tensor:
        return self.view_of(flat[self.start : self.stop])

    def view_of(self, piece: Tensor) -> Tensor:
        """Return the tensor whose part of the flat vector is ``piece``."""
        if len(self.shape) == 4 and self.channels_last:
            out, inner, height, width = self.shape
            return piece.view(out, height, width, inner).permute(0, 3, 1, 2)
        return piece.view(self.shape)


class ParameterLayout:
    """Places of the trainable parameters of ``module`` in the order of ``named_parameters`` (shared ones once).

    ``dtype``: theirs, float32 or bfloat16, and that of the flat vector. Frozen parameters have no place. Raises UserError for a
    module without trainable parameters, or with some of another type or of both.
    """

    def __init__(self, module: nn.Module, channels_last: bool = True) -> None:
        self.places: list[Place] = []
        self.dtype = torch.float32
        start = 0
        refuse_lazy(module)
        groups = {id(part.weight): part.groups for part in module.modules() if isinstance(part, _ConvNd)}
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dtype not in STORED:
                raise UserError(
                    f"model: parameter {name} is {parameter.dtype}; evolved parameters must be torch.float32 or torch.bfloat16"
                )
            if self.places and parameter.dtype != self.dtype:
                first = f"{self.places[0].name} {self.dtype}"
                raise UserError(f"model: parameter {name} is {parameter.dtype}, {first}; evolved parameters must be of one type")
            self.dtype = parameter.dtype
            stop = start + parameter.numel()
            shape = tuple(parameter.shape)
            self.places.append(Place(name, start, stop, shape, channels_last, groups.get(id(parameter), 1)))
            start = stop
        self.size = start
        if not self.size:
            raise UserError("model: it has no trainable parameter, so there is nothing to evolve")

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return views of ``flat`` (M,) with the shapes of the parameters."""
        return [place.view(flat) for place in self.places]

    def flatten(self, module: nn.Module, out: Tensor | None = None) -> Tensor:
        """Return a flat vector (M,) of the module's parameters, ``out`` or a new one."""
        return self.flattened(dict(module.named_parameters()), out)

    def flattened(self, parameters: Mapping[str, Tensor], out: Tensor | None = None) -> Tensor:
        """Return a flat vector (M,) of ``parameters`` by name, ``out`` or a new one."""
        device = parameters[self.places[0].name].device
        flat = torch.empty(self.size, device=device, dtype=self.dtype) if out is None else out
        for place in self.places:
            place.view(flat).copy_(parameters[place.name].detach())
        return flat

    def joined(self, module: nn.Module) -> Tensor | None:
        """Return the flat vector (M,) that the module's parameters are views of, None where they are no such views."""
        parameters = dict(module.named_parameters())
        first = parameters[self.places[0].name].detach()
        start, room = first.storage_offset(), first.untyped_storage()
        if room.nbytes() < first.element_size() * (start + self.size):
            return None
        flat = first.new_empty(0).set_(room, start, (self.size,), (1,))
        for place in self.places:
            view, parameter = place.view(flat), parameters[place.name]
            if parameter.data_ptr() != view.data_ptr() or parameter.stride() != view.stride():
                return None
        return flat

    def join(self, module: nn.Module) -> None:
        """Move a large module's parameters into one vector, one by one, where nothing else has a view of their memory."""
        parameters = dict(module.named_parameters())
        evolved = [parameters[place.name] for place in self.places]
        free = all(unshared(parameter) and (len(parameter.shape) != 4) for parameter in evolved)
        if self.size < LARGE or not free or self.joined(module) is not None:
            return
        flat = torch.empty(self.size, dtype=self.dtype)
        for place, parameter in zip(self.places, evolved, strict=True):
            view = place.view(flat)
            view.copy_(parameter.detach())
            parameter.data = view
        give_back_memory()  # theirs, which the C library may keep

    def attach(self, module: nn.Module, flat: Tensor) -> None:
        """Make the module's parameters views of ``flat`` (any float type): writing to it changes the module."""
        parameters = dict(module.named_parameters())
        for place in self.places:
            parameters[place.name].data = place.view(flat)

    def release_storage(self, module: nn.Module) -> None:
        """Free the module's own trainable numbers: what is left is a form to copy and :meth:`attach`."""
        parameters = dict(module.named_parameters())
        for place in self.places:
            parameters[place.name].data = torch.empty(0, device=parameters[place.name].device, dtype=self.dtype)

    def load(self, module: nn.Module, flat: Tensor) -> None:
        """Copy ``flat`` into the module's own parameters."""
        parameters = dict(module.named_parameters())
        evolved = [parameters[place.name] for place in self.places]
        own_memory(evolved)
        with writing(evolved):
            for place, parameter in zip(self.places, evolved, strict=True):
                view = place.view(flat)
                if parameter.data_ptr() != view.data_ptr():  # else the vector is the module's own memory
                    parameter.copy_(view)


def refuse_lazy(module: nn.Module) -> None:
    """Raise UserError for a parameter that has no size yet."""
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            raise UserError(f"model: parameter {name} has no size yet (a lazy layer): call the module once first")


def writing(tensors: Iterable[Tensor]) -> AbstractContextManager[None]:
    """Return a context in which ``tensors`` may be written: inference tensors only in inference mode."""
    made_in_inference = any(tensor.is_inference() for tensor in tensors)
    return torch.inference_mode() if made_in_inference else torch.no_grad()
