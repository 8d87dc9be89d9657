"""A process that ends with the one that started it."""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def libc_call(name: str, *arguments: int | bytes | None) -> None:
    """A function of libc that returns 0. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def die_with_parent(signal: int) -> None:
    """Get ``signal`` when the parent process ends, whatever ends it; now, if it has ended already. Only Linux has that."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    libc_call("prctl", _PR_SET_PDEATHSIG, signal, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal)
