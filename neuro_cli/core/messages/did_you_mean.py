"""Suggests valid words for one that is none."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from neuro_cli.core.errors import ConfigError

Class = TypeVar("Class", bound=type)


def closest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return at most ``count`` of the ``known`` words that are near ``word``."""
    return get_close_matches(word, list(known), n=count, cutoff=0.51)  # lr is not near layers


def near(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return at most ``count`` of the ``known`` words that are near ``word``, or begin with it."""
    known = sorted(set(known))
    return closest(word, known, count) or [name for name in known if len(word) > 2 and name.startswith(word)][:count]


def nearest(word: str, known: Iterable[str], count: int = 3) -> str:
    """Return a clause, "did you mean ...", that names the valid words nearest to ``word``, or all of them when none is near."""
    known = sorted(set(known))
    close = near(word, known, count)
    return f"did you mean {' or '.join(close)}?" if close else f"valid are {', '.join(known)}" if known else "there are none"


def no_option(group: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a ``name`` that no option of ``group`` has; ``known``: the names that exist."""
    return ConfigError(group, name, f"no such option; {nearest(name, known)}")


def suggesting(kind: Class) -> Class:
    """Let the constructor of ``kind`` answer an argument that it does not have with the nearest names. It raises TypeError."""
    for name in ("__new__", "__init__"):
        if name in vars(kind):
            _suggest(kind, name)
    return kind


def _suggest(kind: type, name: str) -> None:
    construct = getattr(kind, name)
    _, *parameters = signature(construct).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    known = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]

    @wraps(construct)
    def checked(first: Any, /, *arguments: Any, **keywords: Any) -> Any:
        for word in keywords:
            if word not in known:
                made = first if name == "__new__" else type(first)
                called = made if getattr(made, name) is checked else kind  # inherited, or called by a constructor below it
                raise TypeError(f"{called.__name__}() has no argument {word}; {nearest(word, known)}")
        return construct(first, *arguments, **keywords)

    setattr(kind, name, staticmethod(checked) if name == "__new__" else checked)


class Suggesting:
    """Base of classes that users construct: every constructor below is :func:`suggesting`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        suggesting(cls)
