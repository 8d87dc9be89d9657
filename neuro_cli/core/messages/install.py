"""Packages of others: what is missing here, and the command that installs it with neuro, by its distribution and its extras."""

from importlib.util import find_spec

DISTRIBUTION = "neuro-es"  # the name of the package is on PyPI that of another product, with a command `neuro` of its own
PUBLISHED = False  # then the name stands in the commands; until then they are typed in a clone, whose root is `.`


def install(*extras: str) -> str:
    """Command that installs neuro with ``extras``, as a message names it."""
    name = DISTRIBUTION if PUBLISHED else "."
    return f"pip install '{name}[{','.join(extras)}]'" if extras else f"pip install {name}"


def absent(*packages: str) -> list[str]:
    """Return names of those ``packages`` that are not installed; dotted ones may lie in a package that is absent too."""
    return [name for name in packages if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a missing parent
        return False
