"""Python's search for cycles of objects, which costs most while modules load, when it finds nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_own = False


def keep_modules() -> None:
    """Let ``no_search`` keep all objects at its end for good, in a process of the command: modules alone.

    In a user's process, cycles of his own would never be freed.
    """
    global _own
    _own = True


def own_process() -> bool:
    """Return whether this process, and its garbage, belongs to the command, not to a user's script."""
    return _own


@contextmanager
def no_search() -> Iterator[None]:
    """Search for no garbage, cycles, in the block: classes and functions stay, and a search goes through all of them."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            if _own:
                gc.freeze()  # otherwise the next object starts a search through all loaded objects: 0.1 s with torch
            gc.enable()
