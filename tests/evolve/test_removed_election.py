"""Runs with an election that was removed: one line says so, and their models can still be read."""

import pytest
import yaml
from support.configs import composed
from test_steps import parts_of

from neuro_cli.core.errors import ConfigError
from neuro_cli.evolve.identity import canonical, cluster_identity
from neuro_cli.evolve.ledger.file import LedgerFile
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.training.model import steps_of
from neuro_cli.evolve.training.replay import replayed, restore_run
from neuro_cli.run_folder.summary import parameters_sha256

REMOVED = "neuro_cli.election.succession.Succession"
BEFORE = "neuro_cli.election.takeover.Takeover"  # its name in still earlier versions


@pytest.fixture
def run(tmp_path):
    """Folder of a peer of an earlier version, which ended before its first iteration."""
    parts = parts_of("threads=1")
    config = parts.config.plain
    config["election"] = {"_target_": REMOVED, "heartbeat": 0.1, "timeout_min": 0.6, "timeout_max": 1.4}
    start = origin(canonical(cluster_identity(config, parameters_sha256(steps_of(parts).centre))))
    parts.threads.close()
    LedgerFile(tmp_path, Ledger(start)).close()
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path, config


def test_both_names_have_one_identity():
    config = composed(verb="evolve")
    identities = []
    for target in (REMOVED, BEFORE):
        config["election"] = {"_target_": target}
        identities.append(cluster_identity(config, "0" * 64))
    assert identities[0] == identities[1]
    assert identities[0]["election"] == BEFORE


@pytest.mark.parametrize("election", ["takeover", "raft"])
def test_another_election_does_not_continue_such_a_run(run, election):
    folder, _ = run
    parts = parts_of("threads=1", f"election={election}")
    start = origin(canonical(cluster_identity(parts.config.plain, parameters_sha256(steps_of(parts).centre))))
    with pytest.raises(ConfigError, match=r"^election=succession: was removed; election=takeover works down to one survivor too"):
        restore_run(parts, folder, start)
    parts.threads.close()


def test_its_model_is_read(run):
    folder, config = run
    with replayed(folder, config, from_start=True) as peer:
        assert peer.iteration == 0
