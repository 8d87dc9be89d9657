"""Options that a command line stored for Hydra under a name: a file of the user's, a list of loggers.

Hydra knows them in this process alone. A job that is another command line, on the worker of a task cluster, gets what was typed.
"""

_TYPED: dict[str, str] = {}


def note(group: str, name: str, typed: str) -> None:
    """Note that ``group=name`` stands for what was ``typed``: a file's path, or a list in brackets."""
    _TYPED[f"{group}={name}"] = typed


def as_typed(override: str) -> str:
    """The ``override`` of a job, as a command line of its own takes it."""
    group, _, value = override.lstrip("+").partition("=")
    typed = _TYPED.get(f"{group}={value}")
    return override if typed is None else f"{group}={typed}"
