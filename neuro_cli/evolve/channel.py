"""Messages over a connection: a length, then plain data. Every byte is counted as TLS sends it."""

import asyncio
import ssl
import struct
from dataclasses import dataclass
from typing import Any

from neuro_cli.election.plain import packed, unpacked

_LENGTH = struct.Struct(">I")
MOST = 64 * 2**20  # bytes of a message of an authenticated peer
RECORD, RECORD_COST = 2**14, 22  # TLS 1.3: bytes of a record, and what its header and its seal add


class RefusedError(Exception):
    """The other side does not want to speak with us, and says why."""


@dataclass
class Traffic:
    """Bytes on the wire since the start, those of TCP and below not counted."""

    sent: int = 0
    received: int = 0


class Channel:
    """One connection. ``peer``: who is at the other end, when that is known."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, traffic: Traffic) -> None:
        self._reader, self._writer, self._traffic = reader, writer, traffic
        self.peer = ""

    @property
    def address(self) -> str:
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "?"

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message."""
        content = packed(message)
        self._writer.write(_LENGTH.pack(len(content)) + content)
        self._traffic.sent += _on_wire(len(content) + _LENGTH.size)

    async def drain(self) -> None:
        await self._writer.drain()

    @property
    def waiting(self) -> int:
        """Bytes that the network has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    async def receive(self) -> dict[str, Any]:
        """The next message. Raises ConnectionError at the end of the connection and for what is no message."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > MOST:
                raise ConnectionError(f"a message of {length} bytes")
            content = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection has ended") from error
        except ssl.SSLError as error:
            raise ConnectionError(str(error)) from error
        self._traffic.received += _on_wire(length + _LENGTH.size)
        try:
            message = unpacked(content)
        except ValueError as error:
            raise ConnectionError(str(error)) from error
        if not isinstance(message, dict):
            raise ConnectionError("not a message")
        return message

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """End the connection without waiting for a network that takes nothing."""
        self._writer.transport.abort()


def _on_wire(size: int) -> int:
    return size + -(-size // RECORD) * RECORD_COST


async def dial(
    address: str, tls: ssl.SSLContext, traffic: Traffic, hello: dict[str, Any], timeout: float
) -> tuple[Channel, dict]:
    """Connect and introduce ourselves: the channel and the other side's answer.

    Raises RefusedError, or ConnectionError where nobody is (OSError is one).
    """
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls, server_hostname="")
            channel = Channel(reader, writer, traffic)
            try:
                channel.send(hello)
                answer = await channel.receive()
            except BaseException:
                channel.close()
                raise
    except ssl.SSLCertVerificationError as error:
        raise RefusedError("it has another secret") from error
    except ssl.SSLError as error:
        raise RefusedError(
            "it has another secret" if "UNKNOWN_CA" in str(error) else f"no peer of neuro is there ({error.reason})"
        ) from error
    except TimeoutError as error:
        raise ConnectionError(f"no answer in {timeout:g} s") from error
    except OSError as error:
        raise ConnectionError(error.strerror or str(error)) from error
    if "refused" in answer:
        channel.close()
        raise RefusedError(str(answer["refused"]))
    return channel, answer
