"""Three brokers, six workers, two thousand tasks, processes that are killed all the while."""

import random
import time

import pytest
from secured import pool_of
from trouble import TROUBLE

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.pool.base import WorkUnit

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
