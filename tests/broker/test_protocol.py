"""The `.proto` files are the contract: the generated code is theirs, and no message, however wrong, harms a server."""

import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secured import TOKEN, open_to
from support.waiting import until

from neuro_cli.broker.local_cluster import Cluster, cluster_config
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import nameserver_pb2 as names
from neuro_cli.broker.settings import BrokerSettings, NameserverSettings, Security, WorkerSettings
from neuro_cli.broker.wire import MOST_CALLS, SUBMISSION, WORK, Stub

PROTO = Path("neuro_cli/broker/proto")
ROOT = Path(__file__).parents[2]
# what a server may answer to what no client says; anything else, UNAVAILABLE above all, is a fault of the server
ANSWERS = {"OK", "INVALID_ARGUMENT", "INTERNAL", "NOT_FOUND", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED", "UNKNOWN", "ABORTED",
           "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "CANCELLED", "PERMISSION_DENIED"}  # fmt: skip
SAID = ANSWERS - {"UNKNOWN", "INTERNAL"}  # to what is a message: a servicer that raised would answer UNKNOWN


def installed(name: str) -> str:
    """Version of a distribution; empty without it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def protoc(folder: Path, *kinds: str) -> None:
    """Run the compiler of the .proto files, of whatever version is here; output of ``kinds`` goes to ``folder``."""
    pytest.importorskip("grpc_tools")
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / PROTO).glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", *(f"--{kind}_out={folder}" for kind in kinds), *files]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)


def test_the_generated_messages_are_those_of_the_proto_files(tmp_path):
    """Compared as descriptors: the text of the code depends on the version of the compiler."""
    protoc(tmp_path / "set", "descriptor_set")
    compiled = FileDescriptorSet.FromString((tmp_path / "set").read_bytes())
    for file, module in zip(compiled.file, (messages, names), strict=True):
        for message in file.message_type:
            for field in message.field:
                field.ClearField("json_name")  # the code leaves it out
        assert file == FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def test_every_method_of_the_services_is_flooded():
    services = [service for module in (messages, names) for service in module.DESCRIPTOR.services_by_name.values()]
    assert valid.keys() == {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}


def test_the_generated_code_runs_on_the_lowest_versions_that_the_extra_takes(tmp_path):
    """Code of a newer compiler would refuse them; beside it the tensorboard or wandb of a user may allow no other."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["search"]
    lowest = dict(need.split(">=") for need in needs if need.startswith(("grpc", "protobuf")))
    assert set(lowest) == {"grpcio", "grpcio-health-checking", "grpcio-reflection", "protobuf"}
    made = {path.name: path.read_text() for path in (ROOT / PROTO).iterdir() if "_pb2" in path.name and path.is_file()}
    for name in ("broker", "nameserver"):
        assert re.findall(r"^# Protobuf Python Version: (.+)$", made[f"{name}_pb2.py"], re.M) == [lowest["protobuf"]]
    if installed("grpcio-tools") == lowest["grpcio"]:  # the compiler that made it makes it again
        protoc(tmp_path, "python", "pyi")
        assert made == {path.name: path.read_text() for path in (tmp_path / PROTO).iterdir()}


def test_the_defaults_in_the_code_are_those_of_the_config():
    config = cluster_config()
    for section, kind in (("nameserver", NameserverSettings), ("broker", BrokerSettings), ("worker", WorkerSettings),
                          ("security", Security)):  # fmt: skip
        for name, field in kind.__dataclass_fields__.items():
            given = config[section].get(name)
            if field.default is not field.default_factory and name in config[section] and given is not None:
                default = list(field.default) if isinstance(field.default, tuple) else field.default
                assert str(given) == str(default), f"{section}.{name}"


class Servers:
    """A nameserver and a broker of their own process each, and channels to them."""

    def __init__(self, folder: Path) -> None:
        self.cluster = Cluster(folder)
        self.addresses = {"nameserver": self.cluster.start_nameserver()}
        self.addresses["broker"] = self.cluster.start_broker("broker", peering=False)
        self.channels = {name: open_to(address, self.cluster.certificates) for name, address in self.addresses.items()}

    def unary(self, server: str, method: str, text: bytes) -> str:
        call = self.channels[server].unary_unary(method, None, None)
        try:
            call(text, timeout=5)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    def stream(self, method: str, texts: list[bytes]) -> str:
        call = self.channels["broker"].stream_stream(method, None, None)(iter(texts), timeout=5)
        try:
            for _ in call:
                pass
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    def alive(self) -> bool:
        stub = Stub(SUBMISSION, self.channels["broker"])
        stub.Status(messages.StatusRequest(), timeout=5)
        return all(member.process.poll() is None for member in self.cluster.members.values())

    def descriptors_and_threads(self) -> dict[str, tuple[int, int]]:
        pids = {name: member.process.pid for name, member in self.cluster.members.items()}
        return {name: (len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))) for name, pid in pids.items()}

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    made = Servers(tmp_path_factory.mktemp("servers"))
    yield made
    made.close()


