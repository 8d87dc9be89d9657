"""Threads that share a list of work."""

import threading
from contextvars import ContextVar

import pytest
import torch

from neuro_cli.core.machine.threads import Modes, Threads


@pytest.mark.parametrize("count", [2, 3])
def test_every_item_has_its_turn_once_whatever_fails(count: int) -> None:
    threads, done = Threads(count), []

    def work(item: int) -> None:
        done.append(item)
        if item in (4, 7):
            raise ValueError(item)

    with pytest.raises(ValueError, match="4"):  # the first of the items, not of the failures
        threads.map(work, range(10))
    assert sorted(done) == list(range(10))
    threads.close()


def test_the_calling_thread_works_beside_the_others() -> None:
    threads, meeting, names = Threads(3), threading.Barrier(3, timeout=30), []

    def work(item: int) -> None:
        meeting.wait()  # three that run at once
        names.append(threading.current_thread().name)

    threads.map(work, range(3))
    assert threading.current_thread().name in names
    assert len(set(names)) == 3
    threads.close()


def test_a_single_item_is_done_by_the_calling_thread() -> None:
    threads, names = Threads(2), []
    threads.map(lambda item: names.append(threading.current_thread().name), ["one"])
    assert names == [threading.current_thread().name]
    threads.close()


def test_work_may_share_out_work_of_its_own() -> None:
    threads, done = Threads(2), []
    threads.map(lambda item: threads.map(lambda part: done.append((item, part)), range(3)), range(4))
    assert sorted(done) == [(item, part) for item in range(4) for part in range(3)]
    threads.close()


def test_after_an_interrupt_nothing_more_begins() -> None:
    threads, began, free = Threads(2), [], threading.Event()

    def work(item: int) -> None:
        began.append(item)
        if threading.current_thread() is threading.main_thread():
            free.set()
            raise KeyboardInterrupt
        free.wait(30)

    with pytest.raises(KeyboardInterrupt):
        threads.map(work, range(1000))
    assert len(began) < 1000
    threads.close()


def test_the_others_work_in_the_modes_and_context_of_the_calling_thread() -> None:
    threads, meeting, met = Threads(2), threading.Barrier(2, timeout=30), []
    variable: ContextVar[str] = ContextVar("variable", default="none")
    variable.set("set")

    def work(item: int) -> None:
        met.append((str(Modes.present()), variable.get()))
        meeting.wait()

    with torch.no_grad(), torch.autocast("cpu"):
        threads.map(work, range(2))
        assert met == [(str(Modes.present()), "set")] * 2
    met.clear()
    threads.map(work, range(2))
    assert met == [(str(Modes()), "set")] * 2
    threads.close()
