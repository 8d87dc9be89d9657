"""Channel of messages over one TLS connection: a length, then plain data (msgpack): reading it runs no code.

Bytes are counted as TLS sends them.
"""

import asyncio
import ssl
import struct
from typing import Any

import msgpack

from neuro_cli.election.fields import printable
from neuro_cli.evolve.network.messages import MalformedError, address_of, checked
from neuro_cli.fabric.base import Traffic
from neuro_cli.tls.certificates import refuses_authority
from neuro_cli.tls.evolve_peer import identifier_in

_LENGTH = struct.Struct(">I")
FIRST = 2**16  # bytes of the first message on a connection
ANSWER = 2**20  # bytes of the answer to the first message
DRAIN = 30.0  # seconds for a peer to read an answer
RECORD, RECORD_COST = 2**14, 22  # TLS 1.3: bytes of a record, and of its header and authentication tag


class RefusedError(Exception):
    """Refusal by the other side, with its reason."""


class StrangerError(ConnectionError):
    """Answer by another peer than the expected one."""


class Channel:
    """Connection with one peer.

    ``peer``: its name, "" before the first message. ``most``: bytes of the longest message that is accepted. ``traffic``: without
    the bytes of TCP and below.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, traffic: Traffic, most: int = FIRST
    ) -> None:  # fmt: skip
        self._reader, self._writer, self._traffic, self.most = reader, writer, traffic, most
        self.peer = ""

    @property
    def address(self) -> str:
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "?"

    @property
    def identifier(self) -> str:
        """Identifier of the key that the other side has shown. Raises ConnectionError."""
        tls = self._writer.get_extra_info("ssl_object")
        return identifier_in(tls.getpeercert(binary_form=True) if tls is not None else None)

    async def secure(self, tls: ssl.SSLContext) -> None:
        """Begin TLS, as the server. Raises ssl.SSLError, or ConnectionError when the connection is lost meanwhile."""
        before = self._writer.transport
        # asyncio notes TLS only after the handshake, and warns when the connection has ended by then
        self._writer.transport.get_protocol()._over_ssl = True  # type: ignore[attr-defined]
        try:
            await self._writer.start_tls(tls)
        except AttributeError as error:
            if self._writer.transport is not None:
                raise
            self._writer._transport = before  # asyncio drops the transport when the connection ends during the handshake
            raise ConnectionError("the connection has ended") from error

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message; one for a connection that has ended is dropped, as asyncio warns of writes behind its end."""
        if self._writer.is_closing():
            return
        content = packed(message)
        self._writer.write(_LENGTH.pack(len(content)) + content)
        self._traffic.sent += _on_wire(len(content) + _LENGTH.size)

    async def drain(self) -> None:
        """Wait until the other side has read most of the messages. Raises TimeoutError."""
        async with asyncio.timeout(DRAIN):
            await self._writer.drain()

    @property
    def waiting(self) -> int:
        """Number of bytes that are not sent yet."""
        return self._writer.transport.get_write_buffer_size()

    async def receive(self) -> dict[str, Any]:
        """Receive the next message. Raises ConnectionError at the end of the connection, and for bytes that are not a message."""
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > self.most:
                raise MalformedError(f"a message of {length} bytes, at most {self.most} are taken")
            content = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("the connection has ended") from error
        except ssl.SSLError as error:
            raise ConnectionError(str(error)) from error
        self._traffic.received += _on_wire(length + _LENGTH.size)
        try:
            message = unpacked(content)
        except ValueError as error:
            raise MalformedError(str(error)) from error
        if not isinstance(message, dict):
            raise MalformedError("not a message")
        return message

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """End the connection without waiting for unsent bytes."""
        self._writer.transport.abort()


def _on_wire(size: int) -> int:
    return size + -(-size // RECORD) * RECORD_COST


async def dial(
    target: str, tls: ssl.SSLContext, traffic: Traffic, hello: dict[str, Any], answers: tuple[str, ...], timeout: float
) -> tuple[Channel, dict[str, Any]]:
    """Connect with a peer (by its name, or by HOST:PORT) and send ``hello``. Returns the channel and one of ``answers``.

    Raises RefusedError, StrangerError where another than the named peer answers, or ConnectionError without an answer.
    """
    host, _, port = address_of(target).rpartition(":")
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=tls, server_hostname="")
            channel = Channel(reader, writer, traffic, ANSWER)
            try:
                _expect(channel, target)
                channel.send(hello)
                answer = _answered(await channel.receive(), answers)
            except BaseException:
                channel.close()
                raise
    except ssl.SSLCertVerificationError as error:
        raise RefusedError("it has another secret") from error
    except ssl.SSLError as error:
        other = refuses_authority(error)
        raise RefusedError("it has another secret" if other else f"no peer of neuro answers ({error.reason})") from error
    except TimeoutError as error:
        raise ConnectionError(f"no answer in {timeout:g} s") from error
    except StrangerError:
        raise
    except (OSError, OverflowError) as error:  # ConnectionError is an OSError
        raise ConnectionError(getattr(error, "strerror", None) or str(error)) from error
    return channel, answer


def _expect(channel: Channel, target: str) -> None:
    """Set the name of the peer that answered. Raises StrangerError when ``target`` names another."""
    identifier = channel.identifier
    wanted, at, address = target.rpartition("@")
    if at and wanted != identifier:
        raise StrangerError(f"another peer than {wanted} answers at {address}")
    channel.peer = f"{identifier}@{address}"


def _answered(answer: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """Check the answer to a hello. Raises RefusedError, also for one of an earlier version, and MalformedError."""
    if type(answer.get("refused")) is str:
        raise RefusedError(printable(answer["refused"], 500))
    return checked(answer, *kinds)


def packed(value: Any) -> bytes:
    """Encode ``value`` as bytes. Raises TypeError for anything but plain data."""
    content: bytes = msgpack.packb(value, strict_types=True)
    return content


def unpacked(content: bytes) -> Any:
    """Decode bytes of :func:`packed`. Raises ValueError for other bytes."""
    try:
        return msgpack.unpackb(content, strict_map_key=False, ext_hook=_unknown)
    except ValueError:
        raise
    except Exception as error:  # msgpack has errors of its own for bytes that are too many or too few
        raise ValueError(f"not a message: {type(error).__name__}") from error


def _unknown(code: int, content: bytes) -> Any:
    raise ValueError(f"unknown extension {code}")
