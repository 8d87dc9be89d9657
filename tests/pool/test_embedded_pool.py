"""Tasks of a cluster of one's own: every task has one result, whatever becomes of its processes."""

import os
import signal
import subprocess
import sys

import pytest
from support.pools import collected, task
from support.waiting import until
from support.worlds import descendants, wait_for_end

pytest.importorskip("grpc")
from neuro_cli.pool.embedded import EmbeddedPool

OWNER = """
from neuro_cli.pool.embedded import EmbeddedPool
from neuro_cli.pool.base import WorkUnit
pool = EmbeddedPool(2)
pool.submit([WorkUnit(str(n), "noop", {"seconds": 600}) for n in range(2)])
print("begun", flush=True)
pool.results(600)
"""
PROCESSES = 6  # nameserver, broker, and two workers with a process of a task each


def test_every_task_has_one_result_also_when_processes_of_the_cluster_are_killed():
    pool = EmbeddedPool(2, memory=1.0)
    try:
        pool.submit([task("long", 2.0), *(task(str(number), 0.05) for number in range(20))])
        pool.submit([task("3"), task("20")])  # the first of them was submitted before
        cluster = pool._cluster
        assert cluster.members["worker-1"].config["worker"]["memory"] == 954  # MiB in a GB
        for name in ("worker-1", "broker"):
            os.kill(cluster.members[name].process.pid, signal.SIGKILL)
        results = collected(pool, 22)
        processes = [member.process for member in cluster.members.values()]
    finally:
        pool.close()
    assert all(result.payload["echo"] == name and not result.error for name, result in results.items())
    assert {result.worker for result in results.values()} <= {"worker-1", "worker-2"}
    assert [process.poll() is None for process in processes] == [False] * 4
    assert not cluster.folder.exists()


def test_all_processes_end_with_a_killed_owner():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"begun\n"
    children = until(lambda: len(found := descendants(owner.pid)) >= PROCESSES and found)
    assert len(children) == PROCESSES
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for_end(children)
