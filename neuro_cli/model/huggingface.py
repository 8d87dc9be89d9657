"""Pretrained network of transformers. A part of it is trained: norms, low-rank additions, parameters by name, or all.

Legend: B examples, T tokens, V logits of a token, K positions, C classes.
"""

import inspect
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.checks import boolean, integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.module.precision import LATE
from neuro_cli.language.low_rank import add_low_rank, sums
from neuro_cli.language.pretrained import is_classifier, load_config, load_model, load_tokenizer

log = logging.getLogger(__name__)

LORA, NORMS = "lora", "norms"
_TOLD: set[str] = set()  # paths of networks without a cache, which were named once
SIDES = ("left", "right")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class HuggingFace(nn.Module):
    """Network from tokens (B, T) int64 to logits: (B, T, V) of a causal language model, or (B, C) of a sequence classifier.

    ``path``: a folder with config.json and safetensors, or a GGUF file. ``trainable``: norms (their scales) | all | lora
    (additions of ``rank`` to the linear layers) | a pattern of names, as for files (``*.mlp.*``). ``dtype`` of frozen
    parameters: float32 | bfloat16; trained ones are float32. ``classes``: number of classes of a new head, always trained.
    ``quantised``: matrices stay in the blocks of a GGUF file, and are dequantised in each product. Causal models take tokens
    padded on the right. Raises ConfigError.
    """

    packages = ("transformers",)  # another version may compute other bits

    def __init__(
        self,
        path: str,
        trainable: str = "norms",
        rank: int = 4,
        dtype: str = "float32",
        classes: int | None = None,
        quantised: bool = False,
    ) -> None:
        super().__init__()
        self.path, self.dtype = str(path), DTYPES[one_of("model.dtype", dtype, tuple(DTYPES))]
        if classes is not None:
            integer("model.classes", classes, 2)
        integer("model.rank", rank, 1)
        self.classifies = is_classifier(load_config(self.path, classes))
        self.pretrained: Any = load_model(
            self.path, dtype=self.dtype, classes=classes, quantised=boolean("model.quantised", quantised)
        )
        arguments = inspect.signature(self.pretrained.forward).parameters
        self._cache_key = "cache" if "cache" in arguments else "past_key_values"  # depends on the version of transformers
        if trainable == LORA:
            add_low_rank(self.pretrained, rank)
        self._choose(trainable, classes is not None)
        self.caches = self._takes_padding()  # whether answers by a cache are those of complete passes

    def _choose(self, trainable: str, head: bool) -> None:
        """Freeze all but the trained parameters, which become float32; ``head``: the head is trained too."""
        chosen, body = _chosen(trainable, self.pretrained), set(self.pretrained.base_model.parameters())
        for name, parameter in self.pretrained.named_parameters():
            trained = chosen(name) or (head and parameter not in body)
            if trained and not parameter.is_floating_point():
                allowed = f"{name} stays in blocks (model.quantised=true): must be norms, lora, or a pattern of other names"
                raise ConfigError("model.trainable", trainable, allowed)
            parameter.requires_grad_(trained)
            if parameter.requires_grad:
                parameter.data = parameter.data.to(torch.float32, copy=True)
                vars(parameter).clear()  # the parameter is no longer a view of a file
        self._trained = {name for name, parameter in self.named_parameters() if parameter.requires_grad}
        if not self._trained:
            missing = "its norms have no scales" if trainable == NORMS else "no parameter has such a name"
            raise ConfigError("model.trainable", trainable, f"{missing}; must be norms, all, lora, or a pattern")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Convert or move all tensors; buffers such as angles of positions stay in float32, as transformers has them."""
        before = {name: value for name, value in self.named_buffers() if value.dtype == torch.float32}
        super()._apply(fn, recurse)
        for name, value in self.named_buffers():
            if name in before and value.dtype in (torch.float16, torch.bfloat16):
                place, _, last = name.rpartition(".")
                setattr(self.get_submodule(place), last, before[name].to(value.device))
        return self

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of the model, one for a process."""
        return load_tokenizer(self.path)

    def tuned(self) -> dict[str, Tensor]:
        """Return the trained tensors by the names of transformers, for ``write_tuned``; lora gives complete weights."""
        added = dict(sums(self.pretrained))
        return added or {name: one.detach() for name, one in self.pretrained.named_parameters() if one.requires_grad}

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return logits; with ``positions`` (B, K) int64 those of these tokens alone, (B, K, V)."""
        with self._one_type(), _only_at(self.pretrained, positions):
            mask = _plain(tokens).ne(self.pretrained.config.pad_token_id).long() if self.classifies else None
            more = {} if self.classifies else {"use_cache": False}
            logits: Tensor = self.pretrained(input_ids=tokens, attention_mask=mask, **more).logits
        return logits

    def answer_logits(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return logits (B, K, V) of ``tokens`` (B, T) at ``positions`` (B, K); the head is applied to these alone."""
        result: Tensor = self(tokens, positions)
        return result

    def generate(self, tokens: Tensor, mask: Tensor, max_new: int, ends: Collection[int] = ()) -> Tensor:
        """Return the likeliest ``max_new`` tokens after each prompt, (B, max_new), padded after its end.

        ``tokens`` (B, T) with padding where ``mask`` (B, T) is 0, on either side. ``ends``: tokens that end an answer, besides
        the model's own. Logits that are not numbers end one with -1.
        """
        if not self.caches and self.path not in _TOLD:
            _TOLD.add(self.path)
            log.warning("model.path=%s: each token of an answer takes a complete pass: its cache bears no padding", self.path)
        with self._one_type(), torch.no_grad():
            return self._generated(tokens, mask, max_new, ends)

    def _generated(self, tokens: Tensor, mask: Tensor, max_new: int, more: Collection[int]) -> Tensor:
        ends, pad = self._special(more)
        order = _plain(mask).sort(dim=1, stable=True, descending=not self.caches).indices
        tokens, mask = tokens.gather(1, order), _plain(mask).gather(1, order)
        places, lengths = mask.cumsum(1).sub(1).clamp(min=0), mask.sum(1, keepdim=True)
        running, made, fed, cache = torch.ones_like(lengths, dtype=torch.bool), list[Tensor](), tokens, None
        for number in range(max_new):
            if self.caches:
                logits, cache = self._cached(fed, mask, places, cache)
                places, mask = places[:, -1:] + 1, torch.cat([mask, torch.ones_like(mask[:, :1])], 1)
            else:
                logits = self(tokens, lengths + (number - 1))
            fed = logits.argmax(-1).where(running, pad)
            broken = logits.isnan().any(-1) & running
            made.append(fed.masked_fill(broken, -1))
            running = running & ~broken & (fed[..., None] != ends).all(-1)
            if _none(running):
                break
            if not self.caches:
                tokens = nn.functional.pad(tokens, (0, 1), value=int(pad)).scatter(1, lengths + number, fed)
        result = torch.cat(made, 1)
        return nn.functional.pad(result, (0, max_new - result.shape[1]), value=int(pad))

    def _cached(self, tokens: Tensor, mask: Tensor, places: Tensor, cache: Any) -> tuple[Tensor, Any]:
        """Return logits (B, 1, V) behind the last of ``tokens``, padded on the left by ``mask``, and a cache with them.

        Padding between tokens would count in a window, a distance or a recurrent state.
        """
        cached: dict[str, Any] = {} if cache is None else {self._cache_key: cache}
        last = torch.full_like(places[:, :1], tokens.shape[1] - 1)
        with _only_at(self.pretrained, last):
            output = self.pretrained(input_ids=tokens, attention_mask=mask, position_ids=places, use_cache=True, **cached)
        return output.logits, output[self._cache_key]

    def _takes_padding(self) -> bool:
        """Return whether a cache gives the logits of complete passes, for texts of two lengths in one batch.

        Raises ConfigError where a logit depends on tokens behind its place, or one of a class on padding.
        """
        if any(one.is_meta for one in self.parameters()):
            return True
        config, (ends, pad) = self.pretrained.config, self._special(())
        if self.classifies and self._pad is None:
            raise ConfigError("model.path", self.path, "its config.json has no pad_token_id, by which classifiers see padding")
        words, special = config.get_text_config().vocab_size, {int(pad), *ends.tolist(), self._pad}
        ids = [token for token in range(words) if token not in special][:: max(1, words // 100)]
        texts = [(ids * 9)[:7], (ids * 9)[7:11]]  # tokens are far apart, and the last one is fed with a cache
        if self.classifies and ends[0] >= 0:
            texts = [[*text[:-1], int(ends[0])] for text in texts]  # some classifiers answer there
        before, behind = (nn.utils.rnn.pad_sequence(list(map(torch.tensor, texts)), True, float(pad), side) for side in SIDES)
        with self._one_type(), torch.no_grad():
            wanted = [self(torch.tensor([text]))[0] for text in texts]
            complete = [logits[: len(one)] for logits, one in zip(self(behind), wanted, strict=True)]
            if not all(bool(logits.isfinite().all()) for logits in wanted):
                return True  # answers are broken, whatever their way
            if not _alike(complete, wanted):
                text = "its logits depend on later tokens: no causal language model (is_decoder in config.json)"
                text = "its classes depend on padding behind a text" if self.classifies else text
                raise ConfigError("model.path", self.path, text)
            if self.classifies:
                return True
            wanted = [logits[-2:] for logits in wanted]
            try:
                mask = torch.tensor([[0] * (7 - len(text)) + [1] * len(text) for text in texts])
                places = mask.cumsum(1).sub(1).clamp(min=0)
                first, cache = self._cached(before[:, :-1], mask[:, :-1], places[:, :-1], None)
                second, _ = self._cached(before[:, -1:], mask, places[:, -1:], cache)
            except Exception as error:  # transformers raises many kinds
                log.info("model.path=%s: no cache: %s: %s", self.path, type(error).__name__, error)
                return False
            return _alike(list(torch.cat([first, second], 1)), wanted)

    @property
    def _pad(self) -> int | None:
        pad: int | None = getattr(self.pretrained.config, "pad_token_id", None)
        return pad

    def _special(self, more: Collection[int]) -> tuple[Tensor, Tensor]:
        """Return the tokens that end an answer, ``more`` among them, and the one that pads it."""
        config = getattr(self.pretrained, "generation_config", self.pretrained.config)  # classifiers have the second alone
        end, pads = getattr(config, "eos_token_id", None), (getattr(config, "pad_token_id", None), self._pad)
        ends = [each for each in (end if isinstance(end, list) else [end]) if each is not None] or [-1]
        pad = next(each for each in (*pads, ends[0]) if each is not None)
        return torch.tensor([*ends, *sorted(more)]), torch.tensor(max(pad, 0))

    @contextmanager
    def _one_type(self) -> Iterator[None]:
        """Give trained parameters the type of frozen ones inside the context.

        Where another function answers for this module, as a pass for many members does, that one converts what it uses: it
        follows each parameter, and a copy of all would cost memory.
        """
        if "forward" in vars(self):
            yield
            return
        floats = [(name in self._trained, one) for name, one in self.named_parameters() if one.is_floating_point()]
        frozen = next((one.dtype for own, one in floats if not own and LATE not in vars(one)), None)
        mixed = [one for own, one in floats if frozen is not None and own and one.dtype != frozen]
        if not mixed:
            yield
            return
        exact = [one.data for one in mixed]
        try:
            for one in mixed:
                one.data = one.data.to(frozen)
            yield
        finally:
            for one, data in zip(mixed, exact, strict=True):
                one.data = data


def _alike(made: list[Tensor], wanted: list[Tensor]) -> bool:
    """Return whether logits are equal but for rounding."""
    share = 1e-3 if wanted[0].dtype.itemsize > 2 else 0.05
    return all(bool((one - other).abs().amax() <= share * other.abs().amax()) for one, other in zip(made, wanted, strict=True))


def _chosen(trainable: str, network: nn.Module) -> Callable[[str], bool]:
    """Return a function of a parameter's name: whether ``trainable`` selects it."""
    if trainable == "all":
        return lambda name: True
    if trainable == LORA:
        return lambda name: name.endswith((".down", ".up"))
    if trainable == NORMS:
        return set(_scales(network)).__contains__
    return lambda name: fnmatchcase(name, trainable)


def _scales(network: nn.Module) -> Iterator[str]:
    """Yield the names of the norms' scales; vectors of other layers, such as a state's decay or sinks of attention, are none."""
    for place, module in network.named_modules():
        if "norm" in type(module).__name__.lower():
            own = (name for name, _ in module.named_parameters(recurse=False) if not name.endswith("bias"))
            yield from (f"{place}.{name}" for name in own)


@contextmanager
def _only_at(pretrained: Any, positions: Tensor | None) -> Iterator[None]:
    """Apply the network's head at ``positions`` (B, K) alone inside the context; None: everywhere."""
    if positions is None:
        yield
        return

    def pick(_: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
        return (given[0].gather(1, positions[..., None].expand(-1, -1, given[0].shape[-1])),)

    hook = pretrained.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        yield
    finally:
        hook.remove()


def _plain(mask: Tensor) -> Tensor:
    """Return a mask whose numbers transformers may read: a zero in it chooses an operation, not the result."""
    with torch._C.DisableTorchFunction():
        return mask.detach()


def _none(running: Tensor) -> bool:
    """Return whether all rows have ended. Only padding would follow, so stopping changes no row."""
    with torch._C.DisableTorchFunction():
        return not bool(running.any())
