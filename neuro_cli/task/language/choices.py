"""Questions with texts to choose from: a language model chooses the likeliest one after the prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import boolean, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.metric import ACCURACY, LOSS, Metric
from neuro_cli.task.base import Batch
from neuro_cli.task.language.base import LanguageTask
from neuro_cli.task.language.generation import logits_at, padded
from neuro_cli.task.language.problems import Problem

MARGIN = Metric("test_margin", "test margin", ".4f", "nats")
FITNESSES = ("margin", "accuracy", "negative_cross_entropy")


class Choices(LanguageTask):
    """Task of choices. Legend: K choices of a problem; S passes for it, 1 if every choice is one token, else K.

    ``fitness``: margin (log-likelihood of the right choice less that of the best other) | accuracy | negative_cross_entropy (of
    the right choice among all). ``by_token``: log-likelihoods are means over a choice's tokens, not sums. Others:
    :class:`LanguageTask`.
    """

    name = "choices"
    hands_batch = False
    columns = 4

    def __init__(
        self,
        problems: str = "compare",
        fitness: str = "margin",
        by_token: bool = False,
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
        end: str | None = "",
        general: str | Sequence[str] | None = None,
        general_tokens: int = 1024,
        evaluation_batch: int = 64,
    ) -> None:
        super().__init__(
            problems, count, size, data_seed, fields, test, test_size, tokenizer, context, shots, chat, end, general,
            general_tokens, evaluation_batch,
        )  # fmt: skip
        self.fitness, self._by_token = one_of("task.fitness", fitness, FITNESSES), boolean("task.by_token", by_token)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (ACCURACY, MARGIN, replace(LOSS, unit="nats", column=True), *self.general_metrics)

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("fitness",) if self.fitness == "negative_cross_entropy" else ("fitness", "loss")

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        super().load(input_shape=input_shape, device=device, seed=seed, batch_size=batch_size)
        parts = {"training": self._training, "test": self._test}
        for each in [*self._training, *self._test]:
            if len(each.choices) < 2:
                text = f"the problem {each.prompt[-60:]!r} needs at least two choices (task.fields.choices=NAME)"
                raise ConfigError("task.problems", self._source.name, text)
        self._most = max(len(each.choices) for part in parts.values() for each in part)
        self._answer = max(len(choice) for part in parts.values() for each in part for choice in self._asked(each)[1])
        self._passes = 1 if self._answer == 1 else self._most
        self._rows = {name: self._encoded(part, device) for name, part in parts.items()}

    def _encoded(self, problems: Sequence[Problem], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return inputs (N, S, T), and targets (N, 2 + K A): right choice, length of the prompt, tokens of all choices.

        Raises ConfigError.
        """
        rows, targets = [], []
        for each in problems:
            prompt, choices = self._asked(each)
            prompt = self._shown + prompt
            if not prompt or not all(choices):
                text = f"the prompt or a choice of {each.prompt[-60:]!r} has no token"
                raise ConfigError("task.problems", self._source.name, text)
            choices = choices + [[]] * (self._most - len(choices))
            rows += [prompt + choice[:-1] for choice in choices[: self._passes]]
            wanted = padded([*choices, [0] * self._answer], -1)[: self._most].flatten().tolist()
            targets.append([each.choices.index(each.answer), len(prompt), *wanted])
        inputs = padded(rows, 0).unflatten(0, (len(problems), self._passes))
        return inputs.to(device), torch.tensor(targets, dtype=torch.int64, device=device)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        inputs, targets = self._rows["training"]
        first = generation * self.batch_size
        examples = self._stream.examples(first + start, first + stop)
        return Batch(inputs[examples], targets[examples])

    def _likelihoods(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the log-likelihoods (B, K) of the choices, -inf for missing ones."""
        wanted = batch.targets[:, 2:].unflatten(1, (self._most, self._answer))
        n, _, width = batch.inputs.shape
        places = batch.targets[:n, 1:2] - 1 + torch.arange(self._answer, device=wanted.device)
        made = []
        for tokens in batch.inputs.unbind(1):
            made.append(logits_at(module, tokens, places.clamp(max=width - 1), self.output_size).float().log_softmax(-1))
        counted, known = (wanted >= 0).float(), wanted.clamp(min=0)
        if self._passes == 1:
            likely = made[0][:, 0].gather(1, known[:, :, 0])[..., None]
        else:
            likely = torch.stack([part.gather(-1, known[:, k, :, None]).squeeze(-1) for k, part in enumerate(made)], 1)
        tokens_of = counted.sum(2)
        sums = (likely * counted).sum(2)
        result = sums / tokens_of.clamp(min=1) if self._by_token else sums
        return torch.where(tokens_of > 0, result, torch.full_like(result, -torch.inf))

    def _outcomes(self, module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return (B,) each: 1 for a right choice or 0, the margin, and the cross-entropy among the choices."""
        likely, right = self._likelihoods(module, batch), batch.targets[:, :1]
        mine = likely.gather(1, right).squeeze(1)
        others = likely.scatter(1, right, -torch.inf).amax(1)
        margin = mine - others
        # an equal or NaN margin is wrong
        return (margin > 0).float(), margin, F.cross_entropy(likely, right.squeeze(1), reduction="none")

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, len(self.score_names), dtype=torch.float32)
        with torch.no_grad():
            right, margin, loss = self._outcomes(module, batch)
        if self.fitness == "negative_cross_entropy":
            return -loss[:, None]
        return torch.stack([right if self.fitness == "accuracy" else margin, loss], 1)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return self._outcomes(module, batch)[2].mean()

    def problem_sums(self, module: nn.Module, rows: Tensor) -> Sequence[float]:
        """Return sums over test problems: right, margin, cross-entropy, and their number."""
        inputs, targets = self._rows["test"]
        with torch.no_grad():
            outcomes = self._outcomes(module, Batch(inputs[rows], targets[rows]))
        return [*(column.double().sum().item() for column in outcomes), float(len(rows))]

    def summarise(self, sums: Any) -> dict[str, float]:
        right, margin, loss, count = map(float, sums[:4])
        values = {ACCURACY.name: right / count, MARGIN.name: margin / count, LOSS.name: loss / count}
        return values | self.general_values(sums)
