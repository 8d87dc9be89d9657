"""Runs of what earlier versions called election=takeover: they go on as election=succession, with the same hashes."""

import pytest
from support.configs import composed
from test_steps import parts_of

from neuro_cli.core.errors import ConfigError
from neuro_cli.evolve.identity import canonical, cluster_identity
from neuro_cli.evolve.ledger.file import LedgerFile
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.training.model import steps_of
from neuro_cli.evolve.training.replay import restore_run
from neuro_cli.run_folder.identity import renamed
from neuro_cli.run_folder.summary import parameters_sha256

OLD = "neuro_cli.election.takeover.Takeover"


def start_of(config) -> bytes:
    return origin(canonical(cluster_identity(config, "0" * 64)))


def test_a_run_of_the_former_takeover_is_one_of_succession():
    now = composed("election=succession", verb="evolve")
    then = composed("election=succession", verb="evolve")
    then["election"]["_target_"] = OLD
    del then["cluster"]["local_iterations"]  # which those versions had not
    assert renamed(then)["election"] == now["election"]
    identity = cluster_identity(then, "0" * 64)
    assert identity["election"] == OLD
    assert "cluster.local_iterations" not in identity
    assert start_of(now) == start_of(renamed(then)) == origin(canonical(identity))
    others = [composed(*more, verb="evolve") for more in (["election=raft"], ["election=takeover"])]
    others.append(composed("election=succession", "cluster.local_iterations=2", verb="evolve"))
    assert len({start_of(config) for config in (now, *others)}) == 4


def test_the_published_takeover_does_not_go_on_with_such_a_run(tmp_path):
    parts = parts_of("threads=1", "election=succession")
    then = cluster_identity(parts.config.plain, parameters_sha256(steps_of(parts).centre))
    LedgerFile(tmp_path, Ledger(origin(canonical(then)))).close()
    for election, told in (("takeover", "election=takeover is election=succession now"), ("raft", "election, ...)")):
        parts.config.plain["election"] = composed(f"election={election}", verb="evolve")["election"]
        start = origin(canonical(cluster_identity(parts.config.plain, parameters_sha256(steps_of(parts).centre))))
        with pytest.raises(ConfigError, match=r"it is of another config") as refused:
            restore_run(parts, tmp_path, start)
        assert str(refused.value).endswith(told)
    parts.threads.close()
