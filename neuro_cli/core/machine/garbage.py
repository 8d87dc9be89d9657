"""Python's search for cycles of objects, which costs most where it finds nothing: while modules load."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """Search for no cycles in the block: classes and functions stay, and a search goes through all that are there."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
