"""What a user of ``neuro evolve`` may type wrong: one line that names it, exit code 2, before anything is built."""

import socket

import pytest
from support.inside import neuro_inside, one_line, well

from neuro_cli.evolve.ledger.file import HEADER

SECRET = {"NEURO_CLUSTER_SECRET": "long enough, and known"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("cluster.join=somewhere",), "cluster.join=somewhere: must be HOST:PORT"),
        (("cluster.grace=0",), "cluster.grace=0: must be a number > 0"),
        (("cluster.local_iterations=0",), "cluster.local_iterations=0: must be an integer from 1 to 256"),
        (("cluster.local_iterations=2",), "cluster.local_iterations=2: must be 1, or selection=max"),
        (("cluster.force_new=true",), "cluster.force_new=True: needs cluster.from_run=RUN, the folder of a surviving peer"),
        (("cluster.from_run=there",), "cluster.from_run=there: no run of neuro evolve is in it"),
        (("cluster.secret_file=nowhere",), "cluster.secret_file=nowhere: cannot be read"),
        (("cluster.bind=198.51.100.7",), "cluster.bind=198.51.100.7: cannot listen at 198.51.100.7"),
        (("algo=snes",), "algo=snes: neuro evolve does not use it: see election, selection and cluster"),
        (
            ("+experiment=smollm_additions", "model.path=nowhere"),
            "experiment=smollm_additions: is for neuro train: it sets algo.lr_schedule, which neuro evolve lacks; "
            "take experiment=smollm_additions_peers",
        ),
        (("+experiment=language_model", "model.path=no"), "experiment=language_model: is for neuro train: it sets algo"),
        (("election=paxos",), "election=paxos: no such option; valid are raft, takeover"),
        (("layout=per_example", "selection=max"), "selection=max: compares members that have different examples here"),
        (("selection.lr_schedule.kind=slow",), "selection.lr_schedule.kind=slow: must be one of constant, linear"),
        (("election.timeout_max=0.1",), "election.timeout_max=0.1: must be > timeout_min=0.8"),
        (("election=takeover", "election.port=0"), "election.port=0: must be an integer from 1 to 65535"),
        (("ranks=2",), "ranks=2: neuro evolve has peers: cluster.local_peers"),
        (("cluster.bind=",), "cluster.bind=: must be an address or the name of a host"),
        (("cluster.bind='0'",), "cluster.bind=0: means all addresses of this machine: say 0.0.0.0, if that is meant"),
        (("cluster.advertise='a b'",), "cluster.advertise=a b: must be an address or the name of a host"),
        (("cluster.secret_file=/dev/zero",), "cluster.secret_file=/dev/zero: must be a regular file"),
        (("cluster.from_run=there", "cluster.force_new=true"), "there: no peer's run folder of neuro evolve"),
        (("selection.shaping=none",), "selection.shaping=none: must be one of"),
        (("logger=tensorboard", "logger._target_=nowhere.Logger"), "logger._target_=nowhere.Logger: "),
    ],
)
def test_bad_input_is_one_line(arguments, line, tmp_path):
    done = neuro_inside("evolve", "cluster.local_peers=1", *arguments, cwd=tmp_path, **SECRET)
    assert one_line(done).startswith(line)
    # before anything was shown, and nothing is left
    assert done.stdout == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_run_that_exists_may_have_a_cluster_that_lives_on(tmp_path):
    (tmp_path / "there/.hydra").mkdir(parents=True)
    (tmp_path / "there/.hydra/config.yaml").touch()
    done = neuro_inside("evolve", "cluster.from_run=there", cwd=tmp_path, **SECRET)
    assert one_line(done).startswith("cluster.from_run=there: its cluster may live on: join it, or found a new one")


def test_a_port_that_is_taken_is_named(tmp_path):
    arguments = ("cluster.local_peers=1", "threads=1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = one_line(neuro_inside("evolve", f"cluster.port={port}", *arguments, cwd=tmp_path, **SECRET))
        assert said == f"cluster.port={port}: cannot listen at 127.0.0.1: Address already in use"
        said = one_line(neuro_inside("evolve", "election=takeover", f"election.port={port}", *arguments, cwd=tmp_path, **SECRET))
    assert said == f"election.port={port}: the leader port cannot be opened: 127.0.0.1:{port}: Address already in use"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_peer_that_is_not_there_is_named(tmp_path):
    arguments = ("cluster.join=127.0.0.1:9", "cluster.join_timeout=1", "cluster.local_peers=1")
    line = one_line(neuro_inside("evolve", *arguments, cwd=tmp_path, **SECRET))
    assert line.startswith("cluster.join=127.0.0.1:9: no peer could be joined in 1 s: ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_secret_is_needed_to_join_and_must_not_be_short(tmp_path):
    join = "cluster.join=127.0.0.1:9"
    assert one_line(neuro_inside("evolve", join, cwd=tmp_path)).startswith(
        "cluster.secret_file=None: a cluster is joined with its"
    )
    short = one_line(neuro_inside("evolve", join, cwd=tmp_path, NEURO_CLUSTER_SECRET="short"))
    assert short == "NEURO_CLUSTER_SECRET: the secret has 5 characters, at least 16 are needed"


def test_a_secret_is_kept_and_never_shown_and_a_damaged_ledger_is_refused(tmp_path):
    few = ("cluster.local_peers=1", "generations=2", "population=4", "batch_size=16", "threads=1", "evaluate.every=2")
    done = well(neuro_inside(
        "evolve", *few, "cluster.bind=0.0.0.0", "cluster.advertise=localhost", "hydra.run.dir=run", cwd=tmp_path
    ))  # fmt: skip
    file = tmp_path / "run" / "secret"
    assert file.stat().st_mode & 0o777 == 0o600
    secret = file.read_text().strip()
    assert len(secret) >= 20
    for text in (done.stdout, done.stderr, *(path.read_text() for path in tmp_path.rglob("*.txt"))):
        assert secret not in text
    assert "cluster.secret_file=run/secret" in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[1] == "neuro: machines that do not see run/secret need a copy of it"
    assert one_line(neuro_inside("evolve", "export", "run", "file=/nope/x", cwd=tmp_path)) == (
        "/nope/x: cannot be written: No such file or directory"
    )
    # a flipped length is no torn end, however it is read
    ledger = tmp_path / "run" / "ledger.bin"
    whole = bytearray(ledger.read_bytes())
    whole[HEADER + 2] ^= 1
    ledger.write_bytes(whole)
    for command in (("export", "run", "from_start=true"), ("cluster.from_run=run", "cluster.force_new=true", *few)):
        assert one_line(neuro_inside("evolve", *command, cwd=tmp_path)) == "run/ledger.bin: damaged at iteration 0"
    # a secret that the user gives is written to no other file
    file.chmod(0o644)
    given = well(neuro_inside("evolve", *few, "cluster.secret_file=run/secret", "hydra.run.dir=other", cwd=tmp_path))
    assert "cluster.secret_file=run/secret: others on this machine may read it: chmod 600 run/secret" in given.stderr
    assert not (tmp_path / "other" / "secret").exists()
