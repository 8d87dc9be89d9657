"""Passes with noise on the outputs of layers, from the first call that noise reaches; earlier calls keep their clean results.

A pass replays the record if it can, and runs the module otherwise. Passes run side by side, along a dimension that ``torch.vmap``
hides from the module, or one after the other for a module that vmap cannot map.

Legend: R passes, B examples.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from neuro_cli.activation_noise.derivatives.outside_torch import NEW, READS
from neuro_cli.activation_noise.derivatives.recurrence import scan
from neuro_cli.activation_noise.derivatives.replacements import REPLACEMENTS
from neuro_cli.activation_noise.recording.calls import Call
from neuro_cli.activation_noise.recording.clean_pass import PassRecord
from neuro_cli.activation_noise.recording.module_pass import ModulePass
from neuro_cli.activation_noise.recording.replay import replay
from neuro_cli.scoring.passes.example_marks import marked, tensors, with_mark
from neuro_cli.scoring.passes.number_reads import METADATA
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.torch_bodies import overwrites

ObservedChanges = dict[int, tuple[Tensor, Tensor]]  # input and outputs of a noisy pass, by number of the backward graph's node

DIFFER = "its calls of torch differ from pass to pass"
NOISE = "_neuro_noise"  # attribute of tensors that noise has reached


class NoisyMode(TorchFunctionMode):
    """Context of a pass. ``deltas``: additions to the outputs of layers, by their numbers.

    ``complete``: every call runs again. ``observed``: receives the input and outputs of nodes with a model, where noise reaches
    them.
    """

    def __init__(
        self, clean: PassRecord, deltas: dict[int, Tensor], complete: bool, observed: ObservedChanges | None = None
    ) -> None:
        super().__init__()
        self._calls, self._nodes, self._deltas, self._complete, self._observed = (
            clean.calls, clean.nodes, deltas, complete, observed,
        )  # fmt: skip
        self._next, self._read = 0, False

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in METADATA:
            return func(*args, **kwargs)
        given = [*args, *kwargs.values()]
        if not tensors(given):
            result = func(*args, **kwargs)
            if not tensors([result]):
                return result
            call = self._following(func)
            # a random tensor is the same in all passes
            if call.foreign or (self._complete and func in NEW):  # a later call may overwrite it
                return self._marked(result)
            return call.result
        if func is Tensor.view_as and args[0] is args[1] and not self._follows(func):
            # torch wraps what a function with a derivative of its own returns as it got it, and not where that has a graph
            return with_mark(func(*args), NOISE) if marked(given, NOISE) else func(*args)
        call = self._following(func)
        if call.decomposed:
            with self:
                return call.decomposed(*args, **kwargs)
        reached = marked(given, NOISE) or (call.foreign and self._read)
        self._read |= reached and func in READS
        position = None if self._observed is None or call.node is None or not reached else self._nodes[call.node].position
        x = None if position is None else self._kept(tensors(given)[position])
        delta = None if call.layer is None else self._deltas.get(call.layer)
        if delta is not None and func is scan:
            cell, *given = args
            return with_mark(scan(cell, given[0], given[1], given[2], delta), NOISE)
        # a call without noise among its arguments gives what it gave in the clean pass, but what it gives may be filled later
        again = reached or self._complete or call.foreign
        result = REPLACEMENTS.get(func, func)(*args, **kwargs) if again else call.result
        if self._observed is not None and call.node is not None and x is not None:
            self._observed[call.node] = x, self._kept(result)
        if reached and args and isinstance(args[0], Tensor) and overwrites(func):
            with_mark(args[0], NOISE)
        if delta is not None:
            try:
                noisy = result + delta
            except RuntimeError as error:
                raise Unsupported(DIFFER) from error
            if noisy.shape != result.shape:
                raise Unsupported(DIFFER)
            result, reached = result.copy_(noisy) if overwrites(func) and result is args[0] else noisy, True
        return with_mark(result, NOISE) if reached else result

    def _marked(self, result: Any) -> Any:
        """Return a new tensor that may depend on numbers which Python or a C library has read."""
        return with_mark(result, NOISE) if self._read else result

    def _kept(self, tensor: Tensor) -> Tensor:
        """Return ``tensor``, as a copy in a complete pass, whose later calls may overwrite it."""
        return tensor.clone() if self._complete else tensor

    def _following(self, func: Callable[..., Any]) -> Call:
        """Return the next call of the clean pass, which must be one of ``func``."""
        if not self._follows(func):
            raise Unsupported(DIFFER)
        self._next += 1
        return self._calls[self._next - 1]

    def _follows(self, func: Callable[..., Any]) -> bool:
        # not ``is``: the getter of a tensor's attribute is a new object each time
        return self._next < len(self._calls) and self._calls[self._next].func == func


def noisy_scores(
    clean: PassRecord, deltas: dict[int, Tensor], source: ModulePass, mapped: bool, complete: bool, replayed: bool
) -> Tensor:
    """Return the scores (R, B, ..) of passes of ``source`` with ``deltas`` (R, ..).

    ``mapped``: side by side; ``replayed``: without the module. Raises Unsupported, and whatever the module raises.
    """

    def one(delta: dict[int, Tensor]) -> Tensor:
        if replayed:
            assert clean.result is not None
            return replay(clean.calls, clean.result, delta)
        with source.state(), NoisyMode(clean, delta, complete):
            return source.rewards()

    count = len(next(iter(deltas.values())))
    with torch.no_grad():
        if mapped and count > 1:
            scores: Tensor = torch.func.vmap(one, randomness="same")(deltas)
        else:
            scores = torch.stack([one({layer: delta[row] for layer, delta in deltas.items()}) for row in range(count)])
    return scores.detach()  # where noise reaches no score, they are those of the clean pass with their backward graph


def observe(
    clean: PassRecord, deltas: dict[int, Tensor], source: ModulePass, complete: bool, replayed: bool
) -> tuple[Tensor, ObservedChanges]:
    """Return the scores (B, ..) of a pass with ``deltas``, and the input and outputs in it of the nodes with a model."""
    observed: ObservedChanges = {}

    def see(call: Call, given: list[Tensor], result: Tensor) -> None:
        assert call.node is not None
        position = clean.nodes[call.node].position
        if position is not None:
            observed[call.node] = given[position], result

    with torch.no_grad():
        if replayed:
            assert clean.result is not None
            return replay(clean.calls, clean.result, deltas, see).detach(), observed
        with source.state(), NoisyMode(clean, deltas, complete, observed):
            scores = source.rewards()
    return scores.detach(), observed
