"""What a cluster lets others do: another user of this machine without a certificate, and holders of one without a token."""

import json
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from secured import TOKEN, address_of, open_to, pool_of
from support.inside import well
from support.pools import all_results
from support.waiting import until

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.wire import SUBMISSION, WORK, Stub
from neuro_cli.core.errors import UserError
from neuro_cli.pool.base import WorkUnit
from neuro_cli.pool.broker import BrokerPool

NOBODY = 65534
OTHER = b"another's token, of 16 to 64 bytes"
STRANGER = Path(__file__).with_name("stranger.py")


def stranger(address: str, certificates: Path | str) -> dict[str, str]:
    """What a process of another user, which cannot read our certificates, is answered, by the way in which it tries."""
    command = [sys.executable, str(STRANGER), str(NOBODY), address, str(certificates)]
    done = well(subprocess.run(command, capture_output=True, text=True, timeout=60))
    answers: dict[str, str] = json.loads(done.stdout)
    return answers


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_another_user_submits_nothing_to_a_cluster(service):
    """Its certificates are those that a search makes for its own cluster."""
    assert service.certificates.stat().st_mode & 0o077 == 0
    assert (service.certificates / "node.key").stat().st_mode & 0o077 == 0
    assert not (service.certificates / "ca.key").exists()
    answers = stranger(address_of(service), service.certificates)
    assert answers == {"read": "PermissionError", "plaintext": "UNAVAILABLE", "tls": "UNAVAILABLE", "forged": "UNAVAILABLE"}


@needs_root
def test_a_cluster_in_plaintext_takes_it_from_anybody_and_says_so(tmp_path, capfd):
    """That the process of the test above could have submitted, had it been let in."""
    cluster = Cluster(tmp_path / "cluster", {"certificates": None, "insecure": True})
    try:
        cluster.start_nameserver()
        assert stranger(cluster.start_broker("broker"), "/nowhere")["plaintext"] == "OK"
        pool = BrokerPool(cluster.nameserver, insecure=True)
        until(lambda: pool.facts()["waiting"] == 1)
        pool.close()
    finally:
        cluster.close()
    assert "security.insecure=true: every user of this machine can use this cluster" in capfd.readouterr().err


def test_no_secret_is_on_a_command_line_or_in_the_environment(service):
    key = (service.certificates / "node.key").read_text().split("\n")[1]
    for member in service.members.values():
        for what in ("cmdline", "environ"):
            assert key not in Path(f"/proc/{member.process.pid}/{what}").read_text()


def test_a_forged_result_does_not_come_through_a_broker(service, client):
    """A worker that speaks the protocol, and has a certificate, against one that holds the task."""
    client.submit([WorkUnit("1", "noop", {"seconds": 1.0, "echo": "honest"})])
    forged = messages.Result(run=client.run, id="1", outcome=messages.DONE, payload=b'{"echo": "forged"}')
    hello = messages.Hello(name="forger", kinds=["noop"])
    with open_to(address_of(service), service.certificates) as channel:
        call = Stub(WORK, channel).Pull(iter([messages.WorkerMessage(hello=hello, results=[forged])]), timeout=100)
        assert [message.HasField("welcome") for message in call] == [True]
    assert all_results(client, 1)["1"].payload["echo"] == "honest"


def test_only_its_submitter_adds_to_a_run_reads_it_or_ends_it(service):
    one = messages.Task(run="r", id="1", kind="noop")
    with open_to(address_of(service), service.certificates) as channel:
        stub = Stub(SUBMISSION, channel)
        assert stub.Submit(messages.SubmitRequest(tasks=[one], token=TOKEN), timeout=100).accepted == 1
        for token, code in ((OTHER, "PERMISSION_DENIED"), (b"", "INVALID_ARGUMENT"), (bytes(65), "INVALID_ARGUMENT")):
            for call in (
                lambda t: stub.Submit(messages.SubmitRequest(tasks=[one], token=t), timeout=100),
                lambda t: stub.Cancel(messages.CancelRequest(run="r", token=t), timeout=100),
                lambda t: list(stub.Results(iter([messages.ResultsRequest(run="r", token=t)]), timeout=100)),
            ):
                with pytest.raises(grpc.RpcError) as refused:
                    call(token)
                assert refused.value.code().name == code
        assert stub.Cancel(messages.CancelRequest(run="r", token=TOKEN), timeout=100).dropped == 1


def test_another_users_pool_of_the_same_run_is_refused_in_one_line(service, monkeypatch, tmp_path):
    mine = pool_of(service, run="ours")
    mine.submit([WorkUnit("1", "noop", {})])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user's"))
    theirs = pool_of(service, run="ours")
    with pytest.raises(UserError, match="run ours: it belongs to a submitter with another token"):
        theirs.submit([WorkUnit("2", "noop", {})])
    for pool in (theirs, mine):
        pool.close()
