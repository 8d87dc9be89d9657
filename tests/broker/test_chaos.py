"""Three brokers, six workers, two thousand tasks, processes that are killed all the while; and workers that come and go."""

import random
import time

import pytest
from secured import pool_of
from trouble import TROUBLE
from waits import until

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.pool.base import WorkUnit
from neuro_cli.pool.broker import BrokerPool

TASKS = 2000


def kill(cluster: Cluster, name: str) -> None:
    process = cluster.members[name].process
    process.kill()
    process.wait()


def start(cluster: Cluster, number: int) -> str:
    name = f"worker {number}"
    cluster.start_worker(name, more_kinds=TROUBLE)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_result_is_delivered_once_whatever_is_killed(tmp_path, seed):
    chance = random.Random(seed)
    cluster = Cluster(tmp_path / "cluster")
    cluster.start_nameserver()
    brokers = [f"broker {number}" for number in range(3)]
    for name in brokers:
        cluster.start_broker(name, losses=100, worker_timeout=5.0)
    workers = [start(cluster, number) for number in range(6)]
    pool = pool_of(cluster, patience=120.0)
    file = tmp_path / "done"
    killed: list[str] = []
    delivered: dict[str, int] = {}
    try:
        pool.submit([WorkUnit(str(n), "count", {"file": str(file), "number": n, "seconds": 0.05}) for n in range(TASKS)])
        begun, next_blow = time.monotonic(), 1.0
        while len(delivered) < TASKS:
            assert time.monotonic() - begun < 240.0, (len(delivered), killed, pool.facts())
            for result in pool.results(0.2):
                assert result.id not in delivered, f"{result.id} came twice; {killed}"
                assert not result.error, result.error
                delivered[result.id] = result.payload["square"]
            if time.monotonic() - begun > next_blow and len(delivered) < 0.9 * TASKS:
                next_blow += chance.uniform(0.5, 1.5)
                killed += blow(cluster, chance, brokers, workers, killed)
    finally:
        pool.close()
        cluster.close()
    assert delivered == {str(n): n**2 for n in range(TASKS)}
    assert {"nameserver"} | {name.split()[0] for name in killed} >= {"nameserver", "broker", "worker"}
    done = len(file.read_text().split())
    print(f"{time.monotonic() - begun:.1f} s, {len(killed)} kills ({', '.join(killed)}), {done - TASKS} tasks done again")


def blow(cluster: Cluster, chance: random.Random, brokers: list[str], workers: list[str], killed: list[str]) -> list[str]:
    """Kill something, and start what was killed before or somebody new in its place. Returns who was killed."""
    for name in cluster.revive():  # those that were killed at the last blow
        assert name in killed
    kind = "nameserver" if len(killed) == 4 else chance.choice(["broker", "worker", "worker"])
    if kind == "nameserver":
        kill(cluster, kind)
        return [kind]
    name = chance.choice(brokers if kind == "broker" else workers)
    kill(cluster, name)
    if kind == "worker" and chance.random() < 0.5:  # it does not come back, another one does
        cluster.members.pop(name).process.stdout.close()
        workers.remove(name)
        workers.append(start(cluster, 100 + len(killed)))
    return [name]


@pytest.mark.slow
def test_workers_that_come_shorten_a_run_and_those_that_go_lose_nothing(tmp_path):
    """Tasks that sleep, so that cores do not matter: 1 worker, then 4, then 2."""
    cluster = Cluster(tmp_path / "cluster")
    cluster.start_nameserver()
    cluster.start_broker("broker")
    pool = pool_of(cluster)
    arrivals: list[tuple[float, str]] = []
    try:
        start(cluster, 0)
        pool.submit([WorkUnit(str(number), "nap", {"seconds": 0.25}) for number in range(220)])
        rates = []
        for workers in (1, 4, 2):
            while len(cluster.members) - 2 < workers:
                start(cluster, len(cluster.members))
            for name in [name for name in cluster.members if name.startswith("worker")][workers:]:
                assert cluster.stop(name) == 0
            until(lambda n=workers: pool.facts()["workers"] == n)
            rates.append(rate(pool, arrivals, 5.0))
        while len(arrivals) < 220:
            rate(pool, arrivals, 1.0)
    finally:
        pool.close()
        cluster.close()
    assert len({name for _, name in arrivals}) == len(arrivals) == 220
    print(f"tasks a second with 1, 4, 2 workers: {rates} (4, 16, 8 would be all)")
    assert rates[1] > 3.0 * rates[0]
    assert 1.5 * rates[0] < rates[2] < rates[1]


def rate(pool: BrokerPool, arrivals: list[tuple[float, str]], seconds: float) -> float:
    """Tasks a second over a while; what comes is added to ``arrivals``."""
    begun, before = time.monotonic(), len(arrivals)
    while time.monotonic() - begun < seconds:
        for result in pool.results(0.1):
            assert not result.error
            arrivals.append((time.monotonic(), result.id))
    return (len(arrivals) - before) / (time.monotonic() - begun)
