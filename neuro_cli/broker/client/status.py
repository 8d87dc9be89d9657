"""``neuro search status``: the brokers that a nameserver knows, their workers and tasks, and the tasks that were given up."""

import asyncio
from datetime import datetime

import grpc
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neuro_cli.broker.nameserver.client import CALL_SECONDS, brokers
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import NAMESERVER, SUBMISSION, Stub, open_channel, reason
from neuro_cli.core.errors import lines_apart, printable

COUNTS = ("waiting", "helping", "running", "undelivered", "dead", "finished")
Answer = tuple[messages.StatusReply, list[messages.DeadLetter]]


def status(nameserver: str, security: Security, dead: int) -> None:
    """Print a table of the brokers, and up to ``dead`` of the tasks that each gave up, with tracebacks. Raises UserError."""
    known = asyncio.run(_asked(nameserver, security, dead))
    console = Console()
    table = Table("broker", "address", "workers", *COUNTS, box=None, header_style="bold", pad_edge=False)
    for info, answer in known:
        if isinstance(answer, str):
            table.add_row(str(info.broker_id), printable(info.address), escape(printable(answer)))
            continue
        reply = answer[0]
        workers = f"{sum(not one.peer for one in reply.workers)}, {sum(one.peer for one in reply.workers)} helping"
        table.add_row(str(info.broker_id), printable(info.address), workers, *(str(getattr(reply, name)) for name in COUNTS))
    console.print(table)
    for info, answer in known:
        for letter in [] if isinstance(answer, str) else answer[1]:
            _show(console, info, letter)


def _show(console: Console, info: nameserver_pb2.BrokerInfo, letter: messages.DeadLetter) -> None:
    when = datetime.fromtimestamp(letter.when).isoformat(" ", "seconds")
    named = f"task {letter.task.id} ({letter.task.kind}) of run {letter.task.run} at broker {info.broker_id}"
    text = f"{when} {named}: {messages.Outcome.Name(letter.outcome)} after {letter.attempts} attempts\n{letter.error.rstrip()}"
    console.print(lines_apart(text), markup=False, highlight=False, soft_wrap=True)


async def _asked(nameserver: str, security: Security, dead: int) -> list[tuple[nameserver_pb2.BrokerInfo, Answer | str]]:
    """Ask each broker. Returns its answer, or why none came."""
    channel = open_channel(nameserver, security)
    try:
        known = await brokers(Stub(NAMESERVER, channel), nameserver, security)
    finally:
        await channel.close()
    return [(info, await _answer(info.address, security, dead)) for info in known]


async def _answer(address: str, security: Security, dead: int) -> Answer | str:
    channel = open_channel(address, security)
    stub = Stub(SUBMISSION, channel)
    try:
        reply = await stub.Status(messages.StatusRequest(), timeout=CALL_SECONDS)
        letters = await stub.DeadLetters(messages.DeadLettersRequest(limit=max(1, dead)), timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        return reason(error)
    finally:
        await channel.close()
    return reply, list(letters.letters)[:dead]
