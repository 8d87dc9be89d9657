"""Prompts with wanted answers, from a file or from a generator."""

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.install import absent, install
from neuro_cli.core.noise import random_permutation
from neuro_cli.task.language.generated import MADE, made

KINDS = (".jsonl", ".json", ".csv", ".parquet")
FIELDS = ("prompt", "answer", "choices")
SHORT = 60  # letters of a value that an error quotes


@dataclass(frozen=True)
class Problem:
    """Problem, a ``prompt`` and its wanted ``answer``; ``choices``: the texts to choose from, () if any text may follow."""

    prompt: str
    answer: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Source of problems: the ``name`` of a generator or a file, at most ``count`` problems.

    ``seed``, ``size``: seed of a generator and size of its problems; None: the generator's default. ``fields``: names of the
    columns of a file, by prompt, answer and choices.
    """

    name: str
    count: int | None = None
    size: int | None = None
    seed: int = 0
    fields: Mapping[str, str] | None = None

    def read(self, key: str = "task.problems") -> list[Problem]:
        """Return the problems in the order of the file or the generator. Raises ConfigError for ``key``."""
        if self.name in MADE:
            return [Problem(*each) for each in made(self.name, self.count, self.size, self.seed)]
        path = Path(self.name).expanduser()
        if path.suffix not in KINDS:
            allowed = f"must be {', '.join(MADE)}, or a file that ends in {', '.join(KINDS)}"
            raise ConfigError(key, self.name, allowed)
        names = {field: dict(self.fields or {}).get(field, field) for field in FIELDS}
        if other := sorted(dict(self.fields or {}).keys() - set(FIELDS)):
            raise ConfigError(f"task.fields.{other[0]}", dict(self.fields or {})[other[0]], f"fields are {', '.join(FIELDS)}")
        try:
            rows = _rows(path)
        except OSError as error:
            raise ConfigError(key, self.name, f"it cannot be read: {(error.strerror or str(error)).lower()}") from error
        except ValueError as error:  # errors of JSON, CSV, UTF-8 and Parquet
            raise ConfigError(key, self.name, " ".join(str(error).split())) from error
        problems = [_problem(key, self.name, number, row, names) for number, row in enumerate(rows, 1)]
        if not problems:
            raise ConfigError(key, self.name, "the file has no problem")
        return problems[: self.count]


def _rows(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a file. Raises OSError, ValueError and ConfigError."""
    if path.suffix == ".parquet":
        if missing := absent("pandas", "pyarrow"):
            allowed = f"a Parquet file needs the packages pandas and pyarrow ({install('llm')}); {missing[0]} is missing"
            raise ConfigError("task.problems", path, allowed)
        import pandas

        return list(pandas.read_parquet(path).to_dict("records"))
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines(keepends=True)))
    if path.suffix == ".json":
        rows = json.loads(text)
        return rows if isinstance(rows, list) else [rows]
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _problem(key: str, name: str, number: int, row: Any, names: Mapping[str, str]) -> Problem:
    """Return the problem of row ``number`` of a file. Raises ConfigError."""

    def refuse(text: str) -> ConfigError:
        return ConfigError(key, name, f"row {number} {text}")

    if not isinstance(row, Mapping):
        raise refuse(f"is {str(row)[:SHORT]!r}: an object with {names['prompt']} and {names['answer']} is needed")
    values = {}
    for field in ("prompt", "answer"):
        value = row.get(names[field])
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            has = ", ".join(map(str, row)) or "nothing"
            raise refuse(f"has no text {names[field]} (it has {has}); task.fields.{field}=NAME names another column")
        values[field] = str(value)
    choices = _choices(row.get(names["choices"]))
    if choices and values["answer"] not in choices:
        values["answer"] = _chosen(values["answer"], choices, refuse)
    return Problem(values["prompt"], values["answer"], choices)


def _choices(value: Any) -> tuple[str, ...]:
    """Return the texts to choose from, of a list, an array, or a cell of CSV that separates them by ``|``."""
    if value is None or isinstance(value, float):  # a missing cell
        return ()
    parts = value.split("|") if isinstance(value, str) else list(value)
    return tuple(str(part) for part in parts if str(part))


def _chosen(answer: str, choices: Sequence[str], refuse: Any) -> str:
    """Return the choice whose number, from 0, or letter, from A, is ``answer``."""
    letter = ord(answer) - ord("A") if len(answer) == 1 and answer.isalpha() else -1
    place = int(answer) if answer.isdecimal() else letter
    if not 0 <= place < len(choices):
        raise refuse(f"has the answer {answer[:SHORT]!r}, which is none of its choices, nor the number or letter of one")
    return choices[place]


def split(problems: Sequence[Problem], test_size: int, key: str = "task.test_size") -> tuple[list[Problem], list[Problem]]:
    """Return (training, test) problems, ``test_size`` of them for the test, the same for all seeds of a run.

    Only the first problem with a prompt is used, so that training reads no test problem. Raises ConfigError.
    """
    distinct = list({each.prompt: each for each in reversed(problems)}.values())[::-1]
    integer(key, test_size, 1)
    if test_size >= len(distinct):
        raise ConfigError(key, test_size, f"leaves no training problem, of {len(distinct)} different ones")
    order = random_permutation(0, 0, len(distinct)).tolist()
    test = set(order[:test_size])
    return [each for place, each in enumerate(distinct) if place not in test], [distinct[place] for place in sorted(test)]


def digest_of(problems: Iterable[Problem]) -> Tensor:
    """Return the SHA-256 (32,) uint8 of problems."""
    content = hashlib.sha256()
    for each in problems:
        content.update(json.dumps([each.prompt, each.answer, each.choices]).encode())
    return torch.tensor(list(content.digest()), dtype=torch.uint8)
