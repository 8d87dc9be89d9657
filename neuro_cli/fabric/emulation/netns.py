"""Calls to the Linux kernel for network namespaces and TAP ports, and a check of the rights for them."""

import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

from neuro_cli.core.machine.process import libc_call

NEWNS, NEWUTS, NEWPID, NEWNET = 0x20000, 0x4000000, 0x20000000, 0x40000000

_PR_SET_TIMERSLACK = 29
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_IFF_UP, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x1, 0x2, 0x1000, 0x4000
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_CHECKSUMS_AND_SEGMENTS = 0x1 | 0x2  # TUN_F_CSUM | TUN_F_TSO4
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
_SIOCSIFHWADDR, _SIOCSARP = 0x8924, 0x8955
_ARPHRD_ETHER, _ATF_FOREVER = 1, 0x2 | 0x4
_NET_ADMIN, _SYS_ADMIN = 12, 21

TUN = "/dev/net/tun"


def missing_rights() -> str:
    """Return the rights that this process lacks for emulation, in words; empty when it lacks none."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, this is {sys.platform}"
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    capabilities = int(line.split()[1], 16)
    lacking = [
        name for name, bit in (("CAP_NET_ADMIN", _NET_ADMIN), ("CAP_SYS_ADMIN", _SYS_ADMIN)) if not capabilities >> bit & 1
    ]
    if lacking:
        return f"the process lacks {' and '.join(lacking)} (run as root)"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} cannot be opened"
    return ""


def unshare(flags: int) -> None:
    libc_call("unshare", flags)


def setns(descriptor: int, kind: int) -> None:
    libc_call("setns", descriptor, kind)


def precise_timers() -> None:
    """Set the timer slack to 1 ns, where the kernel can."""
    libc_call("prctl", _PR_SET_TIMERSLACK, 1, 0, 0, 0)


def own_proc() -> None:
    """Show this PID namespace's processes under /proc, for this mount namespace only, as an emulated host needs it."""
    libc_call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    libc_call("mount", b"proc", b"/proc", b"proc", 0, None)


def open_port(name: str, hardware: bytes) -> int:
    """Open a non-blocking TAP port with virtio headers in this network namespace, and return its descriptor."""
    descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, _request(name, struct.pack("H", _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR)))
    fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _CHECKSUMS_AND_SEGMENTS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFHWADDR, _request(name, struct.pack("H", _ARPHRD_ETHER) + hardware))
    return descriptor


def configure(name: str, address: str | None = None) -> None:
    """Give the interface its IPv4 address, if any, and switch it on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        if address is not None:
            fcntl.ioctl(control, _SIOCSIFADDR, _request(name, _address(address)))
            fcntl.ioctl(control, _SIOCSIFNETMASK, _request(name, _address("255.255.255.0")))
        flags = struct.unpack_from("H", fcntl.ioctl(control, _SIOCGIFFLAGS, _request(name, b"")), 16)[0]
        fcntl.ioctl(control, _SIOCSIFFLAGS, _request(name, struct.pack("H", flags | _IFF_UP)))


def add_neighbour(name: str, address: str, hardware: bytes) -> None:
    """Add a fixed entry to the address table, so that no broadcast is needed."""
    link = struct.pack("H", _ARPHRD_ETHER) + hardware.ljust(14, b"\0")
    entry = _address(address) + link + struct.pack("i", _ATF_FOREVER) + bytes(16) + name.encode().ljust(16, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSARP, entry)


def _request(name: str, payload: bytes) -> bytes:
    """Return a struct ifreq."""
    return name.encode().ljust(16, b"\0") + payload.ljust(24, b"\0")


def _address(dotted: str) -> bytes:
    """Return a struct sockaddr_in."""
    return struct.pack("H", socket.AF_INET) + bytes(2) + socket.inet_aton(dotted) + bytes(8)
