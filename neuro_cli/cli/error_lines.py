"""Errors of Hydra, OmegaConf and the file system, as the one line that a user reads."""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from neuro_cli.core.errors import UserError


def mendable(error: Exception) -> Exception:
    """Return a UserError for errors of Hydra and the file system about the user's input, other errors unchanged."""
    text = ""
    if isinstance(error, HydraException | OmegaConfBaseException):
        text = _with_key(error, str(error).partition("\n")[0])
    elif isinstance(error, OSError):
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part)
    if not text:
        return error
    mended = UserError(text)
    mended.__cause__ = error
    return mended


@contextmanager
def mending() -> Iterator[None]:
    """Raise errors of the block as the one line that :func:`mendable` makes of them."""
    try:
        yield
    except Exception as error:
        mended = mendable(error)
        if mended is error:
            raise
        raise mended from error


def _with_key(error: Exception, text: str) -> str:
    """Return the text of an error of the config, with its key."""
    key = getattr(error, "full_key", None)
    if not key or str(key) in text:
        return text
    parent = getattr(error, "parent_node", None)
    siblings = OmegaConf.to_container(parent, resolve=False) if isinstance(parent, DictConfig) else None
    value = siblings.get(str(key).rpartition(".")[2]) if isinstance(siblings, dict) else None
    return f"{key}={value}: {text}" if value else f"{key}: {text}"
