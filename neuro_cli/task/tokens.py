"""Tokens of a text: characters numbered by a vocabulary, bytes, or tokens of a pretrained tokenizer."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError

TOKENS = "tokens"
UNITS = ("characters", "bytes", TOKENS)
SHOWN = 5  # most unknown characters named in an error


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
    """Tokens and their numbers, 0 to ``size`` - 1. ``characters``: all tokens, sorted by code point; None: bytes."""

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

    def encode(self, name: str, text: bytes) -> Tensor:
        """Return numbers (n,) int32 of the tokens of a file's ``text``. Raises ConfigError for an unknown character."""
        if self._points is None:
            return torch.from_numpy(np.frombuffer(text, np.uint8).astype(np.int32))
        points = _points(_decoded(name, text))
        numbers = np.searchsorted(self._points, points).clip(max=self.size - 1)
        unknown = np.unique(points[self._points[numbers] != points])
        if unknown.size:
            names = ", ".join(f"{chr(point)!r}" for point in unknown[:SHOWN].tolist())
            raise ConfigError("task.files", name, f"{names}: not among the {self.size} characters of the run's vocabulary")
        return torch.from_numpy(numbers.astype(np.int32))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of token numbers; bytes that are no UTF-8 become U+FFFD."""
        if self.characters is None:
            return bytes(tokens).decode(errors="replace")
        return "".join(self.characters[token] for token in tokens)

    def widths(self) -> Tensor:
        """Return the bytes (size,) int64 of every token in UTF-8."""
        return torch.tensor([len(each.encode()) for each in self.characters or "\0" * 256], dtype=torch.int64)


class PretrainedVocabulary(Vocabulary):
    """Tokens of a pretrained ``tokenizer`` of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(None)
        self.tokenizer, self.size = tokenizer, len(tokenizer)

    def encode(self, name: str, text: bytes) -> Tensor:
        return torch.tensor(self.tokenizer.encode(_decoded(name, text), add_special_tokens=False), dtype=torch.int32)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

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
