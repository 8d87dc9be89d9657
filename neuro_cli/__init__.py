"""neuro: a runner for distributed neuroevolution."""

from typing import Any

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # torch takes seconds to import: `neuro --help` must not wait for it
    if name == "load":
        from neuro_cli.runner.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
