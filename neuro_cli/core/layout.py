"""The flat vector of a module's parameters: the place of each tensor, and views of it in the module's shapes.

Convolution weights lie channels-last in the flat vector, (out, height, width, in): the memory format in which CPU and
GPU convolutions are fastest. The views have the usual shape (out, in, height, width). A module that cannot take
channels-last activations (it calls ``view`` after a convolution) gets contiguous weights instead.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.module.copies import attributes_of, own_memory, unshared

LARGE = 2**22  # numbers of a centre from which on a copy of it counts
STORED = (torch.float32, torch.bfloat16)  # types in which a centre is kept
_PLAIN = (
    "evolved parameters must be plain tensors: give the module before fully_shard or parallelize_module, complete on every rank"
)


@dataclass(frozen=True)
class Place:
    """Place of one parameter: columns [start, stop) of the flat vector hold a tensor of ``shape``.

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
        """Return the tensor whose place in the flat vector is ``piece``."""
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
        _refuse_fsdp(module)
        refuse_shared_memory(module)
        groups = {id(part.weight): part.groups for part in module.modules() if isinstance(part, _ConvNd)}
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            if _is_sharded(parameter):
                raise UserError(f"model: parameter {name} is a DTensor; {_PLAIN}")
            if parameter.layout is not torch.strided:
                raise UserError(
                    f"model: parameter {name} is {parameter.layout}; evolved parameters must be dense: use .to_dense()"
                )
            if parameter.dtype not in STORED:
                pairs = "; hold torch.view_as_real of it, and use torch.view_as_complex in forward" * parameter.is_complex()
                allowed = f"evolved parameters must be torch.float32 or torch.bfloat16{pairs}"
                raise UserError(f"model: parameter {name} is {parameter.dtype}; {allowed}")
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

    def in_order(self, rows: Tensor) -> Tensor:
        """Return flat vectors ``rows`` (n, M) with each parameter's numbers as ``parameter.reshape(-1)`` has them."""
        if all(len(place.shape) != 4 or not place.channels_last for place in self.places):
            return rows
        return torch.stack([torch.cat([view.reshape(-1) for view in self.views(row)]) for row in rows])

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
        odd = {place.start % 2 for place in self.places if place.shape[-1:] == (2,)}
        if self.size < LARGE or not free or len(odd) > 1 or self.joined(module) is not None:
            return
        begin = int(1 in odd)  # all pairs of numbers are at even places then
        flat = torch.empty(begin + self.size, dtype=self.dtype)[begin:]
        for place, parameter in zip(self.places, evolved, strict=True):
            view = place.view(flat)
            view.copy_(parameter.detach())
            parameter.data = view
        give_back_memory()  # theirs, which the C library may keep

    def attach(self, module: nn.Module, flat: Tensor, apart: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Make the module's parameters views of ``flat`` (any float type): writing to it changes the module.

        Returns those that are copies, by name, or ``apart``: pairs of numbers at an odd place, which torch views as complex
        numbers only in memory of their own.
        """
        parameters, copies = dict(module.named_parameters()), dict(apart or {})
        for place in self.places:
            view = place.view_of(_of_its_own(flat[place.start : place.stop]))
            if _is_apart(place, int(flat.storage_offset())) and place.name not in copies:
                copies[place.name] = view.contiguous().clone()
            parameters[place.name].data = copies.get(place.name, view)
        return copies

    def release_storage(self, module: nn.Module) -> None:
        """Free the module's own trainable numbers: what is left is a form to copy and :meth:`attach`."""
        parameters = dict(module.named_parameters())
        for place in self.places:
            parameters[place.name].data = torch.empty(0, device=parameters[place.name].device, dtype=self.dtype)

    def load(self, module: nn.Module, flat: Tensor) -> None:
        """Copy the flat vector ``flat`` into the module's own parameters."""
        parameters = dict(module.named_parameters())
        evolved = [parameters[place.name] for place in self.places]
        own_memory(evolved)
        with writing(evolved):
            for place, parameter in zip(self.places, evolved, strict=True):
                view = place.view(flat)
                if parameter.data_ptr() != view.data_ptr():  # else the vector is the module's own memory
                    parameter.copy_(view)


def _of_its_own(piece: Tensor) -> Tensor:
    """Return the memory of ``piece`` as a tensor that begins its storage: a pass may name places there (``as_strided``)."""
    made: Tensor = torch.from_dlpack(piece.detach())
    return made


def _is_apart(place: Place, begin: int) -> bool:
    """Return whether a parameter may be pairs of numbers, which a view as complex numbers wants at an even place.

    ``begin``: place of the flat vector in its memory.
    """
    return (begin + place.start) % 2 == 1 and place.shape[-1:] == (2,)


def refuse_lazy(module: nn.Module) -> None:
    """Raise UserError for a parameter or a buffer that has no size yet."""
    for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, tensor in named:
            if is_lazy(tensor):
                raise UserError(f"model: {kind} {name} has no size yet (a lazy layer): call the module once first")


def refuse_shared_memory(module: nn.Module) -> None:
    """Raise UserError where a trainable parameter has numbers in common with another tensor of ``module``.

    A member's parameters lie in memory of their own, so that tensor would not follow them.
    """
    parameters = [each for each in module.parameters() if each.requires_grad and _has_memory(each)]
    rooms = {each.untyped_storage().data_ptr(): list[tuple[int, int, str, Tensor]]() for each in parameters}
    evolved = set(map(id, parameters))
    for name, tensor in _tensors(module):
        room = rooms.get(tensor.untyped_storage().data_ptr()) if _has_memory(tensor) else None
        if room is not None:
            room.append((*_span(tensor), name, tensor))
    for room in rooms.values():
        room.sort(key=itemgetter(0))  # a thousand parameters in one vector take a thousand comparisons
        for place, (_, end, name, tensor) in enumerate(room):
            for begin, _, other, behind in room[place + 1 :]:
                if begin >= end:
                    break
                if evolved & {id(tensor), id(behind)} and tensor is not behind and _overlap(tensor, behind):
                    allowed = f"model: {name} and {other} lie in the same memory, and a member's parameters in their own"
                    raise UserError(f"{allowed}: use one nn.Parameter in both places, or a copy (.clone())")
    _refuse_arrays(module, parameters)


def _refuse_arrays(module: nn.Module, parameters: Sequence[Tensor]) -> None:
    """Raise UserError where an array among the attributes views a parameter's memory."""
    # addresses, since an array of a parameter would keep its memory from ever moving
    spans = [(each.data_ptr(), each.data_ptr() + _span(each)[1] - _span(each)[0]) for each in parameters]
    for name, value in attributes_of(module):
        if not isinstance(value, np.ndarray) or not value.size:
            continue
        low, high = np.lib.array_utils.byte_bounds(value)
        if any(low < end and begin < high for begin, end in spans):
            raise UserError(
                f"model: attribute {name} is an array in a parameter's memory, and a member's lies in its own: copy it"
            )


def _refuse_fsdp(module: nn.Module) -> None:
    """Raise UserError for a module of FSDP: after a pass it gives out plain copies, and what is written into them is lost."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    kinds = () if fsdp is None else (fsdp.FSDPModule, fsdp.FullyShardedDataParallel)
    for name, part in module.named_modules():
        if isinstance(part, kinds):
            raise UserError(f"model: module {name or type(part).__name__} is sharded by FSDP; {_PLAIN}")


def _is_sharded(parameter: Tensor) -> bool:
    """Return whether a parameter is a DTensor; what is written into a part of one can be lost. torch imports the class late."""
    sharded = sys.modules.get("torch.distributed.tensor")
    return sharded is not None and isinstance(parameter, sharded.DTensor)


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Return parameters, buffers and tensors in attributes, by kind and name."""
    yield from ((f"parameter {name}", each) for name, each in module.named_parameters())
    yield from ((f"buffer {name}", each) for name, each in module.named_buffers())
    for name, value in attributes_of(module):
        if isinstance(value, Tensor):
            yield f"attribute {name}", value


def _has_memory(tensor: Tensor) -> bool:
    plain = tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_nested and tensor.numel()
    return bool(plain and type(tensor) in (Tensor, nn.Parameter) and tensor.untyped_storage().data_ptr())


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors whose spans in one storage meet have a byte in common; columns of one matrix have none."""
    if one.element_size() != other.element_size():
        return True
    low = min(tensor.storage_offset() for tensor in (one, other))
    marks = torch.zeros(max(_span(tensor)[1] for tensor in (one, other)) // one.element_size() - low, dtype=torch.bool)
    sizes = [size if stride else 1 for size, stride in zip(one.shape, one.stride(), strict=True)]
    marks.as_strided(sizes, one.stride(), one.storage_offset() - low).fill_(True)
    return bool(marks.as_strided(other.shape, other.stride(), other.storage_offset() - low).any())


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return the first byte of a tensor in its storage, and the one after its last."""
    first = int(tensor.storage_offset())
    last = first + sum(int(size - 1) * int(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first * tensor.element_size(), (last + 1) * tensor.element_size()


def writing(tensors: Iterable[Tensor]) -> AbstractContextManager[None]:
    """Return a context in which ``tensors`` may be written: inference tensors only in inference mode."""
    made_in_inference = any(tensor.is_inference() for tensor in tensors)
    return torch.inference_mode() if made_in_inference else torch.no_grad()
