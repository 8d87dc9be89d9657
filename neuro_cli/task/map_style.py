"""Reader of map-style datasets: ``dataset[i]`` is a pair (input, target), or a dict with two named fields."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as Examples
from torch.utils.data import TensorDataset
from torchvision.transforms.functional import pil_to_tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.memory import free_memory
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.task.images import shape_text

TargetOf = Callable[[str, Any, int, Any], Tensor]  # arguments: key, source, number of the example, raw target


class NoData(Examples[tuple[Tensor, int]]):
    """Placeholder in ``conf/task/dataset.yaml`` for the dataset that the user names."""

    def __len__(self) -> int:
        return 0


def source_of(key: str, given: Any) -> Any:
    """Return ``given``, a map-style dataset, or one of the rows of a pair of tensors or arrays. Raises ConfigError."""
    if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(part, Tensor | np.ndarray) for part in given):
        inputs, targets = (torch.as_tensor(part) for part in given)
        if not inputs.ndim or not targets.ndim or len(inputs) != len(targets):
            lengths = " and ".join(str(len(part)) if part.ndim else "no rows" for part in (inputs, targets))
            raise ConfigError(key, "a pair of tensors", f"must have as many inputs as targets, not {lengths}")
        return TensorDataset(inputs, targets)
    if not (hasattr(given, "__len__") and hasattr(given, "__getitem__")):
        raise ConfigError(key, name_of(given), "must be a map-style dataset, with __len__ and __getitem__, or a pair of tensors")
    return given


def fields_of(fields: Any) -> tuple[str, str] | None:
    """Return the names of input and target where a map-style dataset's examples are dicts. Raises ConfigError."""
    if fields is None:
        return None
    if not isinstance(fields, Sequence) or isinstance(fields, str) or len(fields) != 2:
        raise ConfigError("task.fields", fields, "must be the names of input and target, for example [image,label]")
    return str(fields[0]), str(fields[1])


class Reader:
    """Reader of all examples of a source, once and in order. ``words``: inputs may be integers, as token numbers."""

    def __init__(self, fields: tuple[str, str] | None, target_of: TargetOf, words: bool = False) -> None:
        self._fields, self._target_of, self._words = fields, target_of, words

    def read(self, key: str, source: Any) -> tuple[Tensor, Tensor]:
        """Read a map-style source: inputs (N, ...), uint8 if they are images, and targets (N, ...). Raises ConfigError."""
        count = len(source)
        if not count:
            raise ConfigError(key, name_of(source), "it has no examples")
        firsts = self._example(key, source, 0)
        size, free = count * sum(part.element_size() * part.numel() for part in firsts[:1]), free_memory()
        if free is not None and size > free:
            shape = shape_text(tuple(firsts[0].shape))
            text = f"{count} examples of {shape} take {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB of memory are free"
            raise ConfigError(key, name_of(source), f"{text}: a run keeps all of them; take fewer, or smaller ones")
        stored = tuple(torch.empty(count, *part.shape, dtype=part.dtype) for part in firsts)
        for number in range(count):
            for part, first, all_of_them in zip(self._example(key, source, number), firsts, stored, strict=True):
                if part.shape != first.shape or part.dtype != first.dtype:
                    kinds = [f"{shape_text(tuple(each.shape)) or 'one number'} ({each.dtype})" for each in (part, first)]
                    text = f"example {number} is {kinds[0]}, the first one {kinds[1]}; all must be alike"
                    raise ConfigError(key, name_of(source), text)
                all_of_them[number] = part
        return stored[0], stored[1]

    def _example(self, key: str, source: Any, number: int) -> tuple[Tensor, Tensor]:
        """Return input and target of one example. Raises ConfigError."""
        try:
            pair = source[number]
        except Exception as error:  # a user's dataset may raise anything
            reason = " ".join(str(error).split()) or type(error).__name__
            text = f"example {number} cannot be read: {type(error).__name__}: {reason}"
            raise ConfigError(key, name_of(source), text) from error
        if isinstance(pair, Mapping):
            pair = self._of_fields(key, source, number, pair)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ConfigError(key, name_of(source), f"example {number} is a {type(pair).__name__}, not a pair (input, class)")
        target = self._target_of(key, source, number, pair[1])
        return self._input(key, source, number, pair[0]), target

    def _of_fields(self, key: str, source: Any, number: int, example: Mapping[str, Any]) -> tuple[Any, Any]:
        names = ", ".join(map(str, example))
        if self._fields is None:
            text = f"example {number} is a dict of {names}; task.fields=[INPUT,TARGET] names two of them"
            raise ConfigError(key, name_of(source), text)
        for name in self._fields:
            if name not in example:
                text = f"example {number} of {key} has no such field; {nearest(name, map(str, example))}"
                raise ConfigError("task.fields", name, text)
        return example[self._fields[0]], example[self._fields[1]]

    def _input(self, key: str, source: Any, number: int, value: Any) -> Tensor:
        if isinstance(value, Image.Image):
            value = pil_to_tensor(value)
        elif isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        elif isinstance(value, list) and value and not isinstance(value[0], str):
            value = torch.from_numpy(np.asarray(value))
        if not isinstance(value, Tensor):
            what = f"{type(value).__name__}; give the dataset a transform that makes a tensor"
        elif value.is_floating_point():
            return value.detach().to("cpu", torch.float32)
        elif value.dtype == torch.uint8:
            return value.cpu()
        elif self._words and value.dtype in (torch.int32, torch.int64):
            return value.to("cpu", torch.int64)
        else:
            what = f"tensor of {value.dtype}; floating numbers and uint8 are taken"
            tokens = value.dtype in (torch.int32, torch.int64)
            what += ", and tokens with a loss: task.loss._target_=torch.nn.CrossEntropyLoss" if tokens else ""
        raise ConfigError(key, name_of(source), f"the input of example {number} is a {what}")


def channels_last(inputs: Tensor) -> Tensor:
    """Store map-style images (N, C, H, W) as (N, H, W, C), so that any selection is channels_last; other inputs stay."""
    return inputs.permute(0, 2, 3, 1).contiguous() if inputs.ndim == 4 else inputs


def as_inputs(kept: Tensor, memory_format: torch.memory_format) -> Tensor:
    """Return a network's inputs from what :func:`channels_last` gave: byte images scaled to [0, 1], tokens as they are."""
    inputs = kept.float().div_(255) if kept.dtype == torch.uint8 else kept
    if kept.ndim != 4:
        return inputs
    inputs = inputs.permute(0, 3, 1, 2)
    return inputs if memory_format is torch.channels_last else inputs.clone(memory_format=memory_format)


def name_of(source: Any) -> str:
    return type(source).__name__
