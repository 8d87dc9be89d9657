"""What becomes of tasks in a broker: the queues with their store, without a wire, with a clock of the test's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import LENT, Key, Store
from neuro_cli.broker.server.waiting import Consumer, key_of, task_key
from neuro_cli.broker.settings import BrokerSettings


def task(number: int, run: str = "r", kind: str = "noop", timeout: float = 0.0) -> messages.Task:
    return messages.Task(run=run, id=str(number), kind=kind, payload=b"{}", timeout_seconds=timeout)


def result(of: messages.Task, outcome=messages.DONE, error: str = "") -> messages.Result:
    return messages.Result(run=of.run, id=of.id, outcome=outcome, payload=b"{}", error=error, worker="w")


class Bench:
    """Queues, the consumers that a test connects, and what each was sent."""

    def __init__(self, folder: Path, **settings) -> None:
        self.folder, self.now, self.runs = folder, 0.0, []
        self.deliveries: dict[Key, bytes] = {}
        self.settings = replace(BrokerSettings("127.0.0.1:1", "127.0.0.1:0", folder), **settings)
        self.open()

    def open(self) -> None:
        self.store = Store(self.folder)
        self.queues = Queues(self.store, self.settings, self.runs.extend, lambda: self.now)

    def again(self) -> None:
        """The process is killed and started again."""
        self.store.close()
        self.open()

    def worker(self, capacity: int = 1, kinds: tuple[str, ...] = ("noop",), peer: bool = False) -> Consumer:
        sent: list[messages.BrokerMessage] = []

        def send(message: messages.BrokerMessage) -> None:
            sent.append(message)
            self.deliveries |= {key_of(one): one.delivery for one in message.tasks}

        worker = Consumer(f"worker {len(self.queues.consumers)}", frozenset(kinds), peer, send, sent.append, self.now)
        worker.sent = sent
        self.queues.connect(worker)
        self.tell(worker, capacity=capacity)
        return worker

    def tell(self, worker: Consumer, **fields) -> None:
        """Results are of the last delivery of their tasks to anybody, unless they say otherwise."""
        for one in fields.get("results", ()):
            one.delivery = one.delivery or self.deliveries.get(key_of(one), b"")
        self.queues.hear(worker, messages.WorkerMessage(**{"capacity": worker.capacity} | fields))

    def results(self, run: str = "r") -> dict[str, messages.Result]:
        return {found.id: found for _, found in self.store.results(run, 0, 10_000)}


def got(worker: Consumer) -> list[str]:
    return [one.id for message in worker.sent if not isinstance(message, str) for one in message.tasks]


def dropped(worker: Consumer) -> list[str]:
    return [one.id for message in worker.sent if not isinstance(message, str) for one in message.dropped]


@pytest.fixture
def bench(tmp_path) -> Bench:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def test_first_come_first_served_up_to_the_capacity(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([task(number) for number in range(5)])
    assert got(worker) == ["0", "1"]
    bench.tell(worker, results=[result(task(1))])
    assert got(worker) == ["0", "1", "2"]
    assert bench.results().keys() == {"1"}
    assert bench.runs == ["r"]


def test_workers_get_fair_shares_of_what_waits(bench):
    bench.queues.submit([task(number) for number in range(10)])
    one, other = bench.worker(capacity=0), bench.worker(capacity=0)
    one.capacity = 100
    bench.tell(other, capacity=100)
    assert len(got(one)) == len(got(other)) == 5


def test_a_task_that_is_submitted_again_is_the_same_task(bench):
    worker = bench.worker(capacity=9)
    assert bench.queues.submit([task(1)]) == 1
    assert bench.queues.submit([task(1), task(2)]) == 2
    bench.tell(worker, results=[result(task(1))])
    assert bench.queues.submit([task(1)]) == 1  # its result waits for the model
    assert got(worker) == ["1", "2"]


def test_tasks_and_results_outlive_the_process(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([task(number) for number in range(4)])
    bench.tell(worker, results=[result(task(0))])
    bench.again()
    assert bench.results().keys() == {"0"}
    worker = bench.worker(capacity=9)
    assert got(worker) == ["1", "2", "3"]  # also the one that a worker held


def test_a_result_is_forgotten_when_it_was_received(bench):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    bench.tell(worker, results=[result(task(1))])
    bench.store.acknowledge("r", ["1"])
    assert bench.results() == {}
    assert bench.store.counts() == (0, 0)


def test_what_a_lost_worker_held_goes_to_others_before_all_else(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([task(number) for number in range(4)])
    bench.tell(worker, started=[task_key(("r", "0"))])
    other = bench.worker(capacity=0)
    bench.queues.disconnect(worker)
    bench.tell(other, capacity=9)
    assert got(other) == ["0", "1", "2", "3"]


def test_a_task_may_lose_only_so_many_workers(bench):
    bench.settings = replace(bench.settings, losses=2)
    bench.again()
    bench.queues.submit([task(1)])
    for _ in range(2):
        worker = bench.worker()
        bench.tell(worker, started=[task_key(("r", "1"))])
        bench.queues.disconnect(worker)
    assert bench.results()["1"].outcome == messages.LOST
    assert [letter.task.id for letter in bench.store.letters(9)] == ["1"]


def test_a_task_that_had_not_begun_costs_nothing_when_its_worker_is_lost(bench):
    bench.settings = replace(bench.settings, losses=1)
    bench.again()
    bench.queues.submit([task(1)])
    for _ in range(3):
        bench.queues.disconnect(bench.worker())
    worker = bench.worker()
    assert got(worker) == ["1"]


def test_a_crash_is_tried_again_and_then_dead_with_its_text(bench):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    for _ in range(2):
        bench.tell(worker, results=[result(task(1), messages.CRASHED, "signal SIGSEGV")])
        assert bench.results() == {}
    bench.again()  # attempts are counted in the store
    worker = bench.worker()
    bench.tell(worker, results=[result(task(1), messages.CRASHED, "signal SIGSEGV")])
    assert bench.results()["1"].error == "signal SIGSEGV"
    (letter,) = bench.store.letters(9)
    assert (letter.attempts, letter.outcome, letter.task.payload) == (3, messages.CRASHED, b"")


def test_an_error_is_the_same_again_and_final_at_once(bench):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    bench.tell(worker, results=[result(task(1), messages.RAISED, "Traceback ...")])
    assert got(worker) == ["1"]
    assert bench.results()["1"].outcome == messages.RAISED


def test_a_full_queue_takes_the_first_tasks_only(bench):
    bench.settings = replace(bench.settings, queue_limit=3)
    bench.again()
    tasks = [task(number) for number in range(5)]
    assert bench.queues.submit(tasks) == 3
    assert bench.queues.submit(tasks[3:]) == 0
    worker = bench.worker()  # what is held counts too
    assert bench.queues.submit(tasks[3:]) == 0
    bench.tell(worker, results=[result(task(0))])
    assert bench.queues.submit(tasks[3:]) == 1


def test_a_silent_worker_is_lost(bench):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    bench.now = 11.0
    bench.queues.sweep()
    assert worker.sent[-1] == "no message for too long"
    assert got(bench.worker()) == ["1"]


def test_a_task_that_its_worker_does_not_end_in_time_is_taken_away(bench):
    worker = bench.worker()
    bench.queues.submit([task(1, timeout=2.0)])
    bench.tell(worker, started=[task_key(("r", "1"))], capacity=0)
    for bench.now in (3.0, 6.0, 9.0):
        bench.tell(worker, capacity=0)
        bench.queues.sweep()
    assert dropped(worker) == ["1"]
    assert got(bench.worker()) == ["1"]
    bench.tell(worker, results=[result(task(1))])  # it came to an end after all: that result is as good as another
    assert bench.results()["1"].outcome == messages.DONE


def test_a_kind_that_no_worker_knows_is_given_up_in_one_line(bench):
    worker = bench.worker(kinds=("noop", "other"))
    bench.queues.submit([task(1, kind="nosuch"), task(2)])
    assert got(worker) == ["2"]
    for bench.now in (0.0, 25.0, 31.0):
        bench.tell(worker)
        bench.queues.sweep()
    said = bench.results()["1"]
    assert said.outcome == messages.UNKNOWN_KIND
    assert said.error == "the task's type 'nosuch' is unknown to the workers; they know noop, other"


def test_no_kind_is_given_up_while_there_is_no_worker(bench):
    bench.queues.submit([task(1)])
    bench.now = 1000.0
    bench.queues.sweep()
    bench.now = 2000.0
    bench.queues.sweep()
    assert got(bench.worker()) == ["1"]


def test_a_dropped_run_leaves_nothing_behind(bench):
    worker = bench.worker()
    bench.queues.submit([task(1), task(2), task(3, run="s")])
    assert bench.queues.drop("r") == 2
    assert dropped(worker) == ["1"]
    assert got(worker) == ["1", "3"]
    bench.tell(worker, results=[result(task(1)), result(task(3, run="s"))])
    assert bench.results() == {}
    assert bench.results("s").keys() == {"3"}


def test_a_drained_worker_gives_back_what_it_has_not_begun(bench):
    worker, other = bench.worker(capacity=2), bench.worker(capacity=0)
    bench.queues.submit([task(1), task(2)])
    bench.tell(worker, capacity=0, returned=[task_key(("r", "2"))])
    bench.tell(other, capacity=1)
    assert got(other) == ["2"]


def lent(number: int) -> messages.Task:
    """Another broker's task, as its helper queues it."""
    return task(number, run=f"{LENT}1")


