"""Only who knows the secret is heard, and both sides learn why not."""

import asyncio
import os
import pickle
import ssl
from contextlib import suppress
from functools import cache

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.network.channel import Channel, RefusedError, dial, packed, unpacked
from neuro_cli.evolve.network.secret import given_secret, new_secret
from neuro_cli.fabric.base import Traffic
from neuro_cli.tls.evolve_peer import Authority, Credentials


@cache
def tls(secret: str) -> Credentials:
    return Authority(secret).fresh()


async def visited(client, message=None):
    """(what the server met, what the visit gave): an echo behind TLS."""
    met: asyncio.Future = asyncio.get_running_loop().create_future()

    async def echo(reader, writer):
        try:
            channel = Channel(reader, writer, Traffic())
            await channel.secure(tls("the secret of this cluster").server)
            found = await channel.receive()
            channel.send({"k": "cluster", "cluster": found["data"].hex()})
            await channel.drain()
            met.set_result(found)
        except Exception as error:
            met.set_result(error)
        finally:
            writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            gave = await client(address, message)
        except Exception as error:
            gave = error
        return await asyncio.wait_for(met, 10), gave


def with_secret(secret):
    async def client(address, message):
        traffic = Traffic()
        channel, answer = await dial(address, tls(secret).client, traffic, message, ("cluster",), 10.0)
        channel.close()
        return answer, traffic

    return client


async def leaves(address, message):
    host, _, port = address.rpartition(":")
    client = tls("the secret of this cluster").client
    _, writer = await asyncio.open_connection(host, int(port), ssl=client, server_hostname="")
    writer.close()


def test_who_leaves_at_once_leaves_no_warning(caplog):
    """asyncio's own, a line in the log for each such connection."""
    met, _ = asyncio.run(visited(leaves))
    assert isinstance(met, ConnectionError)
    assert [record.getMessage() for record in caplog.records] == []


async def speaks_on(address, message):
    channel, _ = await dial(address, tls("the secret of this cluster").client, traffic := Traffic(), message, ("cluster",), 10.0)
    with pytest.raises(ConnectionError):
        await channel.receive()
    before = traffic.sent
    for _ in range(10):
        channel.send({"k": "ping"})
    return traffic.sent - before


def test_messages_behind_the_end_of_a_connection_are_dropped_without_a_warning(caplog):
    """A peer that was stopped while the others ended has such a connection."""
    assert asyncio.run(visited(speaks_on, {"k": "hello", "data": b"abc"}))[1] == 0
    assert [record.getMessage() for record in caplog.records] == []


def test_who_knows_the_secret_is_heard_and_counted():
    message = {"k": "x", "data": b"\0" * 30, "pair": [1, 2], "more": b"\0" * 70}
    found, (answer, traffic) = asyncio.run(visited(with_secret("the secret of this cluster"), message))
    assert found == message
    assert answer == {"k": "cluster", "cluster": "00" * 30}
    assert 100 < traffic.sent < 200
    assert 80 < traffic.received < 150


def test_another_secret_ends_in_the_handshake():
    met, gave = asyncio.run(visited(with_secret("the secret of another"), {"k": "x"}))
    assert isinstance(met, ssl.SSLError | ConnectionError)
    assert isinstance(gave, RefusedError)
    assert str(gave) == "it has another secret"


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\x80\x04\x95" + b"\xff" * 64, bytes(200)])
def test_bytes_without_tls_end_in_the_handshake(junk):
    async def client(address, _):
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(junk)
        writer.write_eof()
        answer = await reader.read(1000)
        writer.close()
        return answer

    met, gave = asyncio.run(visited(client))
    assert isinstance(met, ssl.SSLError | ConnectionError)
    assert b"cluster" not in gave


def test_secrets_are_read_and_must_not_be_short(tmp_path, monkeypatch):
    monkeypatch.delenv("NEURO_CLUSTER_SECRET", raising=False)
    assert given_secret(None) is None
    file = tmp_path / "secret"
    file.write_text("  from a file, long enough\n")
    assert given_secret(str(file)) == "from a file, long enough"
    file.write_text("a" * 5000)
    with pytest.raises(UserError, match="more than 4096 bytes"):
        given_secret(str(file))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="must be a regular file"):
        given_secret(str(tmp_path / "pipe"))
    file.write_text("short")
    with pytest.raises(UserError, match="at least 16 are needed"):
        given_secret(str(file))
    assert len({new_secret() for _ in range(10)}) == 10


PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=8),
        st.binary(max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip


@given(PLAIN)
def test_plain_data_come_back_as_they_were(value):
    found = unpacked(packed(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [object(), (1, 2), {1}, type])
def test_nothing_else_is_packed(value):
    with pytest.raises(TypeError):
        packed(value)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_values_or_a_ValueError(content):  # noqa: N802
    with suppress(ValueError):
        unpacked(content)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


@pytest.mark.parametrize("content", [msgpack.packb(msgpack.ExtType(5, b"abc")), pickle.dumps(Bomb())])
def test_neither_extensions_nor_pickles_are_run(content):
    with pytest.raises(ValueError):
        unpacked(content)
