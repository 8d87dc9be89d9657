"""Who is let in: certificates, plaintext, other machines."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from secured import open_to

from neuro_cli.broker.addresses import check_address, is_loopback
from neuro_cli.broker.local_cluster import Cluster, cluster_config
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.roles import serve
from neuro_cli.broker.wire import NAMESERVER, WORK, Stub, handler_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.pool.broker import BrokerPool
from neuro_cli.tls.task_cluster import default_folder, make_certificates, own_certificates, read_credentials


def refused(role: str, **sections: dict) -> str:
    """What a role says that does not start."""
    config = cluster_config() | {"role": role}
    for name, settings in sections.items():
        config[name] |= settings
    with pytest.raises(UserError) as refusal:
        serve(config)
    return str(refusal.value)


def test_only_this_machine_counts_as_loopback():
    for address in ("127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "localhost:1"):
        assert is_loopback(address)
    for address in ("0.0.0.0:1", "10.0.0.1:1", "[::]:1", "example:1"):
        assert not is_loopback(address)


def test_an_address_that_is_none_is_refused_by_its_key():
    for value in ("127.0.0.1", "127.0.0.1:", ":7700", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:0", None, 7700):
        with pytest.raises(ConfigError, match=r"broker\.address=.*: must be host:port"):
            check_address("broker.address", value)


def test_without_certificates_no_other_machine_is_served_or_asked():
    said = refused("nameserver", nameserver={"address": "0.0.0.0:0"})
    assert said.startswith("security.certificates=None: 0.0.0.0:0 is not on this machine: neuro search certs FOLDER HOST...")
    said = refused("worker", nameserver={"address": "192.0.2.1:7700"})
    assert said.startswith("security.certificates=None: 192.0.2.1:7700 is not on this machine")


def test_a_port_and_a_folder_that_are_taken_are_refused(service):
    said = refused("nameserver", nameserver={"address": service.nameserver})
    assert said == f"nameserver.address={service.nameserver}: nothing can listen there: is the port taken?"
    said = refused(
        "broker",
        nameserver={"address": service.nameserver},
        security={"certificates": str(service.certificates)},
        broker={"address": "127.0.0.1:0", "folder": str(service.folder / "broker")},
    )
    assert "another process works on this folder" in said


@pytest.mark.parametrize(
    ("role", "section", "key", "value", "said"),
    [
        ("worker", "worker", "kinds", ["nop"], "worker.kinds=nop: no such type of task; did you mean noop?"),
        ("broker", "security", "certificates", "nowhere", "security.certificates=nowhere: there is no such folder"),
        ("wrker", "worker", "memory", None, "role=wrker: must be one of nameserver, broker, worker"),
    ],
)
def test_a_wrong_setting_is_told_by_its_key(role, section, key, value, said):
    assert refused(role, **{section: {key: value}}).startswith(said)


def test_a_missing_extra_is_told_with_its_command(monkeypatch):
    from neuro_cli.broker import packages

    monkeypatch.setattr(packages, "PACKAGES", ("grpc", "nosuch.part"))
    assert refused("broker") == "a task cluster needs nosuch.part, not installed here: pip install '.[search]'"


def test_certificates_are_made_once_and_more_by_the_same_authority(tmp_path):
    made = make_certificates(tmp_path / "one", ["node7", "10.0.0.7"])
    assert [path.name for path in made] == ["ca.crt", "ca.key", "node.crt", "node.key"]
    assert [path.stat().st_mode & 0o777 for path in made if path.suffix == ".key"] == [0o600, 0o600]
    with pytest.raises(UserError, match=r"node\.crt exists already"):
        make_certificates(tmp_path / "one")
    for name in ("node.crt", "node.key"):
        (tmp_path / "one" / name).unlink()
    assert [path.name for path in make_certificates(tmp_path / "one")] == ["node.crt", "node.key"]
    with pytest.raises(UserError, match="not a host name"):
        make_certificates(tmp_path / "two", ["bäd"])


def test_mutual_tls_lets_in_who_has_a_certificate_of_the_authority(service, tmp_path):
    theirs = tmp_path / "theirs"
    make_certificates(theirs)
    authority_only = grpc.ssl_channel_credentials((service.certificates / "ca.crt").read_bytes())
    for channel in (grpc.insecure_channel(service.nameserver), grpc.secure_channel(service.nameserver, authority_only)):
        with channel, pytest.raises(grpc.RpcError) as answer:
            Stub(NAMESERVER, channel).Brokers(nameserver_pb2.BrokersRequest(), timeout=5)
        assert answer.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    config = cluster_config() | {"role": "worker", "security": {"certificates": str(theirs)}}
    config["nameserver"]["address"] = service.nameserver
    command = [sys.executable, "-m", "neuro_cli.broker", json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("neuro: error: ")]
    assert said.startswith(f"neuro: error: nameserver.address={service.nameserver}: no answer (UNAVAILABLE: ")
    assert "CERTIFICATE_VERIFY_FAILED" in said
    assert said.endswith("the two ends have no certificates of one authority")


def test_certificates_that_others_could_have_read_or_changed_are_refused(tmp_path):
    make_certificates(tmp_path / "ours")
    for name, mode, said in (
        ("node.key", 0o644, "others can read node.key (mode 644): chmod 600"),
        ("ca.crt", 0o666, "others can change ca.crt (mode 666): chmod 644"),
        (".", 0o777, "others can change ours (mode 777): chmod 700"),
    ):
        path = tmp_path / "ours" / name
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(ConfigError) as refusal:
            read_credentials(tmp_path / "ours")
        assert said in str(refusal.value)
        path.chmod(before)


def test_files_of_certificates_that_do_not_belong_together_are_told(tmp_path):
    for name in ("one", "two"):
        make_certificates(tmp_path / name)
    for name, said in (
        ("node.key", "node.key is not the key of node.crt"),
        ("ca.crt", "node.crt is not by the authority of ca.crt"),
    ):
        kept = (tmp_path / "one" / name).read_bytes()
        (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
        with pytest.raises(ConfigError, match=said):
            read_credentials(tmp_path / "one")
        (tmp_path / "one" / name).write_bytes(kept)
    (tmp_path / "one" / "node.crt").write_text("no certificate")
    with pytest.raises(ConfigError, match="must be PEM files"):
        read_credentials(tmp_path / "one")


def test_a_certificate_that_has_expired_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("neuro_cli.tls.task_cluster.DAYS", -0.02)
    make_certificates(tmp_path / "old")
    said = refused("worker", security={"certificates": str(tmp_path / "old")})
    assert said.startswith(f"security.certificates={tmp_path / 'old'}: node.crt has expired on 20")


def test_without_a_word_a_cluster_has_its_users_own_certificates(tmp_path):
    cluster = Cluster(tmp_path / "cluster", {"certificates": None})
    try:
        address = cluster.start_nameserver()
        folder = default_folder()
        assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "node.crt", "node.key"]
        assert folder.stat().st_mode & 0o777 == 0o700
        pool = BrokerPool(address)
        assert pool.facts()["brokers"] == 0
        pool.close()
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            Stub(NAMESERVER, channel).Brokers(nameserver_pb2.BrokersRequest(), timeout=5)
    finally:
        cluster.close()


def test_processes_that_begin_together_make_one_folder_of_certificates():
    with ThreadPoolExecutor(8) as threads:
        made = [threads.submit(own_certificates) for _ in range(8)]
    assert {one.result() for one in made} == {default_folder()}
    read_credentials(default_folder())
    assert [path.name for path in default_folder().parent.iterdir()] == ["cluster"]


def test_where_no_certificates_can_be_kept_the_command_that_makes_them_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    said = refused("nameserver", nameserver={"address": "127.0.0.1:0"})
    assert said.startswith(
        f"security.certificates=None: {tmp_path / 'file' / 'neuro' / 'cluster'} cannot be made (Not a directory); neuro"
    )
    assert "neuro search certs FOLDER makes one for security.certificates=FOLDER" in said


def test_plaintext_and_certificates_exclude_each_other(tmp_path):
    make_certificates(tmp_path / "ours")
    said = refused("nameserver", security={"certificates": str(tmp_path / "ours"), "insecure": True})
    assert said.startswith("security.insecure=true: security.certificates=")


def test_a_bad_entry_of_a_nameserver_ends_no_worker_and_no_broker(tmp_path, capfd):
    """What D10 of the trials did, against a nameserver that lets it in: Register of an address on another machine."""

    class Careless:
        bad = nameserver_pb2.BrokerInfo(broker_id=9, address="10.1.1.1:80", waiting=50)

        def Brokers(self, request, context):  # noqa: N802
            return nameserver_pb2.BrokersReply(brokers=[self.bad])

        def Peer(self, request, context):  # noqa: N802
            return self.bad

        def Register(self, request, context):  # noqa: N802
            return nameserver_pb2.RegisterReply(broker_id=1, heartbeat_seconds=float("nan"))

        def Heartbeat(self, request, context):  # noqa: N802
            return nameserver_pb2.HeartbeatReply()

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([handler_of(NAMESERVER, Careless())])
    cluster = Cluster(tmp_path / "cluster", {"certificates": None, "insecure": True})
    cluster.nameserver = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        address = cluster.start_broker("broker")
        cluster.start_worker("stray")
        with grpc.insecure_channel(address) as channel:  # an idle worker, so that the broker looks for others to help
            hello = messages.WorkerMessage(hello=messages.Hello(name="w", kinds=["noop"]), capacity=5)
            stream = Stub(WORK, channel).Pull(slowly(hello, 3.0), timeout=10)
            assert next(stream).HasField("welcome")
            list(stream)
        assert [member.process.poll() for member in cluster.members.values()] == [None, None]
    finally:
        cluster.close()
        server.stop(0)
    lines = [line for line in capfd.readouterr().err.splitlines() if "is left out: 10.1.1.1:80 is not on this machine" in line]
    assert len(lines) == 2  # one of each process


def slowly(message, seconds: float):
    """The message, and an end a while later."""
    yield message
    time.sleep(seconds)


def test_a_nameserver_registers_no_address_that_others_could_not_use(service):
    with open_to(service.nameserver, service.certificates) as channel:
        stub = Stub(NAMESERVER, channel)
        for address, number in (("x" * 300, 0), ("nowhere", 0), ("127.0.0.1:1", 2**62 + 1), ("127.0.0.1:0", 1)):
            request = nameserver_pb2.RegisterRequest(address=address, broker_id=number, token="t")
            with pytest.raises(grpc.RpcError) as answer:
                stub.Register(request, timeout=5)
            assert answer.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_a_folder_without_certificates_is_told(tmp_path):
    Path(tmp_path / "empty").mkdir()
    said = refused("nameserver", nameserver={"address": "127.0.0.1:0"}, security={"certificates": str(tmp_path / "empty")})
    assert said.startswith(f"security.certificates={tmp_path / 'empty'}: ca.crt cannot be read")
