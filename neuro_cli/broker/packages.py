"""Packages of the extra `search`."""

from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.install import absent, install

PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf", "cryptography")


def need_packages() -> None:
    """Raise UserError where the packages of the extra are not installed."""
    missing = absent(*PACKAGES)
    if missing:
        raise UserError(f"a task cluster needs {', '.join(missing)}, not installed here: {install('search')}")
