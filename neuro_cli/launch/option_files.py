"""Options that a command read from files or put together: this process alone knows their names, a worker elsewhere does not."""

_typed: dict[str, str] = {}


def remember(override: str, typed: str) -> None:
    """Note that ``override``, group=name, stands for what the user has ``typed``: group=FILE.yaml, or a list of options."""
    _typed[override] = typed


def as_typed(override: str) -> str:
    """The override by which another process finds the same option."""
    return _typed.get(override, override)
