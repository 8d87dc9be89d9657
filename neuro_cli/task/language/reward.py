"""Prompts whose answers a reward scores; the reward needs no gradient.

A reward of the wanted tokens needs one pass over prompt and answer (teacher forcing): greedy generation gives the wanted answer
if and only if each of its tokens is the likeliest after those before it. Any other reward is a Python function of the answer's
text, which the model generates token by token.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY, FRACTION, LOSS, Metric
from neuro_cli.core.module.voters import Voters, most_frequent
from neuro_cli.task.base import Batch
from neuro_cli.task.language.base import AUTO, LanguageTask
from neuro_cli.task.language.generation import BROKEN, Choose, Sampled, generated, greedy, judged, logits_at, padded, read
from neuro_cli.task.language.problems import Problem
from neuro_cli.task.language.reward_functions import REWARDS
from neuro_cli.task.language.reward_pool import RewardPool
from neuro_cli.task.tokens import PretrainedVocabulary

log = logging.getLogger(__name__)

# rewards of the wanted tokens, which take one pass
FORCED = ("share_of_tokens", "prefix_of_tokens", "exact_match", "log_likelihood")
JUDGED = 32  # generated answers that are judged by whether they end
SOLVED = 1.0  # least reward of an answer that counts as right
REWARD = Metric("test_reward", "test reward", ".4f")
PASSED = Metric("pass_at_k", "right in one of k samples", ".4f", FRACTION)
VOTED = Metric("majority_vote", "most frequent of k samples right", ".4f", FRACTION)


class _Coded(NamedTuple):
    """Tokens of a problem."""

    prompt: list[int]
    answer: list[int]


class _Row(NamedTuple):
    """Tokens of an example: the ``number`` of its first problem, ``places`` that answers follow, and the answers."""

    number: int
    tokens: list[int]
    places: list[int]
    answers: list[list[int]]


class Reward(LanguageTask):
    """Task of prompts with rewarded answers; see :class:`LanguageTask` for the problems.

    ``reward``: share_of_tokens | prefix_of_tokens (share before the first wrong one) | exact_match | log_likelihood (mean nats
    per token) of the wanted answer's tokens; contains | pattern | program | expression, or package.module.function, of the
    generated text (:mod:`neuro_cli.task.language.reward_functions`), called with ``reward_options`` and for at most
    ``reward_seconds``; a call that fails gives ``reward_failed``. ``new_tokens``: most tokens of a generated answer.
    ``together``: training problems in one row, with right answers, so that earlier ones are the shots of later ones.
    ``samples`` k > 0: adds the metrics pass@k and majority vote of k answers sampled at ``temperature``.
    """

    name = "reward"
    functions: ClassVar[Mapping[str, int]] = {"reward": 0}  # a dotted name alone
    starts = {"reward": "program"}  # noqa: RUF012  # runs reward_options.command
    votes = True
    own_noise = True  # a reward that times out once may not do so again

    def __init__(
        self,
        problems: str = "additions",
        reward: str = "share_of_tokens",
        count: int | None = None,
        size: int | None = None,
        data_seed: int = 0,
        fields: Mapping[str, str] | None = None,
        test: str | None = None,
        test_size: int = 500,
        tokenizer: str | None = None,
        context: int | None = None,
        shots: int = 0,
        chat: bool = False,
        end: str | None = AUTO,
        reward_options: Mapping[str, Any] | None = None,
        reward_seconds: float = 10.0,
        reward_failed: float = 0.0,
        new_tokens: int = 32,
        together: int = 1,
        samples: int = 0,
        temperature: float = 1.0,
        general: str | Sequence[str] | None = None,
        general_tokens: int = 1024,
        evaluation_batch: int = 64,
    ) -> None:
        super().__init__(
            problems, count, size, data_seed, fields, test, test_size, tokenizer, context, shots, chat, end, general,
            general_tokens, evaluation_batch,
        )  # fmt: skip
        if not isinstance(reward, str) or (reward not in (*FORCED, *REWARDS) and "." not in reward):
            allowed = f"must be {', '.join((*FORCED, *REWARDS))}, or package.module.function"
            raise ConfigError("task.reward", reward, allowed)
        self.reward, self.forced = reward, reward in FORCED
        self.has_loss = self.forced
        self._options = dict(reward_options or {})
        self._seconds = number("task.reward_seconds", reward_seconds, above=0.0)
        self._failed = number("task.reward_failed", reward_failed)
        self._steps = integer("task.new_tokens", new_tokens, 1)
        self._together = integer("task.together", together, 1)
        if self._together > 1 and (chat or not self.forced):
            raise ConfigError("task.together", together, f"needs task.chat=false and a reward of {', '.join(FORCED)}")
        self._samples = integer("task.samples", samples, 0)
        self._temperature = number("task.temperature", temperature, above=0.0)
        self._pool: RewardPool | None = None
        self._said, self._made, self._cut = False, 0, 0  # whether answers were judged by their ends, and so many of them

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("fitness", "loss") if self.forced else ("fitness", "failed")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        loss = (replace(LOSS, unit="nats per token", column=True),) if self.forced else ()
        return (ACCURACY, REWARD, *loss, *((PASSED, VOTED) if self._samples else ()), *self.general_metrics)

    def refuse(self, *, layout: str, precision: str, gradient: bool) -> None:
        if gradient and not self.forced:
            raise ConfigError("task.reward", self.reward, f"has no gradient; algo=sgd learns from {', '.join(FORCED)}")

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        super().load(input_shape=input_shape, device=device, seed=seed, batch_size=batch_size)
        assert self.tokens is not None
        self._pad = 0 if self.tokens.end is None else self.tokens.end
        self._coded = self._encoded(self._training, [] if self._together > 1 else None)
        self._coded_test = self._encoded(self._test, None)
        self._ends, self._stops = self._end_tokens()
        if not self.forced and self._pool is None:
            first = self._training[0]
            trial = (first.prompt, first.answer, first.answer)
            self._pool = RewardPool(self.reward, self._options, self._seconds, self._failed, trial)

    def _longest(self, problems: Sequence[Problem]) -> int:
        longest = super()._longest(problems)
        if self._together > 1:
            return self._together * (longest - len(self._shown)) + len(self._shown)
        if self.forced and not self._samples:
            return longest
        return max(longest, len(self._shown) + max(len(self._opened(each)) for each in problems) + self._steps)

    def _opened(self, problem: Problem) -> list[int]:
        """Return the tokens of a prompt behind which an answer is generated."""
        assert self.tokens is not None
        return self.tokens.opened(self._prompt(problem))[0]

    def _end_tokens(self) -> tuple[set[int], set[int]]:
        """Return the tokens that end a generated answer, and all behind which no answer continues: they may contain the end."""
        assert self.tokens is not None
        mine = self.tokens.numbers(self._end) if self._end else []
        last = set() if self.tokens.end is None else {self.tokens.end}
        return {*(mine if len(mine) == 1 else []), *last}, {*(self.tokens.with_text(self._end) if self._end else []), *last}

    def _encoded(self, problems: Sequence[Problem], before: list[int] | None) -> list[_Coded]:
        """Return tokens of prompts and answers; ``before``: tokens before each prompt, None for the shots.

        Raises ConfigError for a prompt or an answer without a token.
        """
        coded = []
        for each in problems:
            prompt, (answer, *_) = self._asked(each)
            prompt = prompt if self.forced else self._opened(each)
            coded.append(_Coded((self._shown if before is None else before) + prompt, answer))
            if not all(coded[-1]):
                raise ConfigError("task.problems", self._source.name, f"prompt or answer of {each.prompt[:60]!r} has no token")
        return coded

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        # all rows of a generation have one width: products of another width may round differently
        low, high = (0, self.batch_size) if stop <= self.batch_size else (start, stop)
        k, first = self._together, generation * self.batch_size
        numbers = self._stream.examples((first + low) * k, (first + high) * k)
        rows = [self._row(some, self._coded) for some in numbers.view(-1, k).tolist()]
        return self._batch(rows, range(start - low, stop - low))

    def _row(self, numbers: Sequence[int], coded: Sequence[_Coded]) -> _Row:
        """Return a row of problems, one after the other."""
        shown = self._shown if self._together > 1 and coded is self._coded else []
        row = _Row(numbers[0], [*shown], [], [])
        for prompt, answer in (coded[each] for each in numbers):
            row.tokens.extend(prompt)
            row.places.append(len(row.tokens) - 1)
            row.answers.append(answer)
            if self.forced:
                row.tokens.extend(answer)
        return row

    def _batch(self, rows: Sequence[_Row], chosen: range) -> Batch:
        """Return ``chosen`` rows, padded to the widest of all: inputs (B, T), and targets (B, G, 2 + A) of G problems a row.

        Targets are the number of the row's first problem, the place that an answer follows, and its tokens with -1 behind.
        """
        # the last token of an answer is predicted, and never read
        width = max(len(row.tokens) for row in rows) - self.forced
        most = max(len(answer) for row in rows for answer in row.answers)
        some = [rows[place] for place in chosen]
        inputs = padded([row.tokens[:width] for row in some], self._pad, width)
        answers = padded([answer for row in some for answer in row.answers], -1, most)
        places = torch.tensor([[row.number, place] for row in some for place in row.places]).view(-1, 2)
        targets = torch.cat([places, answers], 1).view(len(some), -1, 2 + most)
        return Batch(inputs.to(self._device), targets.to(self._device))

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, len(self.score_names), dtype=torch.float32)
        with torch.no_grad():
            if self.forced:
                right, nats, counted = self._forced(module, batch)
                return torch.stack([self._fitness(right, nats, counted), _mean(nats, counted)], 1)
            rewards = self._rewarded(self._answers(module, batch, greedy), read(batch.targets[:, 0, 0]), self._training)
            return torch.tensor(rewards, dtype=torch.float32, device=batch.targets.device)

    def _forced(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return (B, G, A) each for tokens of answers: 1 if right, else 0; nats; 1 if counted, else 0."""
        wanted = batch.targets[:, :, 2:]
        n, width = batch.inputs.shape
        places = batch.targets[:n, :, 1:2] + torch.arange(wanted.shape[2], device=wanted.device)
        logits = logits_at(module, batch.inputs, places.clamp(max=width - 1).flatten(1), self.output_size)
        counted, known = (wanted >= 0).float(), wanted.clamp(min=0)
        nats, likeliest = (each.view(wanted.shape) for each in judged(logits, known.flatten(1)))
        # an argmax of NaN logits could be right by accident
        right = ((likeliest == known) & ~nats.isnan()).float()
        return right * counted, nats * counted, counted

    def _fitness(self, right: Tensor, nats: Tensor, counted: Tensor) -> Tensor:
        """Return the rewards (B,) of rows of answers."""
        if self.reward == "log_likelihood":
            return -_mean(nats, counted)
        if self.reward == "exact_match":
            return _exact(right, counted)
        return _mean(right.cumprod(2) if self.reward == "prefix_of_tokens" else right, counted)

    def _answers(self, module: nn.Module, batch: Batch, choose: Choose, steps: int | None = None) -> list[str | None]:
        """Return the texts that ``module`` generates, one for each target, of at most ``steps`` tokens.

        None where its logits are not numbers.
        """
        tokens, lengths = batch.inputs, batch.targets[:, 0, 1] + 1
        if len(tokens) != len(lengths):  # sides of pairs share their prompts, not their answers
            tokens = torch.cat([tokens] * (len(lengths) // len(tokens)))
        assert self.tokens is not None
        made = generated(module, tokens, lengths, steps or self._steps, choose, self._stops, self.output_size)
        rows = read(made)
        if not self._said and isinstance(self.tokens, PretrainedVocabulary) and not self.forced:
            self._warn_of_cut(rows)
        return [None if BROKEN in row else self._text(row) for row in rows]

    def _warn_of_cut(self, rows: list[list[int]]) -> None:
        """Warn once where most of the first generated answers have no end."""
        self._made += len(rows)
        self._cut += sum(self._stops.isdisjoint(row) for row in rows)
        if self._made >= JUDGED:
            self._said = True
            if 2 * self._cut > self._made:
                told = "which have no end by then: raise it, or show how to answer (task.shots)"
                log.warning("task.new_tokens=%d cuts %d of %d answers, %s", self._steps, self._cut, self._made, told)

    def _text(self, row: list[int]) -> str:
        """Return the text of generated tokens up to its end."""
        assert self.tokens is not None
        end = next((place for place, token in enumerate(row) if token in self._ends), len(row))
        text = self.tokens.decode(row[:end], special=False)
        return text.split(self._end)[0] if self._end else text

    def _rewarded(self, texts: Sequence[str | None], numbers: list[int], problems: Sequence[Any]) -> list[tuple[float, float]]:
        """Return the reward of each text, and 1 where its call failed or there is no text, else 0."""
        assert self._pool is not None
        assert self.tokens is not None
        left = [self.tokens.opened(self._prompt(problems[k]))[1] for k in numbers]
        asked = [
            (problems[k].prompt, None if text is None else text.removeprefix(space), problems[k].answer)
            for text, k, space in zip(texts, numbers, left, strict=True)
        ]
        return [(reward, float(failed)) for reward, failed in self._pool.rewards(asked)]

    def measures(self, means: np.ndarray, members: int, seconds: float) -> dict[str, float]:
        return {} if self.forced else {"reward_failed": float(means[1])}

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        _, nats, counted = self._forced(module, batch)
        return _mean(nats, counted).mean()

    columns = 6

    def problem_sums(self, module: nn.Module, rows: Tensor) -> Sequence[float]:
        """Return sums over test problems: solved, reward, nats per token, passed, voted, and their number."""
        numbers = rows.tolist()
        batch = self._batch([self._row([number], self._coded_test) for number in numbers], range(len(numbers)))
        with torch.no_grad():
            if isinstance(module, Voters):
                solved, reward, loss = self._voted(module, batch, numbers)
            elif self.forced:
                right, nats, counted = self._forced(module, batch)
                columns = [_exact(right, counted), self._fitness(right, nats, counted), _mean(nats, counted)]
                solved, reward, loss = (column.double().sum().item() for column in columns)
            else:
                rewards = [each for each, _ in self._rewarded(self._answers(module, batch, greedy), numbers, self._test)]
                solved, reward, loss = float(sum(each >= SOLVED for each in rewards)), float(sum(rewards)), 0.0
            samples = self._samples and not isinstance(module, Voters)
            passed, voted = self._sampled(module, batch, numbers) if samples else (0.0, 0.0)
        return solved, reward, loss, passed, voted, float(len(numbers))

    def _voted(self, voters: Voters, batch: Batch, numbers: list[int]) -> tuple[float, float, float]:
        """Return sums over problems by the most frequent greedy answer of the voters: solved, reward, their mean nats per token.

        Rewards of the wanted tokens are those of an exact match.
        """
        wanted = batch.targets[:, 0, 2:]
        prompts = Batch(batch.inputs[:, : int(batch.targets[:, 0, 1].max()) + 1], batch.targets)
        answers, losses = list[list[str | None]](), [0.0]
        for voter in voters.each():
            answers.append(self._answers(voter, prompts, greedy, wanted.shape[1] if self.forced else None))
            if self.forced:
                _, nats, counted = self._forced(voter, batch)
                losses.append(_mean(nats, counted).double().sum().item())
        texts = [most_frequent([of_voter[row] for of_voter in answers]) for row in range(len(numbers))]
        if self.forced:
            right = float(sum(self._right(text, number) for text, number in zip(texts, numbers, strict=True)))
            return right, right, sum(losses) / len(answers)
        rewards = [each for each, _ in self._rewarded(texts, numbers, self._test)]
        return float(sum(each >= SOLVED for each in rewards)), float(sum(rewards)), 0.0

    def _sampled(self, module: nn.Module, batch: Batch, numbers: list[int]) -> tuple[float, float]:
        """Return the number of problems solved by one of k sampled answers, and by the most frequent of them."""
        prompts = Batch(batch.inputs[:, : int(batch.targets[:, 0, 1].max()) + 1], batch.targets)
        samples = [
            self._answers(module, prompts, Sampled(self._seed, numbers, k, self._temperature, self._steps))
            for k in range(self._samples)
        ]
        passed = voted = 0.0
        for row, problem in enumerate(numbers):
            answers = [texts[row] for texts in samples]
            right = {text: self._right(text, problem) for text in dict.fromkeys(answers)}
            passed += any(right.values())
            voted += right[Counter(answers).most_common(1)[0][0]]  # the first one of equally frequent answers
        return passed, voted

    def _right(self, text: str | None, problem: int) -> bool:
        if text is None:
            return False
        if self.forced:
            return text.strip() == self._test[problem].answer.strip()
        return self._rewarded([text], [problem], self._test)[0][0] >= SOLVED

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        solved, reward, loss, passed, voted, count = map(float, sums[:6])
        if not count:
            raise UserError("task=reward: no test problem")
        values = {ACCURACY.name: solved / count, REWARD.name: reward / count}
        values |= {LOSS.name: loss / count} if self.forced else {}
        values |= {PASSED.name: passed / count, VOTED.name: voted / count} if self._samples else {}
        return values | self.general_values(sums)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    """Return the mean (B,) over a row's answers of the means over their tokens."""
    return (values.sum(2) / counted.sum(2)).mean(1)


def _exact(right: Tensor, counted: Tensor) -> Tensor:
    """Return the share (B,) of a row's answers that are right."""
    return (right.sum(2) == counted.sum(2)).float().mean(1)
