"""Bytes that crossed a network interface, as the kernel counts them."""

from pathlib import Path

COUNTERS = Path("/proc/net/dev")  # of the network namespace of the process


def interface_bytes(name: str) -> tuple[int, int]:
    """(sent, received) since the interface exists: payload, headers, acknowledgements, everybody's. Raises OSError."""
    for line in COUNTERS.read_text().splitlines():
        interface, _, numbers = line.partition(":")
        if interface.strip() == name:
            fields = numbers.split()
            return int(fields[8]), int(fields[0])
    raise OSError(f"there is no network interface {name}")
