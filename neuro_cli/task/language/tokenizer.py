"""Tokenizers of problems: a pretrained one, or one token for each character."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.tokens import SHOWN, Vocabulary

SHORT = 60  # letters of a text that an error quotes


class Tokenizer(ABC):
    """Tokenizer: text to token numbers, 0 to ``size`` - 1, and back. ``end``: the token that ends a text, or None."""

    size: int
    end: int | None

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Raises ConfigError for a character without a token."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""

    def chat(self, prompt: str) -> str:
        """Return ``prompt`` as a user's message in the chat template, up to the answer. Raises ConfigError."""
        raise ConfigError("task.chat", True, "needs the tokenizer of a language model (task.tokenizer) with a chat template")


class Characters(Tokenizer):
    """Tokenizer with one token for each character of ``vocabulary``."""

    end = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.size = vocabulary, vocabulary.size

    def encode(self, text: str) -> list[int]:
        known = self.vocabulary.characters or ""
        if unknown := sorted(set(text) - set(known)):
            names = ", ".join(map(repr, unknown[:SHOWN]))
            allowed = f"{names}: not among the {self.size} characters of the run's vocabulary"
            raise ConfigError("task.problems", text[:SHORT], allowed)
        return self.vocabulary.encode("", text.encode()).tolist() if text else []

    def decode(self, tokens: Sequence[int]) -> str:
        return self.vocabulary.decode(tokens)


class Pretrained(Tokenizer):
    """Tokenizer of a pretrained model, by transformers."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.size, self.end = tokenizer, len(tokenizer), tokenizer.eos_token_id

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def chat(self, prompt: str) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            raise ConfigError("task.chat", True, "the tokenizer has no chat template")
        messages = [{"role": "user", "content": prompt}]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def padded(rows: Sequence[Sequence[int]], value: int, width: int | None = None) -> Tensor:
    """Return rows of any lengths as (N, ``width``) int64, by default the longest's, padded on the right with ``value``."""
    result = torch.full((len(rows), max(map(len, rows), default=0) if width is None else width), value, dtype=torch.int64)
    for row, tokens in enumerate(rows):
        result[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
    return result
