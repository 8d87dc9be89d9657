"""Replay of a pass: the recorded calls that noise reaches run again, without the Python code of the module and the loss.

Every pass makes the same calls if Python reads no number of the examples. Only then can a record be replayed.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from neuro_cli.activation_noise.derivatives.arguments import replaced
from neuro_cli.activation_noise.derivatives.recurrence import scan
from neuro_cli.activation_noise.derivatives.replacements import REPLACEMENTS
from neuro_cli.activation_noise.recording.calls import Call
from neuro_cli.scoring.passes.example_marks import tensors
from neuro_cli.scoring.passes.number_reads import may_read
from neuro_cli.scoring.passes.torch_bodies import overwrites


def replayable(calls: list[Call]) -> bool:
    """Return whether every pass makes these calls: none reads numbers of the examples or has a tensor unknown to torch."""
    return not any(call.foreign or call.read for call in calls)


def calls_behind(result: Tensor, calls: list[Call]) -> set[int]:
    """Return the numbers of the calls that ``result`` may depend on: by a tensor, by written memory, or by a shape."""
    wanted, numbers = _traces([result]), set[int]()
    for number in range(len(calls) - 1, -1, -1):
        call = calls[number]
        given, made = tensors([*call.args, *call.kwargs.values()]), tensors([call.result])
        # any argument may be written to, as one is by a call without a result
        seen = [*made, *given] if overwrites(call.func) or not made else made
        if not call.decomposed and (may_read(call.func, call.args) or not wanted.isdisjoint(_traces(seen))):
            numbers.add(number)
            wanted |= _traces(given)
    return numbers


def _traces(given: list[Tensor]) -> set[int]:
    """Return the identities of tensors and of their memory, which views share."""
    dense = (tensor for tensor in given if tensor.layout is torch.strided)
    return {id(tensor) for tensor in given} | {tensor.untyped_storage()._cdata for tensor in dense}


def replay(
    calls: list[Call], result: Tensor, deltas: dict[int, Tensor],
    observe: Callable[[Call, list[Tensor], Tensor], None] | None = None,
) -> Tensor:  # fmt: skip
    """Run the ``calls`` that noise reaches again, and return what takes the place of ``result``, one of the clean pass.

    ``deltas``: additions to the outputs of layers, by the layers' numbers. ``observe``: called with each call that has a node,
    its tensors and its result. New results are dropped behind their last use.
    """
    noisy: dict[int, Tensor] = {}  # results with noise, keyed by the identity of the clean result
    last = {tensor: place for place, call in enumerate(calls) if not call.decomposed for tensor in call.given}
    last[id(result)] = len(calls)

    def swap(tensor: Tensor) -> Tensor:
        return noisy.get(id(tensor), tensor)

    for place, call in enumerate(calls):
        if call.decomposed:
            continue
        again = call.result
        delta = None if call.layer is None else deltas.get(call.layer)
        inside = {"delta": delta} if delta is not None and call.func is scan else {}
        if inside or not noisy.keys().isdisjoint(call.given):
            args, kwargs = replaced(call.args, swap), {name: replaced(value, swap) for name, value in call.kwargs.items()}
            kwargs |= inside
            again = REPLACEMENTS.get(call.func, call.func)(*args, **kwargs)
            if observe is not None and call.node is not None:
                observe(call, tensors([*args, *kwargs.values()]), again)
            del args, kwargs
        if delta is not None and not inside:
            again = again + delta
        for tensor in call.given:
            if last[tensor] == place:
                noisy.pop(tensor, None)
        if again is not call.result:
            for clean, made in zip(tensors([call.result]), tensors([again]), strict=True):
                noisy[id(clean)] = made
    return noisy.get(id(result), result)
