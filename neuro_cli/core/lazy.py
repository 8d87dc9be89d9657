"""Names of a package that are imported when they are first used: torch takes seconds, and not every command needs it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that finds each name of ``homes`` in its module; an empty one: it is a module itself."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        return getattr(import_module(f"{package}.{home}"), name) if home else import_module(f"{package}.{name}")

    return find


class LazyModule(ModuleType):
    """A module that is imported when the first of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__dict__.get("_module")  # import_module takes microseconds, which an inner loop would pay at every name
        if module is None:
            module = self.__dict__["_module"] = import_module(self.__name__)
        return getattr(module, name)
