"""Suggests valid words for one that is none."""

from collections.abc import Iterable
from difflib import get_close_matches

from neuro_cli.core.errors import ConfigError


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
    return f"did you mean {' or '.join(close)}?" if close else f"valid are {', '.join(known)}"


def no_option(group: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a ``name`` that no option of ``group`` has; ``known``: the names that exist."""
    return ConfigError(group, name, f"no such option; {nearest(name, known)}")
