"""A pass with noise on the outputs of layers: the calls of the clean pass again, from the first one on that noise reaches.

Calls before it give what they gave in the clean pass. Passes run side by side as a dimension that ``torch.vmap`` hides from the
module, or one after the other where the module does not let itself be mapped.

Legend: R passes, B examples.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from neuro_cli.scoring.activation.clean_pass import CleanCalls, parts_of
from neuro_cli.scoring.activation.found import Call
from neuro_cli.scoring.activation.instead import INSTEAD
from neuro_cli.scoring.activation.marks import marked, tensors, with_mark
from neuro_cli.scoring.operators import Unsupported

Shown = dict[int, tuple[Tensor, Tensor]]  # by number of the link, its input and its outputs

NOISE = "_neuro_noise"  # attribute of tensors that noise has reached


class NoisyMode(TorchFunctionMode):
    """Context of a pass with ``deltas``, by number of the layer what is added to its outputs.

    ``whole``: every call is done again. ``shown``: takes what links that learn get and give where noise reaches them, by number.
    """

    def __init__(self, clean: CleanCalls, deltas: dict[int, Tensor], whole: bool, shown: Shown | None = None) -> None:
        super().__init__()
        self._calls, self._links, self._deltas, self._whole, self._shown = clean.calls, clean.links, deltas, whole, shown
        self._next = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        if not any(True for _ in tensors(given)):
            made = func(*args, **kwargs)
            # what is drawn by chance is the same in all passes
            return self._following(func).made if any(True for _ in tensors([made])) else made
        call = self._following(func)
        if call.apart:
            inner = parts_of(func)
            assert inner is not None
            with self:
                return inner(*args, **kwargs)
        reached = marked(given, NOISE)
        place = None if self._shown is None or call.link is None or not reached else self._links[call.link].place
        changed = None if place is None else self._kept(list(tensors(given))[place])
        made = INSTEAD.get(func, func)(*args, **kwargs) if reached or self._whole else call.made
        if self._shown is not None and call.link is not None and changed is not None:
            self._shown[call.link] = changed, self._kept(made)
        delta = None if call.layer is None else self._deltas.get(call.layer)
        if delta is not None:
            made, reached = made + delta, True
        return with_mark(made, NOISE) if reached else made

    def _kept(self, tensor: Tensor) -> Tensor:
        """``tensor``, which later calls may overwrite where they all are done again."""
        return tensor.clone() if self._whole else tensor

    def _following(self, func: Callable[..., Any]) -> Call:
        """The next call of the clean pass, which must be one of ``func``."""
        call = self._calls[self._next] if self._next < len(self._calls) else None
        if call is None or call.func != func:  # no identity: what gives a tensor's attribute is made anew each time
            raise Unsupported("its calls of torch differ from pass to pass")
        self._next += 1
        return call


def scores_with(clean: CleanCalls, deltas: dict[int, Tensor], rewards: Callable[[], Tensor], mapped: bool, whole: bool) -> Tensor:
    """Scores (R, B, ..) of the passes with ``deltas`` (R, ..); ``rewards`` runs the module on all examples.

    ``mapped``: side by side. Raises Unsupported, and whatever the module raises.
    """

    def one(noise: dict[int, Tensor]) -> Tensor:
        with NoisyMode(clean, noise, whole):
            return rewards()

    with torch.no_grad():
        if mapped:
            made: Tensor = torch.func.vmap(one, randomness="same")(deltas)
            return made
        count = len(next(iter(deltas.values())))
        return torch.stack([one({layer: delta[place] for layer, delta in deltas.items()}) for place in range(count)])


def shown_by(clean: CleanCalls, deltas: dict[int, Tensor], rewards: Callable[[], Tensor], whole: bool) -> tuple[Tensor, Shown]:
    """Scores (B, ..) of the pass with ``deltas``, and what links that learn get and give in it."""
    shown: Shown = {}
    with torch.no_grad(), NoisyMode(clean, deltas, whole, shown):
        return rewards(), shown
