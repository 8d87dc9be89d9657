"""Language modelling: each token of a text is predicted from earlier ones.

An example is ``context`` consecutive tokens; its targets are the tokens one place later. A generation's examples begin at
random places of the training text, addressed by (seed, generation). Windows cover the complete test text. A tokenizer that puts
a token before each text has it in place of an example's first token, since pretrained models know no text without it.
"""

import glob
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY, LOSS, LOWER, Metric
from neuro_cli.core.noise import ORDER_STREAM, words_between
from neuro_cli.task.base import Batch, Task
from neuro_cli.task.images import shape_text
from neuro_cli.task.tokens import TOKENS, UNITS, PretrainedVocabulary, Vocabulary, contents_of, digest_of

log = logging.getLogger(__name__)


class Text(Task):
    """Prediction of the next token. Legend: B examples, T = ``context`` tokens, V tokens in the vocabulary.

    ``files``: a text file or several, None for the topics of Python's own help; ``unit``: characters | bytes | tokens of
    the pretrained ``tokenizer``, a folder or a GGUF file; ``test_share``: share of each file, at its end, for the test, in
    (0, 1). ``fitness``: negative_cross_entropy (minus mean nats per token) | accuracy. ``evaluation_batch``: test examples in
    one evaluation chunk.
    """

    metrics = (
        replace(LOSS, unit="nats per token", column=True),
        Metric("bits_per_byte", "bits per byte", ".4f", better=LOWER),
        ACCURACY,
    )

    def __init__(
        self,
        files: str | Sequence[str] | None = None,
        unit: str = "characters",
        context: int = 64,
        test_share: float = 0.1,
        fitness: str = "negative_cross_entropy",
        evaluation_batch: int = 64,
        tokenizer: str | None = None,
    ) -> None:
        self.files = paths_of(files)
        self.unit, self._tokenizer = one_of("task.unit", unit, UNITS), tokenizer
        if unit == TOKENS and tokenizer is None:
            raise ConfigError("task.tokenizer", None, "task.unit=tokens needs one: a folder or a GGUF file")
        self.context = integer("task.context", context, 1)
        self.test_share = number("task.test_share", test_share, above=0.0, high=1.0)
        self.fitness = one_of("task.fitness", fitness, ("negative_cross_entropy", "accuracy"))
        self.evaluation_batch = integer("task.evaluation_batch", evaluation_batch, 1)
        self.vocabulary: Vocabulary | None = None
        self._saved: dict[str, Tensor] = {}  # state of the resumed or evaluated run

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        size = (self.vocabulary or self._vocabulary_of(contents_of(self.files))).size
        return {"input_shape": [self.context], "inputs": self.context, "outputs": size}

    def _vocabulary_of(self, texts: Mapping[str, bytes]) -> Vocabulary:
        if self.unit != TOKENS:
            return Vocabulary.of(texts, self.unit)
        from neuro_cli.language.pretrained import load_tokenizer  # late: transformers takes seconds

        return PretrainedVocabulary(load_tokenizer(str(self._tokenizer)))

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        if input_shape is not None and (len(input_shape) != 1 or input_shape[0] < self.context):
            raise UserError(
                f"model expects {shape_text(tuple(input_shape))}, task=text gives {self.context} tokens (task.context)"
            )
        texts = contents_of(self.files)
        self.vocabulary = self.vocabulary or self._vocabulary_of(texts)
        self._digest = digest_of(texts.values())
        self._compare(resumes=False)
        parts = [self.vocabulary.encode(*named) for named in texts.items()]
        ends = [len(part) - round(self.test_share * len(part)) for part in parts]
        self._train = self._long_enough("training", [part[:end] for part, end in zip(parts, ends, strict=True)]).to(device)
        self._test = self._long_enough("test", [part[end:] for part, end in zip(parts, ends, strict=True)]).to(device)
        self._widths = self.vocabulary.widths().to(device)
        self.input_shape, self.output_size = (self.context,), self.vocabulary.size
        self.batch_size, self._seed = integer("batch_size", batch_size, 1), seed
        self._start = torch.tensor([*self.vocabulary.start], dtype=torch.int64, device=device)
        self._within = torch.arange(self.context + 1, device=device)
        # the last window ends with the text and overlaps the one before; only its new tokens count
        last = len(self._test) - self.context - 1
        self._windows = torch.tensor([*range(0, last, self.context), last], dtype=torch.int64, device=device)
        self._counted = len(self._test) - 1 - self.context * (len(self._windows) - 1)
        self.evaluation_chunks = -(-len(self._windows) // self.evaluation_batch)

    def _long_enough(self, part: str, pieces: list[Tensor]) -> Tensor:
        tokens = torch.cat(pieces)
        if len(tokens) <= self.context:
            allowed = f"the {part} text has {len(tokens)} tokens, and an example needs one more than its context"
            raise ConfigError("task.context", self.context, allowed)
        return tokens

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        words = words_between(self._seed, generation, ORDER_STREAM, 2 * start, 2 * stop).astype(np.uint64)
        places = ((words[::2] << np.uint64(32)) | words[1::2]) % np.uint64(len(self._train) - self.context)
        return self._examples(self._train, torch.from_numpy(places.astype(np.int64)).to(self._train.device))

    def _examples(self, text: Tensor, places: Tensor) -> Batch:
        """Return examples that begin at ``places`` (B,): inputs and targets (B, T) int64."""
        tokens = text[places[:, None] + self._within].long()
        inputs = tokens[:, :-1]
        if len(self._start):
            inputs = torch.cat([self._start.expand(len(tokens), -1), inputs[:, 1:]], 1)
        return Batch(inputs, tokens[:, 1:])

    def _logits(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return logits (B, T, V) float32; V may exceed the vocabulary, by tokens that never occur."""
        logits = module(batch.inputs)
        shape = tuple(getattr(logits, "shape", ()))
        given = tuple(batch.inputs.shape)  # more than the targets by the second and later tokens before each text
        if len(shape) != 3 or shape[:2] != given or shape[2] < self.output_size:
            raise UserError(
                f"model: its output for {shape_text(given)} tokens is "
                f"{shape_text(shape) or type(logits).__name__}, task=text needs {shape_text((*given, self.output_size))} logits"
            )
        return logits[:, -batch.targets.shape[1] :].float()

    def _outcomes(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return 1 or 0 for right or wrong, and the cross-entropy in nats, of every token, (B, T) each."""
        return self._judged(self._logits(module, batch), batch)

    def _judged(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what :meth:`_outcomes` returns, of ``logits`` (B, T, V)."""
        loss = self._losses(logits, batch)
        return ((logits.argmax(-1) == batch.targets) & ~loss.isnan()).float(), loss

    def _losses(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return cross-entropies (B, T) in nats."""
        return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none").view(batch.targets.shape)

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("fitness", "loss") if self.fitness == "accuracy" else ("fitness",)

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, len(self.score_names), dtype=torch.float32)
        return self.rewards(module, batch).sum(1)

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return scores (B, T, C) of every token: a T-th of its own, so that their sum is the example's score."""
        with torch.no_grad():
            if self.fitness == "accuracy":
                return torch.stack(self._outcomes(module, batch), -1) / self.context
            return -self._losses(self._logits(module, batch), batch)[..., None] / self.context

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(module, batch).flatten(0, 1), batch.targets.flatten())

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return sums (4,): nats, right tokens, tokens, their bytes in UTF-8."""
        assert 0 <= chunk < self.evaluation_chunks
        first = chunk * self.evaluation_batch
        places = self._windows[first : first + self.evaluation_batch]
        batch = self._examples(self._test, places)
        counts = torch.ones_like(batch.targets, dtype=torch.float64)
        if first + len(places) == len(self._windows):
            counts[-1, : self.context - self._counted] = 0
        with torch.no_grad():
            logits = self._logits(module, batch)
            # example by example: further tensors of the logits' size would double the memory of a large vocabulary
            parts = [
                self._judged(some, Batch(*pair))
                for some, *pair in zip(logits.split(1), batch.inputs.split(1), batch.targets.split(1), strict=True)
            ]
            right, loss = (torch.cat(columns) for columns in zip(*parts, strict=True))
        columns = (loss, right, torch.ones_like(loss), self._widths[batch.targets])
        return np.array([(column.double() * counts).sum().item() for column in columns])

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        nats, right, tokens, width = map(float, sums)
        return {LOSS.name: nats / tokens, "bits_per_byte": nats / np.log(2) / width, ACCURACY.name: right / tokens}

    def state(self) -> dict[str, Tensor]:
        """Return the text's digest and the vocabulary's code points: another file must not change what token numbers mean."""
        characters = None if self.vocabulary is None else self.vocabulary.characters
        points = {} if characters is None else {"vocabulary": torch.tensor(list(map(ord, characters)), dtype=torch.int32)}
        return {"text_sha256": self._digest, **points}

    def restore(self, state: dict[str, Tensor]) -> None:
        if "text_sha256" not in state:
            return
        loaded, self._saved = self.vocabulary is not None, state
        points = state.get("vocabulary")
        if self.unit != TOKENS:
            self.vocabulary = Vocabulary(None if points is None else "".join(map(chr, points.tolist())))
        elif not loaded:
            self.vocabulary = self._vocabulary_of({})
        if loaded:
            self._compare(resumes=True)

    def _compare(self, resumes: bool) -> None:
        """Raise UserError if the text differs from the saved run's; only an evaluation may use other files."""
        if not self._saved or torch.equal(self._saved["text_sha256"].cpu(), self._digest):
            return
        if self.files is None:
            raise ConfigError(
                "task.files", "null", "this Python's help text differs from the run's; give the run's text by task.files=FILE"
            )
        if resumes:
            files = str(self.files[0]) if len(self.files) == 1 else f"[{','.join(map(str, self.files))}]"
            raise ConfigError("task.files", files, "the text differs from the run's; resume keeps it")
        log.info("the text differs from the run's")

    def deployed(self, module: nn.Module) -> nn.Module:
        """Return ``module`` with a ``vocabulary``, which turns text into inputs and outputs into text."""
        assert self.vocabulary is not None
        module.__dict__["vocabulary"] = self.vocabulary
        return module


def paths_of(files: Any, key: str = "task.files") -> list[Path] | None:
    """Return the text files that ``key`` names. Raises ConfigError."""
    if files is None:
        return None
    names = [files] if isinstance(files, str) else files
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(key, files, "must be a text file, a list of them, a pattern (texts/*.txt), or null")
    return [file for name in names for file in _matching(name)]


def _matching(name: str) -> list[Path]:
    """Return the files of a name, or of a pattern such as ``texts/*.txt``, in their order."""
    path = Path(name).expanduser()
    matches = [] if path.exists() or not set("*?[") & set(name) else sorted(glob.glob(str(path)))
    return [Path(each) for each in matches] or [path]
