"""Tokens of a text: characters numbered by a vocabulary, bytes, or tokens of a pretrained tokenizer."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError

TOKENS = "tokens"
UNITS = ("characters", "bytes", TOKENS)
SHOWN, SHORT = 5, 60  # most unknown characters named in an error; characters of a text that it quotes


def contents_of(files: Sequence[Path] | None, key: str = "task.files") -> dict[str, bytes]:
    """Return contents of text files by name; None: the reference topics of Python's own help, sorted by name.

    Raises ConfigError for a file that is empty or cannot be read.
    """
    if files is None:
        from pydoc_data.topics import topics  # imported late: half a megabyte that only this task needs

        return {"null": "\n".join(topics[name] for name in sorted(topics)).encode()}
    contents = {}
    for file in files:
        try:
            contents[str(file)] = file.read_bytes()
        except OSError as error:
            raise ConfigError(key, file, f"it cannot be read: {(error.strerror or str(error)).lower()}") from error
        if not contents[str(file)]:
            raise ConfigError(key, file, "the file is empty")
    return contents


class Vocabulary:
    """Tokens and their numbers, 0 to ``size`` - 1. ``characters``: all tokens, sorted by code point; None: bytes.

    ``end``: number of the token that ends a text, None without one; ``start``: those before each text, () without such.
    """

    end: int | None = None
    start: Sequence[int] = ()

    def __init__(self, characters: str | None) -> None:
        self.characters = characters
        self.size = 256 if characters is None else len(characters)
        self._points = None if characters is None else _points(characters)

    @classmethod
    def of(cls, texts: Mapping[str, bytes], unit: str) -> "Vocabulary":
        """Collect the vocabulary of ``texts``, by the names of their files; ``unit``: characters (of UTF-8) | bytes.

        Raises ConfigError.
        """
        if one_of("task.unit", unit, UNITS[:2]) == "bytes":
            return cls(None)
        points = np.unique(np.concatenate([_points(_decoded(*named)) for named in texts.items()]))
        return cls("".join(map(chr, points.tolist())))

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a problem's ``text``. Raises ConfigError for an unknown character."""
        return self.encode(text[:SHORT], text.encode(), "task.problems").tolist() if text else []

    def joined(self, prompt: str, answers: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Return the tokens of a prompt, and those of each answer behind it."""
        return self.numbers(prompt), [self.numbers(each) for each in answers]

    def opened(self, prompt: str) -> tuple[list[int], str]:
        """Return the tokens of a prompt behind which an answer is generated, and the text at its end that they leave out."""
        return self.numbers(prompt), ""

    def with_text(self, text: str) -> set[int]:
        """Return all tokens that contain the tokens of ``text``."""
        return set(self.numbers(text)) if len(self.numbers(text)) == 1 else set()

    def encode(self, name: str, text: bytes, key: str = "task.files") -> Tensor:
        """Return numbers (n,) int32 of the tokens of a file's ``text``. Raises ConfigError for an unknown character."""
        if self._points is None:
            return torch.from_numpy(np.frombuffer(text, np.uint8).astype(np.int32))
        points = _points(_decoded(name, text))
        numbers = np.searchsorted(self._points, points).clip(max=self.size - 1)
        unknown = np.unique(points[self._points[numbers] != points])
        if unknown.size:
            names = ", ".join(f"{chr(point)!r}" for point in unknown[:SHOWN].tolist())
            raise ConfigError(key, name, f"{names}: not among the {self.size} characters of the run's vocabulary")
        return torch.from_numpy(numbers.astype(np.int32))

    def decode(self, tokens: Sequence[int], special: bool = True) -> str:
        """Return the text of token numbers; bytes that are no UTF-8 become U+FFFD. ``special``: with tokens that mark a place."""
        if self.characters is None:
            return bytes(tokens).decode(errors="replace")
        return "".join(self.characters[token] for token in tokens)

    def chat(self, prompt: str, shown: Sequence[tuple[str, str]] = ()) -> str:
        """Return ``prompt`` as a user's message in the chat template, up to the answer. Raises ConfigError.

        ``shown``: prompts and answers of the turns before.
        """
        raise ConfigError("task.chat", True, "needs the tokenizer of a language model (task.tokenizer) with a chat template")

    def widths(self) -> Tensor:
        """Return the bytes (size,) int64 of every token in UTF-8."""
        return torch.tensor([len(each.encode()) for each in self.characters or "\0" * 256], dtype=torch.int64)


class PretrainedVocabulary(Vocabulary):
    """Tokens of a pretrained ``tokenizer`` of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(None)
        self.tokenizer, self.size, self.end = tokenizer, len(tokenizer), tokenizer.eos_token_id
        complete, bare = tokenizer.encode("x"), self.numbers("x")
        places = (place for place in range(len(complete)) if complete[place : place + len(bare)] == bare)
        self.start = complete[: next(places, 0)]

    def numbers(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def joined(self, prompt: str, answers: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        # a token may join the space at the prompt's end with a word behind it: such tokens are the answer's
        complete = [self.numbers(prompt + answer) for answer in answers]
        columns = zip(self.numbers(prompt), *complete, strict=False)
        common = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))
        if not common or not all(answers):
            return super().joined(prompt, answers)
        return complete[0][:common], [each[common:] for each in complete]

    def opened(self, prompt: str) -> tuple[list[int], str]:
        # a space of its own is followed by what joins no space, such as digits, and never by a word
        text = prompt.rstrip(" ")
        return (self.numbers(text), prompt[len(text) :]) if text else (self.numbers(prompt), "")

    def with_text(self, text: str) -> set[int]:
        names = self.tokenizer.convert_ids_to_tokens(range(self.size))
        mark = "".join(names[number] for number in self.numbers(text))
        return {number for number, name in enumerate(names) if mark and mark in (name or "")}

    def encode(self, name: str, text: bytes, key: str = "task.files") -> Tensor:
        return torch.tensor(self.numbers(_decoded(name, text)), dtype=torch.int32)

    def decode(self, tokens: Sequence[int], special: bool = True) -> str:
        settings = {"skip_special_tokens": not special, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(tokens), **settings))

    def chat(self, prompt: str, shown: Sequence[tuple[str, str]] = ()) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            raise ConfigError("task.chat", True, "the tokenizer has no chat template")
        texts = [*(text for turn in shown for text in turn), prompt]
        messages = [{"role": ("user", "assistant")[place % 2], "content": text.strip(" ")} for place, text in enumerate(texts)]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def widths(self) -> Tensor:
        """Return the number of bytes (size,) int64 of every token; a letter in a byte-level token's name stands for a byte."""
        names = self.tokenizer.convert_ids_to_tokens(range(self.size))
        by_bytes = "ByteLevel" in str(getattr(getattr(self.tokenizer, "backend_tokenizer", None), "decoder", ""))
        texts = names if by_bytes else [self.decode([token]) for token in range(self.size)]
        return torch.tensor([len(text or "") if by_bytes else len(text.encode()) for text in texts], dtype=torch.int64)


def digest_of(texts: Iterable[bytes]) -> Tensor:
    """Return the SHA-256 (32,) uint8 of all texts and their lengths."""
    content = hashlib.sha256()
    for text in texts:
        content.update(len(text).to_bytes(8, "little") + text)
    return torch.tensor(list(content.digest()), dtype=torch.uint8)


def _decoded(name: str, text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8; task.unit=bytes takes any file"
        raise ConfigError("task.files", name, reason) from error


def _points(text: str) -> np.ndarray:
    """Return code points (n,) uint32."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
