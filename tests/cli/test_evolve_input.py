"""What a user of ``neuro evolve`` may type wrong: one line that names it, exit code 2, before anything is built."""

import socket

from support.inside import neuro_inside, one_line, well

from neuro_cli.evolve.ledger.file import HEADER

SECRET = {"NEURO_CLUSTER_SECRET": "long enough, and known"}


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
