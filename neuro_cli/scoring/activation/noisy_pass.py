"""A pass with noise on the outputs of layers: the calls of the clean pass again, from the first one on that noise reaches.

Calls before it give what they gave in the clean pass. Passes run side by side as a dimension that ``torch.vmap`` hides from the
module, or one after the other where the module does not let itself be mapped.

Legend: R passes, B examples.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from neuro_cli.scoring.activation.clean_pass import CleanCalls, parts_of
from neuro_cli.scoring.activation.fixed import attention_weights
from neuro_cli.scoring.activation.found import Call
from neuro_cli.scoring.activation.marks import marked, tensors, with_mark
from neuro_cli.scoring.operators import Unsupported

NOISE = "_neuro_noise"  # attribute of tensors that noise has reached


class NoisyMode(TorchFunctionMode):
    """Context of a pass with ``deltas``, by number of the layer what is added to its outputs.

    ``whole``: every call is done again. ``outputs``: takes those of layers and fixed calls that noise reaches, by number.
    """

    def __init__(
        self, clean: CleanCalls, deltas: dict[int, Tensor], whole: bool, outputs: dict[int, Tensor] | None = None
    ) -> None:
        super().__init__()
        self._calls, self._deltas, self._whole, self._outputs = clean.calls, deltas, whole, outputs
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
        made = INSTEAD.get(func, func)(*args, **kwargs) if reached or self._whole else call.made
        delta = None if call.layer is None else self._deltas.get(call.layer)
        if delta is not None:
            made, reached = made + delta, True
        number = call.fixed if call.layer is None else call.layer
        if self._outputs is not None and number is not None and reached:
            self._outputs[number] = made.clone() if self._whole else made  # later calls may overwrite it
        return with_mark(made, NOISE) if reached else made

    def _following(self, func: Callable[..., Any]) -> Call:
        """The next call of the clean pass, which must be one of ``func``."""
        call = self._calls[self._next] if self._next < len(self._calls) else None
        if call is None or call.func != func:  # no identity: what gives a tensor's attribute is made anew each time
            raise Unsupported("its calls of torch differ from pass to pass")
        self._next += 1
        return call


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention as products: torch's own is mapped pass by pass. Raises Unsupported for heads that share keys."""
    if enable_gqa:
        raise Unsupported("attention with enable_gqa")
    return attention_weights(query, key, attn_mask, is_causal, scale) @ value


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
    training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """Batch norm that leaves the running statistics as they are: a pass with noise has nothing to say of them."""
    running = (None, None) if training else (running_mean, running_var)
    return torch.batch_norm(input, weight, bias, *running, training, momentum, eps, cudnn_enabled)


INSTEAD: dict[Any, Callable[..., Any]] = {F.scaled_dot_product_attention: attention, torch.batch_norm: batch_norm}


def scores_with(clean: CleanCalls, deltas: dict[int, Tensor], rewards: Callable[[], Tensor], mapped: bool, whole: bool) -> Tensor:
    """Scores (R, B, ..) of the passes with ``deltas`` (R, ..); ``rewards`` runs the module on all examples.

    ``mapped``: side by side. Raises Unsupported, and whatever the module raises.
    """
    return scores_and_outputs(clean, deltas, rewards, mapped, whole)[0]


def scores_and_outputs(
    clean: CleanCalls, deltas: dict[int, Tensor], rewards: Callable[[], Tensor], mapped: bool, whole: bool, kept: bool = False
) -> tuple[Tensor, dict[int, Tensor]]:
    """Scores as of :func:`scores_with`; where they are ``kept``, outputs (R, ..) of layers and fixed calls that it reaches."""

    def one(noise: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
        outputs = dict[int, Tensor]()
        with NoisyMode(clean, noise, whole, outputs if kept else None):
            return rewards(), outputs

    with torch.no_grad():
        if mapped:
            made: tuple[Tensor, dict[int, Tensor]] = torch.func.vmap(one, randomness="same")(deltas)
            return made
        count = len(next(iter(deltas.values())))
        passes = [one({layer: delta[place] for layer, delta in deltas.items()}) for place in range(count)]
        outputs = {layer: torch.stack([each[1][layer] for each in passes]) for layer in passes[0][1]}
        return torch.stack([scores for scores, _ in passes]), outputs
