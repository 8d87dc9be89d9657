"""Names of a package that are imported when they are first used: torch takes seconds, and not every command needs it."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def lazily(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of ``package``, whose ``__init__`` is ``file``.

    Names are imported at first use. The stub next to the file lists them, as in SPEC 1 of Scientific Python:
    ``from .module import Name as Name``.
    """
    tree = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    homes = {name.name: node.module for node in imports for name in node.names}

    def find(name: str) -> Any:
        if name not in homes:
            # name and object let Python's traceback suggest the nearest of __dir__
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        home = homes[name]
        return getattr(import_module(f"{package}.{home}"), name) if home else import_module(f"{package}.{name}")

    return list(homes), find, lambda: sorted(homes)


class LazyModule(ModuleType):
    """Module that is imported when the first of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = self.__dict__.get("_module")  # import_module takes microseconds, which an inner loop would pay at every name
        if module is None:
            module = self.__dict__["_module"] = import_module(self.__name__)
        return getattr(module, name)