valid = {
    "/neuro.v1.Nameserver/Register": names.RegisterRequest(address="127.0.0.1:1", broker_id=3, token="t"),
    "/neuro.v1.Nameserver/Heartbeat": names.HeartbeatRequest(
        broker=names.BrokerInfo(broker_id=3, address="127.0.0.1:1"), token="t"
    ),
    "/neuro.v1.Nameserver/Brokers": names.BrokersRequest(),
    "/neuro.v1.Nameserver/Peer": names.PeerRequest(broker_id=3),
    "/neuro.v1.Submission/Submit": messages.SubmitRequest(
        tasks=[messages.Task(run="r", id="1", kind="noop", payload=b"{}", timeout_seconds=1.0)], token=TOKEN
    ),
    "/neuro.v1.Submission/Cancel": messages.CancelRequest(run="r", token=TOKEN),
    "/neuro.v1.Submission/Status": messages.StatusRequest(),
    "/neuro.v1.Submission/DeadLetters": messages.DeadLettersRequest(limit=1),
    "/neuro.v1.Submission/Results": messages.ResultsRequest(run="r", received=["1"], token=TOKEN),
    "/neuro.v1.Work/Pull": messages.WorkerMessage(
        hello=messages.Hello(name="w", kinds=["fuzz"]),
        capacity=3,
        results=[messages.Result(run="r", id="1", outcome=messages.DONE, payload=b"{}", worker="w", delivery=bytes(24))],
        started=[messages.TaskKey(run="r", id="1")],
        returned=[messages.TaskKey(run="r", id="2")],
    ),
}
STREAMS = {"/neuro.v1.Submission/Results", "/neuro.v1.Work/Pull"}
WORDS = ("", "r", "1", "noop", "x" * 256, "x" * 257, "\0", "ä" * 200, "127.0.0.1:1", "10.0.0.1:80", "[::1]:99999", "\u202e")
ODD = {
    FieldDescriptor.CPPTYPE_STRING: WORDS,
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 100_000, 100_001, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2, 2**53, 2**62 - 1, 2**62, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0, -0.0, 1e-300, -1.0, 1e300, float("inf"), float("-inf"), float("nan")),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 6, 8, 9, -1, 2**31 - 1),
}
BYTES = (b"", b"{}", b"[1]", b"\xff", bytes(15), bytes(16), bytes(24), bytes(65), TOKEN, bytes(100_000))


def repeated(field: FieldDescriptor, message: Message) -> bool:
    """Whether ``field`` of ``message`` is a list; descriptors say it by one name in protobuf 5 and by another in 7."""
    return hasattr(getattr(message, field.name), "extend")


@st.composite
def changed(draw, base: Message) -> Message:
    """A message of the kind of ``base``, some of its fields others: of the right type, and often of a size that nobody means."""
    made = type(base)()
    made.CopyFrom(base)
    for field in base.DESCRIPTOR.fields:
        if draw(st.integers(0, 2)):
            continue
        made.ClearField(field.name)
        values = [draw(odd(field, base)) for _ in range(draw(st.integers(0, 3)) if repeated(field, base) else 1)]
        if repeated(field, base):
            getattr(made, field.name).extend(values)
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(values[0])
        else:
            setattr(made, field.name, values[0])
    return made


def odd(field: FieldDescriptor, base: Message) -> st.SearchStrategy:
    if field.message_type is not None:
        inner = getattr(base, field.name)
        return changed(inner[0] if repeated(field, base) else inner)
    return st.sampled_from(BYTES if field.type == FieldDescriptor.TYPE_BYTES else ODD[field.cpp_type])


