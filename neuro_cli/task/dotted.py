"""Functions and classes that a config gives by their dotted name."""

import pkgutil
import re
from typing import Any

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import near


def located(key: str, value: Any) -> Any:
    """Return what a dotted text names, for example ``package.function``; anything else as it is. Raises ConfigError."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"\w+(\.\w+)+", value):  # a name without a dot would import a module that trust did not check
        raise ConfigError(key, value, "must be package.function")
    try:
        return pkgutil.resolve_name(value)
    except Exception as error:  # a user's module may raise anything
        close = near(error.name, dir(error.obj)) if isinstance(error, AttributeError) and error.name else []
        hint = f"; did you mean {' or '.join(close)}?" * bool(close)
        raise ConfigError(key, value, f"cannot be imported: {' '.join(str(error).split())[:200]}{hint}") from error
