"""Who is let in: certificates, plaintext, other machines."""

import json
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from waits import all_results

from neuro_cli.broker.addresses import check_address, is_loopback
from neuro_cli.broker.broker_pool import BrokerPool
from neuro_cli.broker.certificates import make_certificates
from neuro_cli.broker.cluster import Cluster, cluster_config
from neuro_cli.broker.pool import Task
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.proto.nameserver_pb2_grpc import NameserverStub
from neuro_cli.core.errors import ConfigError, UserError


def refused(role: str, **sections: dict) -> str:
    """What a role process says that does not start: one line, exit code 2."""
    config = cluster_config() | {"role": role, "with_parent": True}
    for name, settings in sections.items():
        config[name] |= settings
    command = [sys.executable, "-m", "neuro_cli.broker", json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("neuro: error: ")]
    assert "Traceback" not in done.stderr
    return line.removeprefix("neuro: error: ")


@pytest.mark.parametrize(
    ("address", "ours"),
    [("127.0.0.1:1", True), ("127.8.0.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("0.0.0.0:1", False),
     ("10.0.0.1:1", False), ("[::]:1", False), ("example:1", False)],
)  # fmt: skip
def test_only_this_machine_counts_as_loopback(address, ours):
    assert is_loopback(address) == ours


@pytest.mark.parametrize(
    "value", ["127.0.0.1", "127.0.0.1:", ":7700", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:0", None, 7700]
)
def test_an_address_that_is_none_is_refused_by_its_key(value):
    with pytest.raises(ConfigError, match=r"broker\.address=.*: must be host:port"):
        check_address("broker.address", value)


def test_without_certificates_nobody_listens_to_other_machines(tmp_path):
    said = refused("nameserver", nameserver={"address": "0.0.0.0:0", "folder": str(tmp_path)})
    assert said.startswith("security.certificates=None: 0.0.0.0:0 is not on this machine: neuro search certs FOLDER HOST...")


def test_without_certificates_nobody_is_asked_on_other_machines(tmp_path):
    said = refused("worker", nameserver={"address": "192.0.2.1:7700"})
    assert said.startswith("security.certificates=None: 192.0.2.1:7700 is not on this machine")


def test_a_taken_port_is_told(cluster, tmp_path):
    said = refused("nameserver", nameserver={"address": cluster.nameserver, "folder": str(tmp_path / "other")})
    assert said == f"nameserver.address={cluster.nameserver}: nothing can listen there: is the port taken?"


def test_two_brokers_do_not_share_a_folder(cluster):
    cluster.start_broker("broker")
    said = refused(
        "broker",
        nameserver={"address": cluster.nameserver},
        security={"certificates": str(cluster.certificates)},
        broker={"address": "127.0.0.1:0", "folder": str(cluster.folder / "broker")},
    )
    assert "another process works on this folder" in said


@pytest.mark.parametrize(
    ("role", "section", "key", "value", "said"),
    [
        ("broker", "broker", "attempts", 0, "broker.attempts=0: must be an integer >= 1"),
        ("worker", "worker", "kinds", ["nop"], "worker.kinds=nop: no such type of task; did you mean noop?"),
        ("worker", "worker", "memory", -1, "worker.memory=-1: must be an integer >= 1"),
        ("broker", "security", "message_bytes", 10, "security.message_bytes=10: must be an integer from 65536 to 1073741824"),
        ("broker", "security", "certificates", "nowhere", "security.certificates=nowhere: there is no such folder"),
        ("wrker", "worker", "memory", None, "role=wrker: must be one of nameserver, broker, worker"),
    ],
)
def test_a_wrong_setting_is_told_by_its_key(role, section, key, value, said):
    from neuro_cli.broker.roles import serve

    config = cluster_config() | {"role": role}
    config[section][key] = value
    with pytest.raises(UserError) as refusal:
        serve(config)
    assert str(refusal.value).startswith(said)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"nameserver": "here"}, "nameserver=here: must be host:port"), ({"patience": 0}, "patience=0: must be a number > 0"),
     ({"task_timeout": -1}, "task_timeout=-1: must be a number > 0"), ({"certificates": "none"}, "security.certificates=none")],
)  # fmt: skip
def test_a_wrong_setting_of_a_pool_is_told(wrong, said):
    with pytest.raises(ConfigError) as refusal:
        BrokerPool(**wrong)
    assert str(refusal.value).startswith(said)


def test_a_missing_extra_is_told_with_its_command(monkeypatch):
    from neuro_cli.broker import packages
    from neuro_cli.broker.roles import serve

    monkeypatch.setattr(packages, "PACKAGES", ("grpc", "nosuch.part"))
    with pytest.raises(UserError) as refusal:
        serve(cluster_config() | {"role": "broker"})
    assert str(refusal.value) == "a task cluster needs nosuch.part, not installed here: pip install 'neuro-cli[search]'"


def test_certificates_are_made_once_and_more_by_the_same_authority(tmp_path):
    made = make_certificates(tmp_path / "one", ["node7", "10.0.0.7"])
    assert [path.name for path in made] == ["ca.crt", "ca.key", "node.crt", "node.key"]
    assert [path.stat().st_mode & 0o777 for path in made if path.suffix == ".key"] == [0o600, 0o600]
    with pytest.raises(UserError, match=r"node\.crt is there already"):
        make_certificates(tmp_path / "one")
    for name in ("node.crt", "node.key"):
        (tmp_path / "one" / name).unlink()
    assert [path.name for path in make_certificates(tmp_path / "one")] == ["node.crt", "node.key"]
    with pytest.raises(UserError, match="not a host name"):
        make_certificates(tmp_path / "two", ["bäd"])


def test_mutual_tls_lets_in_who_has_a_certificate_of_the_authority(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make_certificates(ours)
    make_certificates(theirs)
    cluster = Cluster(tmp_path / "cluster", {"certificates": str(ours)})
    try:
        address = cluster.start_nameserver()
        cluster.start_broker("broker")
        cluster.start_worker("worker")
        pool = BrokerPool(address, certificates=ours)
        pool.submit([Task("a", "noop", {"echo": 1})])
        assert all_results(pool, 1)["a"].payload["echo"] == 1
        pool.close()
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as answer:
            NameserverStub(channel).Brokers(nameserver_pb2.BrokersRequest(), timeout=5)
        assert answer.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        authority_only = grpc.ssl_channel_credentials((ours / "ca.crt").read_bytes())
        with grpc.secure_channel(address, authority_only) as channel, pytest.raises(grpc.RpcError) as answer:
            NameserverStub(channel).Brokers(nameserver_pb2.BrokersRequest(), timeout=5)
        assert answer.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        said = refused("worker", nameserver={"address": address}, security={"certificates": str(theirs)})
        assert said.startswith(f"nameserver.address={address}: the certificates of the two ends do not fit: ")
    finally:
        cluster.close()


def test_a_folder_without_certificates_is_told(tmp_path):
    Path(tmp_path / "empty").mkdir()
    said = refused("nameserver", nameserver={"folder": str(tmp_path)}, security={"certificates": str(tmp_path / "empty")})
    assert said.startswith(f"security.certificates={tmp_path / 'empty'}: ca.crt cannot be read")
