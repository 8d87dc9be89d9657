"""Replay of a pass: the recorded calls that noise reaches run again, without the Python code of the module and the loss.

Every pass makes the same calls if Python reads no number of the examples. Only then can a record be replayed.
"""

from collections.abc import Callable

from torch import Tensor

from neuro_cli.activation_noise.arguments import replaced
from neuro_cli.activation_noise.calls import Call
from neuro_cli.activation_noise.replacements import REPLACEMENTS
from neuro_cli.scoring.passes.example_marks import tensors


def replayable(calls: list[Call]) -> bool:
    """Return whether every pass makes these calls: none reads numbers of the examples or has a tensor unknown to torch."""
    return not any(call.foreign or call.read for call in calls)


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
        if not noisy.keys().isdisjoint(call.given):
            args, kwargs = replaced(call.args, swap), {name: replaced(value, swap) for name, value in call.kwargs.items()}
            again = REPLACEMENTS.get(call.func, call.func)(*args, **kwargs)
            if observe is not None and call.node is not None:
                observe(call, tensors([*args, *kwargs.values()]), again)
            del args, kwargs
        delta = None if call.layer is None else deltas.get(call.layer)
        if delta is not None:
            again = again + delta
        for tensor in call.given:
            if last[tensor] == place:
                noisy.pop(tensor, None)
        if again is not call.result:
            for clean, made in zip(tensors([call.result]), tensors([again]), strict=True):
                noisy[id(clean)] = made
    return noisy.get(id(result), result)
