"""Tasks of Ray, on a Ray of the pool's own: every task has one result, also where its worker is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line, well
from support.pools import collected, task
from support.torch_ranks import free_port
from support.waiting import until
from support.worlds import clean_environment, descendants

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.pool.ray import LOOPBACK, ONE_MACHINE, RayPool, attempt

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="no ray: pip install '.[ray]'")  # it reads settings at its import
TINY = ("trainings=7", "max_layers=2", "strategy.population=3", "training.epochs=1", "training.batch_size=256", "model.filters=2")


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


@needs_ray
@pytest.mark.slow
def test_a_search_on_ray_is_that_of_the_embedded_pool_and_resumes(tmp_path):
    for name, more in {"embedded": ("pool.workers=2",), "ray": ("pool=ray", "pool.workers=2", "trainings=4")}.items():
        well(neuro_inside("search", *TINY, *more, f"hydra.run.dir={tmp_path / name}", cwd=tmp_path))
    well(neuro_inside("resume", str(tmp_path / "ray"), "trainings=7", cwd=tmp_path))
    tables = [(tmp_path / name / "candidates.csv").read_text().splitlines() for name in ("embedded", "ray")]
    columns = [name for name in tables[0][0].split(",") if name not in ("seconds", "worker")]
    found = [
        [[dict(zip(table[0].split(","), row.split(","), strict=True))[name] for name in columns] for row in table[1:]]
        for table in tables
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 7


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    before = signal.getsignal(signal.SIGTERM)
    pool = RayPool(workers=2, retries=2)
    pool.submit([])
    assert signal.getsignal(signal.SIGTERM) is before
    yield pool
    pool.close()
    with pytest.raises(UserError, match="this pool was closed"):
        pool.submit([])


@needs_ray
@pytest.mark.slow
def test_every_task_has_one_result_also_when_its_worker_is_killed(pool):
    pool.submit([task("long", 3.0), *(task(str(number)) for number in range(6))])
    pool.submit([task("3"), task("6"), task("wrong", kind="other")])  # the first of them was submitted before
    victims = until(lambda: [pid for pid in descendants(os.getpid()) if command_of(pid).startswith("ray::attempt")])
    os.kill(victims[0], signal.SIGKILL)
    results = collected(pool, 9)
    assert results.pop("wrong").error.startswith("the task's type 'other' is unknown to this worker")
    assert all(result.payload["echo"] == name and not result.error for name, result in results.items())
    assert pool.results(0.1) == []
    assert pool.facts() == {"workers": 2, "running": 0}


@needs_ray
@pytest.mark.slow
def test_no_process_of_an_own_ray_listens_beyond_this_machine(pool):
    """Addresses of listening sockets are in the kernel's tables: hexadecimal, the last byte first."""
    ours = {os.readlink(link) for pid in descendants(os.getpid()) for link in links(pid)}
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in ours:
                addresses.append(fields[1].partition(":")[0])
    assert addresses
    assert {address[-8:] for address in addresses} == {"0100007F"}


def links(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd") if os.path.lexists(f"/proc/{pid}/fd/{name}")]
    except OSError:
        return []


def test_an_attempt_answers_in_bytes_whatever_happens():
    assert b'"error": ""' in attempt("noop", b"{}")
    assert b"is unknown to this worker" in attempt("other", b"{}")
    assert b"Traceback" in attempt("noop", b'{"seconds": "soon"}')


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_an_address_where_nobody_listens_is_one_line(prefix):
    address = f"{prefix}127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=rf"^pool.address={address}: must be the address of a running Ray \(.*refused\)$"):
        RayPool(address=address).submit([])


@needs_ray
@pytest.mark.slow
def test_a_search_on_a_ray_that_runs_already(tmp_path):
    """By its port, with a token. ``ray stop`` would end others' Rays too."""
    port = free_port()
    variables = {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token", ONE_MACHINE: "0"}
    environment = clean_environment() | variables | {"RAY_USAGE_STATS_ENABLED": "0"}
    place = ["--head", "--num-cpus=2", "--include-dashboard=false", f"--node-ip-address={LOOPBACK}", f"--port={port}", "--block"]
    program = [sys.executable, "-c", "import sys; from ray.scripts.scripts import main; sys.exit(main())"]
    subprocess.run([*program, "get-auth-token", "--generate"], env=environment, check=True, capture_output=True, timeout=240)
    with (tmp_path / "head.txt").open("w") as output:
        head = subprocess.Popen([*program, "start", *place], env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 240  # the port is open before the machine has joined
        while "runtime started" not in (said := (tmp_path / "head.txt").read_text()):
            assert head.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        words = [sys.executable, "-m", "neuro_cli", "search", *TINY, "pool=ray", f"pool.address={LOOPBACK}:{port}"]
        well(
            subprocess.run(
                [*words, "hydra.run.dir=ray"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400
            )
        )
    finally:
        head.terminate()
        head.communicate(timeout=240)
    assert len((tmp_path / "ray" / "candidates.csv").read_text().splitlines()) == 8


def test_without_ray_one_line_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    line = one_line(neuro_inside("search", *TINY, "pool=ray", cwd=tmp_path))
    assert line.startswith("pool=ray: Ray cannot be imported")
    assert "pip install" in line
