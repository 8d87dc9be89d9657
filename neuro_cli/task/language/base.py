"""Base of tasks with prompts and answers: problems, tokenizer, test set, and a general text that measures forgetting."""

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import boolean, integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import LOWER, Metric
from neuro_cli.core.module.voters import voters_of
from neuro_cli.task.base import Task
from neuro_cli.task.example_order import ExampleStream
from neuro_cli.task.inputs import Inputs
from neuro_cli.task.language.generation import logits_at
from neuro_cli.task.language.problems import Problem, Source, digest_of, split
from neuro_cli.task.text import paths_of
from neuro_cli.task.tokens import PretrainedVocabulary, Vocabulary, contents_of

log = logging.getLogger(__name__)

GENERAL = Metric("general_loss", "loss on the general text", ".4f", "nats per token", LOWER)
AUTO = "auto"  # end of answers: a line's, and with a chat template the tokenizer's
LINE = "\n"  # separates solved problems that end in nothing else
WINDOW = 64  # tokens of the general text that are predicted together
LETTERS = 8  # letters of the general text that are read for each token; tokens are shorter


class LanguageTask(Task):
    """Task of prompts with answers. Legend: N problems, B examples, T tokens of the longest, A of the longest answer.

    ``problems``: a generator (:mod:`neuro_cli.task.language.generated`), or a file; ``count``, ``size``, ``data_seed``,
    ``fields``: of :class:`Source`. ``test``: a file of test problems; None: ``test_size`` of the problems. ``tokenizer``: a
    folder or a GGUF file; None: one token for each character of the problems. ``context``: most tokens of an example; None: as
    many as the longest has. ``shots``: solved problems before each prompt; ``chat``: prompts as messages of the user; ``end``:
    text after each answer, None for the tokenizer's end, auto for that with ``chat`` and else for the end of a line.
    ``general``: text files, help or None; the loss on their first ``general_tokens`` tokens measures what is forgotten.
    """

    name: str

    def __init__(
        self,
        problems: str,
        count: int | None,
        size: int | None,
        data_seed: int,
        fields: Mapping[str, str] | None,
        test: str | None,
        test_size: int,
        tokenizer: str | None,
        context: int | None,
        shots: int,
        chat: bool,
        end: str | None,
        general: str | Sequence[str] | None,
        general_tokens: int,
        evaluation_batch: int,
    ) -> None:
        self._source = Source(problems, count, size, integer("task.data_seed", data_seed, 0), fields)
        if count is not None:
            integer("task.count", count, 2)
        self._test_file, self._test_size = test, integer("task.test_size", test_size, 1)
        self._tokenizer_path, self._shots = tokenizer, integer("task.shots", shots, 0)
        self.context = None if context is None else integer("task.context", context, 2)
        self._chat = boolean("task.chat", chat)
        self._end = (None if self._chat else LINE) if end == AUTO else end
        self._general, self._general_tokens = general, integer("task.general_tokens", general_tokens, WINDOW)
        self.evaluation_batch = integer("task.evaluation_batch", evaluation_batch, 1)
        self._coded_texts: dict[Problem, tuple[list[int], list[list[int]]]] = {}
        self._parts: tuple[list[Problem], list[Problem]] | None = None
        self._saved: dict[str, Tensor] = {}  # state of the resumed or evaluated run
        self._digest: Tensor | None = None  # SHA-256 of the problems, None until they are loaded
        self.tokens: Vocabulary | None = None

    def _read(self) -> tuple[list[Problem], list[Problem]]:
        """Return training and test problems. Raises ConfigError."""
        if self._parts is None:
            training, test = self._split()
            shown, training = training[: self._shots], training[self._shots :]
            if not training:
                raise ConfigError("task.shots", self._shots, "leaves no training problem")
            self.tokens = self.tokens or self._make_tokenizer([*shown, *training, *test])
            self._solved = shown
            self._parts = training, test
        return self._parts

    def _split(self) -> tuple[list[Problem], list[Problem]]:
        problems = self._source.read()
        if self._test_file is None:
            return split(problems, self._test_size)
        return problems, Source(self._test_file, fields=self._source.fields).read("task.test")

    def _asked(self, problem: Problem) -> tuple[list[int], list[list[int]]]:
        """Return the tokens of a prompt, and those of the answer or of each choice behind it, with their end.

        Those before each prompt are :attr:`_shown`; with a chat template solved problems are part of the prompt.
        """
        if problem not in self._coded_texts:
            assert self.tokens is not None
            last = [self.tokens.end] if self._end is None and self.tokens.end is not None else []
            prompt, answers = self.tokens.joined(
                self._prompt(problem), [text + (self._end or "") for text in problem.choices or (problem.answer,)]
            )
            self._coded_texts[problem] = prompt, [answer + last for answer in answers]
        return self._coded_texts[problem]

    def _prompt(self, problem: Problem) -> str:
        """Return the text that an answer follows, without solved problems unless they are turns of a chat."""
        assert self.tokens is not None
        turns = [(each.prompt, each.answer) for each in self._solved]
        return self.tokens.chat(problem.prompt, turns) if self._chat else problem.prompt

    @cached_property
    def _shown(self) -> list[int]:
        """Tokens before each prompt: those with which a text begins, and solved problems. A chat template has both."""
        assert self.tokens is not None
        if self._chat:
            return []
        before = "".join(f"{each.prompt}{each.answer}{self._end or LINE}" for each in self._solved)
        return [*self.tokens.start, *(self.tokens.numbers(before) if before else [])]

    def _make_tokenizer(self, problems: Sequence[Problem]) -> Vocabulary:
        if self._tokenizer_path is not None:
            from neuro_cli.language.pretrained import load_tokenizer  # imported here, as transformers takes seconds

            return PretrainedVocabulary(load_tokenizer(self._tokenizer_path))
        texts = {text for each in problems for text in (each.prompt, each.answer, *each.choices)}
        complete = "".join([*sorted(texts), self._general_text(), self._end or ""])
        return Vocabulary.of({"": complete.encode()}, "characters")

    def _general_text(self) -> str:
        """Return the first part of the general text, long enough for its tokens. Raises ConfigError."""
        if self._general is None:
            return ""
        texts = contents_of(None if self._general == "help" else paths_of(self._general, "task.general"), "task.general")
        text = "\n".join(part.decode(errors="replace") for part in texts.values())
        return text[: LETTERS * self._general_tokens]

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        longest = self._longest([*self._read()[0], *self._read()[1]])
        assert self.tokens is not None
        return {"input_shape": [longest], "inputs": longest, "context": longest, "outputs": self.tokens.size}

    def _longest(self, problems: Sequence[Problem]) -> int:
        """Return the most tokens of an example of ``problems``."""
        coded = map(self._asked, problems)
        return len(self._shown) + max(len(prompt) + max(map(len, answers)) for prompt, answers in coded)

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        training, test = self._read()
        assert self.tokens is not None
        self._digest = digest_of([*training, *test])
        self._compare()
        longest = self._longest([*training, *test])
        if self.context is not None and longest > self.context:
            raise ConfigError("task.context", self.context, f"the longest example has {longest} tokens")
        if input_shape is not None and (len(input_shape) != 1 or input_shape[0] < longest):
            raise UserError(f"model expects {'x'.join(map(str, input_shape))} tokens, task={self.name} gives up to {longest}")
        self.input_shape, self.output_size = (longest,), self.tokens.size
        self.batch_size, self._seed = integer("batch_size", batch_size, 1), seed
        self._device = device
        self._stream = ExampleStream(seed, len(training), device)
        self._training, self._test = training, test
        self._chunks = -(-len(test) // self.evaluation_batch)
        self._windows = self._general_windows(device)
        self.evaluation_chunks = self._chunks + -(-len(self._windows) // self.evaluation_batch)

    def _general_windows(self, device: torch.device) -> Tensor:
        """Return the general text as windows (n, WINDOW + 1) int64."""
        if self._general is None:
            return torch.zeros(0, WINDOW + 1, dtype=torch.int64, device=device)
        assert self.tokens is not None
        tokens = self.tokens.numbers(self._general_text())[: self._general_tokens + 1]
        count = (len(tokens) - 1) // WINDOW
        if count < 1:
            raise ConfigError("task.general", self._general, f"it has {len(tokens)} tokens, more than {WINDOW} are needed")
        return torch.tensor([tokens[k * WINDOW : (k + 1) * WINDOW + 1] for k in range(count)], device=device)

    def general_sums(self, module: nn.Module, chunk: int) -> tuple[float, int]:
        """Return the nats, the mean over voters, and the number of predicted tokens of a chunk of the general text."""
        first = (chunk - self._chunks) * self.evaluation_batch
        windows = self._windows[first : first + self.evaluation_batch]
        assert self.tokens is not None
        begun = windows.new_tensor(self.tokens.start).expand(len(windows), -1)
        places = begun.shape[1] + torch.arange(WINDOW, device=windows.device).expand(len(windows), -1)
        sums = list[float]()
        with torch.no_grad():
            for voter in voters_of(module):
                logits = logits_at(voter, torch.cat([begun, windows[:, :-1]], 1), places, self.output_size).float()
                nats = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten(), reduction="none")
                sums.append(nats.double().sum().item())
        return sum(sums) / len(sums), windows[:, 1:].numel()

    @property
    def general_metrics(self) -> tuple[Metric, ...]:
        """Metrics of the general text."""
        return () if self._general is None else (GENERAL,)

    def inputs(self) -> Inputs:
        return Inputs((self.input_shape[0],), "int64")

    def state(self) -> dict[str, Tensor]:
        """Return the problems' digest, and the vocabulary's code points, as other problems would number tokens differently."""
        assert self._digest is not None
        characters = None if self.tokens is None else self.tokens.characters
        points = {} if characters is None else {"vocabulary": torch.tensor(list(map(ord, characters)))}
        return {"problems_sha256": self._digest, **points}

    def restore(self, state: dict[str, Tensor]) -> None:
        if "problems_sha256" not in state:
            return
        loaded, self._saved = self._digest is not None, state
        if "vocabulary" in state and not loaded:
            self.tokens = Vocabulary("".join(map(chr, state["vocabulary"].tolist())))
        elif self.tokens is None and self._tokenizer_path is not None:
            self.tokens = self._make_tokenizer([])  # a module is loaded without the problems
        if loaded:
            self._compare(resumes=True)

    def _compare(self, resumes: bool = False) -> None:
        """Raise ConfigError if the problems differ from those of the resumed run; an evaluation may use others."""
        assert self._digest is not None
        if not self._saved or torch.equal(self._saved["problems_sha256"].cpu(), self._digest):
            return
        if resumes:
            raise ConfigError("task.problems", self._source.name, "the problems differ from the run's; resume needs the same")
        log.info("the problems differ from the run's")

    def deployed(self, module: nn.Module) -> nn.Module:
        """Return ``module`` with its tokenizer, which turns text into inputs and outputs into text."""
        if isinstance(self.tokens, PretrainedVocabulary):
            module.__dict__["tokenizer"] = self.tokens.tokenizer
        else:
            module.__dict__["vocabulary"] = self.tokens
        return module

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return the sums of :meth:`problem_sums`, then nats and tokens of the general text."""
        assert 0 <= chunk < self.evaluation_chunks
        if chunk >= self._chunks:
            return np.array([*[0.0] * self.columns, *self.general_sums(module, chunk)])
        first = chunk * self.evaluation_batch
        rows = torch.arange(first, min(first + self.evaluation_batch, len(self._test)), device=self._device)
        return np.array([*self.problem_sums(module, rows), 0.0, 0.0])

    columns: int  # number of sums of problem_sums

    @abstractmethod
    def problem_sums(self, module: nn.Module, rows: Tensor) -> Sequence[float]:
        """Return sums over test problems ``rows`` (n,) for :meth:`summarise`; the last one is their number."""

    def general_values(self, sums: np.ndarray) -> dict[str, float]:
        """Return the metrics of the general text, from the last two sums."""
        return {} if self._general is None else {GENERAL.name: float(sums[-2] / sums[-1])}