def test_a_failure_of_a_helped_task_is_reported_and_its_owner_counts(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([lent(7), lent(8), lent(9)])
    assert got(worker) == ["7", "8"]
    bench.tell(worker, started=[task_key(lent_key) for lent_key in ((f"{LENT}1", "7"), (f"{LENT}1", "8"))])
    bench.tell(worker, results=[result(lent(7), messages.CRASHED, "signal SIGSEGV")], capacity=0)
    bench.queues.disconnect(worker)
    assert {name: one.outcome for name, one in bench.results(f"{LENT}1").items()} == {"7": messages.CRASHED, "8": messages.LOST}
    assert bench.store.letters(9) == []
    bench.again()  # help ends with the process
    assert got(bench.worker(capacity=9)) == []


def test_a_helped_task_never_goes_on_to_a_third_broker(bench):
    peer = bench.worker(capacity=5, peer=True)
    bench.queues.submit([lent(7), task(1)])
    assert got(peer) == ["1"]
    assert (bench.queues.waiting.own, bench.queues.waiting.helping) == (0, 1)


def test_workers_come_before_brokers_that_help(bench):
    peer, worker = bench.worker(capacity=0, peer=True), bench.worker(capacity=0)
    bench.queues.submit([task(number) for number in range(6)])
    peer.capacity = 100
    bench.tell(worker, capacity=2)
    assert got(worker) == ["0", "1"]
    assert got(peer) == ["2", "3", "4", "5"]
    bench.queues.disconnect(peer)  # all that it had count as begun
    bench.queues.disconnect(worker)
    assert [owned.losses for owned in bench.store.load(range(1, 7))] == [0, 0, 1, 1, 1, 1]


def test_helped_tasks_that_no_worker_has_are_given_back(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([lent(7), lent(8), lent(9)])
    bench.tell(worker, returned=[task_key((f"{LENT}1", "8"))], capacity=1)
    assert bench.queues.without_consumer(f"{LENT}1") == ["8", "9"]
    assert bench.queues.drop(f"{LENT}1", ["8", "9"]) == 2
    assert bench.queues.without_consumer(f"{LENT}1") == []
    bench.tell(worker, results=[result(lent(7))])
    assert bench.results(f"{LENT}1").keys() == {"7"}


def test_tasks_of_a_run_that_are_dropped_leave_the_others(bench):
    worker = bench.worker(capacity=2)
    bench.queues.submit([task(number) for number in range(4)])
    assert bench.queues.drop("r", ["1", "2"]) == 2
    assert dropped(worker) == ["1"]
    assert got(worker) == ["0", "1", "3"]


def test_a_result_that_comes_late_counts_once(bench):
    first = bench.worker()
    bench.queues.submit([task(1)])
    bench.queues.disconnect(first)
    second = bench.worker()
    assert got(second) == ["1"]
    bench.queues.connect(first)
    bench.tell(first, results=[result(task(1))], capacity=0)
    assert dropped(second) == ["1"]
    bench.tell(second, results=[result(task(1))])
    assert list(bench.results()) == ["1"]
    assert bench.queues.finished == 1


def test_large_payloads_do_not_gather_at_a_worker(bench):
    big = [messages.Task(run="r", id=str(number), kind="noop", payload=bytes(9 * 2**20)) for number in range(6)]
    worker = bench.worker(capacity=100)
    bench.queues.submit(big)
    assert max(len(message.tasks) for message in worker.sent) == 1  # each fits a message by itself only


def test_the_store_holds_what_waits_and_memory_does_not(tmp_path):
    """10,000 tasks of 10 kB: the process grows by less than a tenth of them."""
    import resource

    bench = Bench(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for begin in range(0, 10_000, 100):
        bench.queues.submit([messages.Task(run="r", id=str(begin + k), kind="noop", payload=bytes(10_000)) for k in range(100)])
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    bench.store.close()
    assert grown < 10_000 * 10_000 / 10
