"""Packages of the extra `search`."""

from importlib.util import find_spec

from neuro_cli.core.errors import UserError
from neuro_cli.core.install import install

PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf", "cryptography")


def need_packages() -> None:
    """Raise UserError where the extra is not installed."""
    missing = [name for name in PACKAGES if not _is_there(name)]
    if missing:
        raise UserError(f"a task cluster needs {', '.join(missing)}, not installed here: {install('search')}")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of its parent
        return False
