"""Who may do what inside a cluster: a result is of who was given the task, a run of who began it."""

import pytest
from test_queues import Bench, dropped, got, result, task

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.tokens import Deliveries, run_token
from neuro_cli.core.errors import UserError
from neuro_cli.tls.task_cluster import user_folder


@pytest.fixture
def bench(tmp_path) -> Bench:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def test_a_token_is_of_one_task_one_delivery_and_one_broker():
    ours, theirs = Deliveries(bytes(32)), Deliveries(b"1" * 32)
    token = ours.token("r", "1")
    assert ours.token("r", "1") != token
    assert ours.holds(token, "r", "1")
    assert not any(ours.holds(token, run, name) for run, name in (("r", "2"), ("s", "1"), ("r1", ""), ("", "r1")))
    assert not theirs.holds(token, "r", "1")
    assert not any(ours.holds(wrong, "r", "1") for wrong in (b"", bytes(24), token[:-1], token + b"x"))


@pytest.mark.parametrize("token", [b"none of this broker's tokens", "another task's"])
def test_a_worker_that_was_not_given_a_task_does_not_finish_it(bench, token):
    holder, forger = bench.worker(), bench.worker(capacity=0)
    bench.queues.submit([task(1), task(2)])
    forged = result(task(1))
    bench.tell(forger, capacity=1)  # it is given task 2
    forged.delivery = token if isinstance(token, bytes) else bench.deliveries["r", "2"]
    bench.tell(forger, results=[forged])
    assert bench.results() == {}
    assert dropped(holder) == []
    bench.tell(holder, results=[result(task(1))])
    assert bench.results().keys() == {"1"}


@pytest.mark.parametrize("outcome", [messages.DONE, messages.RAISED])
def test_a_worker_that_answers_without_the_token_of_its_delivery_is_sent_away(bench, outcome):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    forged = result(task(1), outcome)
    forged.delivery = bytes(24)
    bench.tell(worker, results=[forged])
    assert worker.sent[-1] == "a result without the token of its task's delivery"
    bench.queues.disconnect(worker)
    assert bench.results() == {}
    assert got(bench.worker()) == ["1"]


def test_a_result_of_before_the_broker_was_started_again_is_taken(bench):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    kept = bench.deliveries["r", "1"]
    bench.again()
    worker, late = bench.worker(capacity=0), result(task(1))
    late.delivery = kept
    bench.tell(worker, results=[late])
    assert bench.results().keys() == {"1"}


def test_the_token_of_a_named_run_is_kept_for_its_user_alone():
    assert run_token("mine") == run_token("mine") != run_token("yours")
    files = list((user_folder() / "runs").iterdir())
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert (user_folder() / "runs").stat().st_mode & 0o777 == 0o700
    files[0].write_bytes(b"short")
    with pytest.raises(UserError, match="not the token of a run"):
        [run_token(name) for name in ("mine", "yours")]
