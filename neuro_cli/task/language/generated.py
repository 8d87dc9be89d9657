"""Generated problems: (prompt, answer) or (prompt, answer, choices) from a seed, without any file.

``additions`` of numbers of ``size`` digits with a carry out of the first; ``sorting`` of ``size`` digits; ``format``: ``size``
words to write in a given form; ``countdown``: an expression of ``size`` numbers with a wanted value; ``compare``: the
largest of ``size`` numbers, with all of them as choices.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.noise import CHOICE_STREAM, random_permutation, random_words

COUNT = 5000  # problems if the config has no number
TRIES = 20  # draws for each wanted problem, after which a generator counts as exhausted
WORDS = (
    "apple", "bread", "chair", "dance", "eagle", "field", "glass", "house", "island", "juice", "knife", "lemon", "music",
    "night", "ocean", "paper", "queen", "river", "stone", "table", "uncle", "voice", "water", "yellow", "zebra", "bridge",
    "candle", "dragon", "engine", "forest", "garden", "hammer", "insect", "jacket", "kitten", "ladder", "market", "needle",
    "orange", "pencil", "rabbit", "silver", "ticket", "valley", "window",
)  # fmt: skip
FORMS: dict[str, Callable[[str], str]] = {
    "in upper case": str.upper,
    "between square brackets": "[{}]".format,
    "between double quotes": '"{}"'.format,
    "backwards": lambda text: text[::-1],
    "twice with a dash between": "{0}-{0}".format,
    "with a dot behind it": "{}.".format,
}


def additions(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield sums whose result has a digit more than both numbers; for up to two digits each of them once."""
    low, high = 10 ** (size - 1) if size > 1 else 0, 10**size
    if size <= 2:
        pairs = [(a, b) for a in range(low, high) for b in range(low, high) if a + b >= high]
        chosen: Iterator[tuple[int, int]] = (pairs[place] for place in random_permutation(seed, 0, len(pairs)).tolist())
    else:
        drawn = ([low + number % (high - low) for number in words] for words in _draws(seed, 2))
        chosen = ((a, b) for a, b in drawn if a + b >= high)
    return ((f"{a} + {b} = ", str(a + b)) for a, b in chosen)


def sorting(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield digits to sort."""
    for words in _draws(seed, size):
        digits = [number % 10 for number in words]
        yield f"Sort {' '.join(map(str, digits))} : ", " ".join(map(str, sorted(digits)))


def written(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield words to write in a form."""
    forms = list(FORMS.items())
    for number, *words in _draws(seed, size + 1):
        text, (name, form) = " ".join(WORDS[word % len(WORDS)] for word in words), forms[number % len(forms)]
        yield f"Write {text} {name}: ", form(text)


def countdown(size: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield numbers and the value of an expression that uses each of them once; the answer is one such expression."""
    for words in _draws(seed, 2 * size):
        numbers = [1 + number % 12 for number in words[:size]]
        text, value = str(numbers[0]), numbers[0]
        for number, choice in zip(numbers[1:], words[size:], strict=False):
            text, value = _extended(text, value, number, "+-*"[choice % 3])
        listed = ", ".join(map(str, sorted(numbers)))
        yield f"Make {value} of {listed}: ", text


def compare(size: int, seed: int) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield different numbers of two digits; the largest is the answer."""
    for words in _draws(seed, size):
        numbers = [10 + number % 90 for number in words]
        if len(set(numbers)) == size:
            names = tuple(map(str, numbers))
            yield f"The largest of {', '.join(names)} is ", str(max(numbers)), names


def _extended(text: str, value: int, number: int, sign: str) -> tuple[str, int]:
    """Return an expression with one more number, and its value."""
    inner = f"({text})" if sign == "*" and not text.isdecimal() else text
    result = {"+": value + number, "-": value - number, "*": value * number}[sign]
    return f"{inner} {sign} {number}", result


# generators by name, each with the default size of a problem
MADE: dict[str, tuple[Callable[[int, int], Iterator[tuple[Any, ...]]], int]] = {
    "additions": (additions, 2),
    "sorting": (sorting, 5),
    "format": (written, 2),
    "countdown": (countdown, 3),
    "compare": (compare, 3),
}


def made(name: str, count: int | None, size: int | None, seed: int) -> list[tuple[Any, ...]]:
    """Return ``count`` different problems; None: 5,000, or all if they are fewer. Raises ConfigError."""
    generator, usual = MADE[name]
    wanted = COUNT if count is None else integer("task.count", count, 2)
    size = usual if size is None else integer("task.size", size, 1, 12)
    problems = list(islice(dict.fromkeys(islice(generator(size, seed), TRIES * wanted)), wanted))
    if count is not None and len(problems) < count:
        raise ConfigError("task.count", count, f"task.problems={name} has {len(problems)} different ones of this size")
    return problems


def _draws(seed: int, count: int) -> Iterator[list[int]]:
    """Yield lists of ``count`` random numbers of 32 bits, a function of the seed."""
    block = 4096
    for part in range(2**20):
        words = random_words(seed, part, 0, CHOICE_STREAM, block * count).reshape(block, count)
        yield from words.tolist()
