"""Commands that install neuro: the name of its distribution, which differs from that of the package, and its extras."""

DISTRIBUTION = "neuro-es"  # the name of the package is on PyPI that of another product, with a command `neuro` of its own
PUBLISHED = False  # then the name stands in the commands; until then they are typed in a clone, whose root is `.`


def install(*extras: str) -> str:
    """Command that installs neuro with ``extras``, as a message names it."""
    name = DISTRIBUTION if PUBLISHED else "."
    return f"pip install '{name}[{','.join(extras)}]'" if extras else f"pip install {name}"