@st.composite
def spoiled(draw, base: Message) -> bytes:
    """Random bytes, or a message that lost its end, or some of whose bytes are others."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    text = bytearray(base.SerializeToString())
    for _ in range(draw(st.integers(0, 3)) if text else 0):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(text[: draw(st.integers(0, len(text)))])


def meant_by_nobody(base: Message) -> st.SearchStrategy[bytes]:
    """Messages that keep the grammar and break every habit."""
    return changed(base).map(lambda message: message.SerializeToString())


def flood(servers: Servers, cases: int, strange: Callable[[Message], st.SearchStrategy[bytes]], answers: set[str]) -> None:
    """Send ``cases`` strange messages or streams of them, each of which must be answered by one of ``answers``."""
    said: list[str] = []

    @settings(max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def one(data) -> None:
        method = data.draw(st.sampled_from(sorted(valid)))
        text = data.draw(strange(valid[method]))
        if method in STREAMS:
            first = data.draw(st.sampled_from([valid[method].SerializeToString(), text]))
            rest = data.draw(st.lists(strange(valid[method]), max_size=3))
            said.append(servers.stream(method, [first, *rest]))
        else:
            said.append(servers.unary("nameserver" if "Nameserver" in method else "broker", method, text))
        assert said[-1] in answers

    one()
    assert len(said) >= cases
    assert servers.alive()


FLOODS = pytest.mark.parametrize(("strange", "answers"), [(spoiled, ANSWERS), (meant_by_nobody, SAID)])


@FLOODS
def test_strange_messages_are_answered_with_a_status(servers, strange, answers):
    flood(servers, 200, strange, answers)


@pytest.mark.slow
@FLOODS
def test_ten_thousand_strange_messages_leave_no_threads_and_no_descriptors(servers, strange, answers):
    flood(servers, 300, strange, answers)
    time.sleep(2.0)
    before = servers.descriptors_and_threads()
    flood(servers, 10_000, strange, answers)
    until(lambda: all(
        now[0] <= then[0] + 5 and now[1] <= then[1] + 5
        for now, then in zip(servers.descriptors_and_threads().values(), before.values(), strict=True)
    ))  # fmt: skip


def test_one_connection_has_so_many_calls_and_no_more_at_a_time(servers):
    """Each may have a message half sent, which the server keeps until it is whole."""
    hello = messages.WorkerMessage(hello=messages.Hello(name="w", kinds=["fuzz"]))
    address, folder = servers.addresses["broker"], servers.cluster.certificates
    with open_to(address, folder) as crowded, open_to(address, folder) as other:
        over = threading.Event()

        def hold():
            yield hello
            over.wait(30)

        calls = [Stub(WORK, crowded).Pull(hold()) for _ in range(MOST_CALLS + 20)]
        workers = lambda: len(Stub(SUBMISSION, other).Status(messages.StatusRequest(), timeout=5).workers)  # noqa: E731
        until(lambda: workers() == MOST_CALLS)
        time.sleep(0.5)
        assert workers() == MOST_CALLS
        for call in calls:
            call.cancel()
        over.set()
        until(lambda: workers() == 0)


def test_too_long_a_message_is_refused(servers):
    text = messages.SubmitRequest(tasks=[messages.Task(run="r", id="1", kind="noop", payload=bytes(5 * 2**20))])
    assert servers.unary("broker", "/neuro.v1.Submission/Submit", text.SerializeToString()) == "RESOURCE_EXHAUSTED"


def test_a_task_that_is_none_is_refused_with_the_reason(servers):
    stub = Stub(SUBMISSION, servers.channels["broker"])
    for wrong in (
        {"run": ""}, {"id": ""}, {"kind": ""}, {"id": "x" * 300}, {"run": "lent:1"}, {"timeout_seconds": -1.0},
        {"timeout_seconds": float("nan")}, {"payload": bytes(4 * 2**20 - 16000)},
    ):  # fmt: skip
        task = messages.Task(**{"run": "r", "id": "1", "kind": "noop"} | wrong)
        with pytest.raises(grpc.RpcError) as answer:
            stub.Submit(messages.SubmitRequest(tasks=[task], token=TOKEN), timeout=5)
        assert answer.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert next(iter(wrong)) in answer.value.details()


def test_a_worker_that_breaks_the_contract_is_sent_away(servers):
    hello = messages.WorkerMessage(hello=messages.Hello(name="w", kinds=["x"]))
    for stream in (
        [messages.WorkerMessage(capacity=1)],
        [messages.WorkerMessage(hello=messages.Hello(name="w"), capacity=10**6)],
        [hello, hello],
        [hello, messages.WorkerMessage(results=[messages.Result(id="1")])],
    ):
        texts = [one.SerializeToString() for one in stream]
        assert servers.stream("/neuro.v1.Work/Pull", texts) in ("INVALID_ARGUMENT", "ABORTED")
