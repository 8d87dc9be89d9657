"""Another user of this machine, who has no certificate: what a cluster lets such a process do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from secured import address_of
from waits import until

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.pool.broker import BrokerPool

NOBODY = 65534
STRANGER = Path(__file__).with_name("stranger.py")


def stranger(address: str, certificates: Path | str) -> dict[str, str]:
    """What a process of another user, which cannot read our certificates, is answered, by the way in which it tries."""
    command = [sys.executable, str(STRANGER), str(NOBODY), address, str(certificates)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
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
