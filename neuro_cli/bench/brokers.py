"""``neuro bench brokers``: tasks per second, time from submission to start, load sharing of two brokers, memory of a full queue.

Every measurement has a cluster of its own on this machine; its processes share the cores with this one.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.table import show, spread, write
from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.process import resident_bytes
from neuro_cli.pool.base import WorkResult, WorkUnit
from neuro_cli.pool.broker import BrokerPool
from neuro_cli.runner.config import bounded, key, positive

TICK = 0.005  # seconds between two submissions while latency is measured
WAIT_SECONDS = 300.0


@dataclass(frozen=True)
class Brokers:
    tasks: int = key(bounded(1))
    payload: int = key(bounded(1))
    rate: int = key(bounded(1))
    seconds: float = key(positive)
    shared_tasks: int = key(bounded(1))
    queued: int = key(bounded(1))


def bench_brokers(config: BenchConfig, run: Path) -> None:
    """Measure, print a table and write brokers.csv. Raises UserError."""
    own = config.own(Brokers, "brokers")
    measured: dict[str, list[float]] = {}
    for _ in range(config.repeats):
        _add(measured, throughput(own.tasks, own.payload))
        _add(measured, latency(own.rate, own.seconds, own.payload))
        _add(measured, shared(own.shared_tasks))
    _add(measured, memory(own.queued, own.payload))
    write(run / "brokers.csv", [{"what": what, "value": value} for what, values in measured.items() for value in values], 1)
    rows = [(what, spread(values, ",.1f")) for what, values in measured.items()]
    show("task cluster on this machine: broker, worker and model share its cores", ("what", "median (range)"), rows, 1,
         run / "brokers.csv")  # fmt: skip


def throughput(tasks: int, payload: int) -> dict[str, float]:
    """Return the rate of ``tasks`` empty tasks, ``payload`` bytes each way, through one broker to one worker."""
    with _Bench(workers=1) as bench:
        bench.do(_noops(200, payload, "warm"))
        begun = time.perf_counter()
        bench.do(_noops(tasks, payload, "task"))
        return {f"no-op tasks a second, {payload:,} bytes": tasks / (time.perf_counter() - begun)}


def latency(rate: int, seconds: float, payload: int) -> dict[str, float]:
    """Return the milliseconds from a task's scheduled submission to its start, at a steady ``rate`` per second."""
    with _Bench(workers=1) as bench:
        bench.do(_noops(200, payload, "warm"))
        begun, sent = time.time(), 0
        results: list[WorkResult] = []
        text = "x" * payload
        while sent < rate * seconds:
            due = int((time.time() - begun) * rate)
            if due > sent:
                times = [begun + number / rate for number in range(sent, due)]
                bench.pool.submit([WorkUnit(str(sent + k), "noop", {"echo": [when, text]}) for k, when in enumerate(times)])
                sent = due
            results += bench.pool.results(TICK)
        results += bench.rest(sent - len(results))
        delays = sorted(1e3 * (result.payload["began"] - result.payload["echo"][0]) for result in results)
    return {f"ms to start at {rate:,} a second, {name}": _quantile(delays, q) for name, q in (("median", 0.5), ("p99", 0.99))}


def shared(tasks: int) -> dict[str, float]:
    """Return the rate of 5 ms tasks sent to one of two brokers with a worker each, and the share of the other's worker."""
    with _Bench(workers=1) as bench:
        begun = time.perf_counter()
        bench.do(_noops(tasks // 2, 100, "one", seconds=0.005))
        alone = tasks // 2 / (time.perf_counter() - begun)
    with _Bench(workers=2, brokers=2) as bench:
        begun = time.perf_counter()
        results = bench.do(_noops(tasks, 100, "two", seconds=0.005))
        together = tasks / (time.perf_counter() - begun)
    counts = [sum(result.worker == f"worker-{number}" for result in results) for number in range(2)]
    return {
        "5 ms tasks a second, one broker with one worker": alone,
        "the same to one of two peered brokers, a worker each": together,
        "percent that the lesser worker did": 100 * min(counts) / tasks,
    }


def memory(queued: int, payload: int) -> dict[str, float]:
    """Return the memory (MiB) of a broker before and after it queues ``queued`` tasks, and the rate at which it takes them."""
    with _Bench(workers=0) as bench:
        bench.pool.submit(_noops(1, payload, "first"))
        pid = bench.cluster.members["broker-0"].process.pid
        before, begun = resident_bytes(pid), time.perf_counter()
        for first in range(0, queued, 5000):
            bench.pool.submit(_noops(min(5000, queued - first), payload, f"q{first}"))
        taken = time.perf_counter() - begun
        after = resident_bytes(pid)
    return {
        "MiB of a broker with an empty queue": before / 2**20,
        f"MiB with {queued:,} tasks of {payload:,} bytes in it": after / 2**20,
        "tasks a second that it takes into its queue": queued / taken,
    }


class _Bench:
    """Cluster with a pool, ready for work."""

    def __init__(self, workers: int, brokers: int = 1) -> None:
        self.cluster = Cluster()
        self.pool = BrokerPool(self.cluster.start_nameserver(), certificates=self.cluster.certificates)
        for index in range(brokers):
            self.cluster.start_broker(f"broker-{index}", queue_limit=10**6)
        for count in range(workers):
            self.cluster.start_worker(f"worker-{count}")
            self._await_workers(count + 1)  # the next one then takes the other broker

    def __enter__(self) -> "_Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()
        self.cluster.close()

    def do(self, tasks: Sequence[WorkUnit]) -> list[WorkResult]:
        """Run all tasks and return their results."""
        self.pool.submit(tasks)
        return self.rest(len(tasks))

    def rest(self, count: int) -> list[WorkResult]:
        """Wait for ``count`` results. Raises UserError if they do not come, or one is an error."""
        results: list[WorkResult] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(results) < count:
            results += self.pool.results(1.0)
            if time.monotonic() > deadline:
                raise UserError(f"{len(results)} of {count} results in {WAIT_SECONDS:g} s")
        wrong = next((result.error for result in results if result.error), "")
        if wrong:
            raise UserError(wrong)
        return results

    def _await_workers(self, count: int) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while self.pool.facts()["workers"] < count:
            if time.monotonic() > deadline:
                raise UserError(f"no {count} workers in {WAIT_SECONDS:g} s")
            time.sleep(0.1)


def _noops(count: int, payload: int, name: str, **more: Any) -> list[WorkUnit]:
    return [WorkUnit(f"{name}-{index}", "noop", {"echo": "x" * payload, **more}) for index in range(count)]


def _quantile(values: Sequence[float], share: float) -> float:
    return statistics.quantiles(values, n=1000, method="inclusive")[round(1000 * share) - 1]


def _add(measured: dict[str, list[float]], values: dict[str, float]) -> None:
    for what, value in values.items():
        measured.setdefault(what, []).append(value)
