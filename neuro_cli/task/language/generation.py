"""Answers of a language model: logits at chosen places, and generated tokens."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.noise import EVALUATION_STREAM, random_words
from neuro_cli.task.images import shape_text

Choose = Callable[[Tensor, int], Tensor]  # the next tokens (B,) from logits (B, V) and the step
WIDE = 2**21  # logits that are worked out in float32 at once
BROKEN = -1  # token of an answer whose logits are not numbers: their argmax is a token too


def logits_at(module: nn.Module, tokens: Tensor, places: Tensor, size: int) -> Tensor:
    """Return the logits (B, A, V) that follow ``places`` (n, A) of each row of ``tokens`` (n, T) int64, in the module's type.

    B is a multiple of n if ``module`` answers for several members. Raises UserError for an output of another shape, and
    for V below ``size``, the number of tokens in the vocabulary.
    """
    direct = hasattr(module, "answer_logits")  # its head skips other places, whose logits would be large
    logits = module(tokens, places) if direct else module(tokens)
    wanted, shape = (places if direct else tokens).shape, tuple(getattr(logits, "shape", ()))
    if len(shape) != 3 or shape[1] != wanted[1] or not shape[0] or shape[0] % wanted[0] or shape[2] < size:
        made, needed = shape_text(shape) or type(logits).__name__, shape_text((*wanted[:2], size))
        raise UserError(f"model: its output for {shape_text(tuple(tokens.shape))} tokens is {made}, {needed} logits are needed")
    if not direct:
        index = places if len(logits) == len(places) else torch.cat([places] * (len(logits) // len(places)))
        logits = logits.gather(1, index[..., None].expand(-1, -1, shape[2]))
    return logits


def judged(logits: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nats (B, A) float32 of tokens ``wanted`` (B, A) by ``logits`` (B, A, V), and the likeliest tokens (B, A)."""
    step = max(1, WIDE // max(1, logits[:, :1].numel()))
    nats, likeliest = list[Tensor](), list[Tensor]()
    for some, tokens in zip(logits.split(step, 1), wanted.split(step, 1), strict=True):
        exact = some.float()
        nats.append(exact.logsumexp(-1) - exact.gather(-1, tokens[..., None]).squeeze(-1))
        likeliest.append(exact.argmax(-1))
    return torch.cat(nats, 1), torch.cat(likeliest, 1)


def greedy(logits: Tensor, step: int) -> Tensor:
    """Choose the likeliest tokens."""
    return logits.argmax(-1)


class Sampled:
    """Choice of tokens by their probabilities at a ``temperature``, with random numbers addressed by problem and sample."""

    def __init__(self, seed: int, problems: list[int], sample: int, temperature: float, steps: int) -> None:
        words = np.stack([random_words(seed, problem, sample, EVALUATION_STREAM, steps) for problem in problems])
        self._shares = torch.from_numpy((words.astype(np.float64) + 0.5) / 2.0**32)  # (B, steps)
        self._temperature = temperature

    def __call__(self, logits: Tensor, step: int) -> Tensor:
        sums = (logits.double() / self._temperature).softmax(-1).cumsum(-1)
        wanted = self._shares[:, step : step + 1].to(logits.device) * sums[:, -1:]
        return torch.searchsorted(sums, wanted, right=True).squeeze(1).clamp_(max=logits.shape[1] - 1)


def generated(
    module: nn.Module, tokens: Tensor, lengths: Tensor, steps: int, choose: Choose, ends: Collection[int], size: int
) -> Tensor:
    """Return the tokens (B, steps) that ``module`` generates after prompts ``tokens`` (B, T), right-padded, of ``lengths`` (B,).

    Stops early if each row has one of ``ends``; tokens after an end mean nothing. An answer with logits that are not numbers
    has BROKEN among its tokens.
    """
    generate: Any = getattr(module, "generate", None)
    if choose is greedy and generate is not None:  # faster, with a cache of keys and values
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        made: Tensor = generate(tokens, mask.long(), steps, ends)
        return made
    rows = torch.cat([tokens, tokens.new_zeros(len(tokens), steps)], 1)
    stops = torch.tensor(sorted(ends), dtype=torch.int64, device=tokens.device)
    width, done = tokens.shape[1], torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    broken = done
    for step in range(steps):
        logits = logits_at(module, rows[:, : width + step], (lengths + step - 1)[:, None], size).float()
        chosen = choose(logits[:, 0, :size], step)
        rows.scatter_(1, (lengths + step)[:, None], chosen[:, None])
        broken = broken | (logits[:, 0, :size].isnan().any(-1) & ~done)
        done = done | torch.isin(chosen, stops) | broken
        if _all(done):
            break
    return rows.gather(1, lengths[:, None] + torch.arange(steps, device=rows.device)).masked_fill(broken[:, None], BROKEN)


def _all(values: Tensor) -> bool:
    """Return whether all rows are true, read across members: stopping changes no row before its end."""
    with torch._C.DisableTorchFunction():
        return bool(values.all())


def read(tokens: Tensor) -> list[Any]:
    """Return the numbers of a tensor as lists, read across the members that share it."""
    with torch._C.DisableTorchFunction():
        return list(tokens.tolist())


def padded(rows: Sequence[Sequence[int]], value: int, width: int | None = None) -> Tensor:
    """Return rows of any lengths as (N, ``width``) int64, by default the longest's, padded on the right with ``value``."""
    result = torch.full((len(rows), max(map(len, rows), default=0) if width is None else width), value, dtype=torch.int64)
    for row, tokens in enumerate(rows):
        result[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
    return result
