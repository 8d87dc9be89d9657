"""Threads that share a list of work."""

import threading
import time
from contextvars import ContextVar

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Modes, Threads, threads_kept


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


def tangent(x: torch.Tensor) -> torch.Tensor:
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1]


def in_double(item: int) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    try:
        return torch.full((2,), float(item))
    finally:
        torch.set_default_dtype(torch.float32)


def weight_of(layer: torch.nn.Module) -> torch.Tensor:
    with parametrize.cached():
        return layer.weight.detach().clone()


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("what", ["jvp", "cached", "dtype"])
def test_what_torch_has_once_a_process_is_used_in_turn(caplog, what: str, swallows: bool) -> None:
    """Also where a module catches what tells of it."""
    threads, made = Threads(3), {}
    layers = [parametrizations.weight_norm(torch.nn.Linear(2, 2)) for _ in range(6)]
    uses = {
        "jvp": lambda item: tangent(torch.tensor(float(item))),
        "cached": lambda item: weight_of(layers[item]),
        "dtype": in_double,
    }

    def work(item: int) -> None:
        time.sleep(0.001)  # others begin too
        try:
            made[item] = uses[what](item)
        except RuntimeError:
            if not swallows:
                raise

    for _ in range(2):
        threads.passes(work, range(6))
        wanted = {"jvp": lambda item: torch.tensor(float(item)).cos(), "cached": lambda item: layers[item].weight}
        wanted["dtype"] = lambda item: torch.full((2,), float(item), dtype=torch.float64)
        for item in range(6):
            torch.testing.assert_close(made[item], wanted[what](item).detach())
    [record] = caplog.records
    assert "in turn" in record.getMessage()
    assert not parametrize._cache_enabled
    with pytest.raises(ConfigError, match=r"threads=2: 1: forward derivatives"):
        Threads(2).passes(uses[what], range(2), repeats=False)
    threads.close()


@pytest.mark.parametrize("what", ["passes", "a step"])
def test_other_threads_use_what_torch_has_once_a_process_meanwhile(caplog, what: str) -> None:
    """As those of a web server in the same program do, which also ends contexts that began before."""
    threads, layer, used = Threads(2), parametrizations.weight_norm(torch.nn.Linear(2, 2)), []
    begun, scoring, done = (threading.Event() for _ in range(3))

    def stranger() -> None:
        with parametrize.cached():
            begun.set()
            scoring.wait(60)
        torch.set_default_dtype(torch.float32)
        used.append(tangent(torch.zeros(1)))
        used.append(weight_of(layer))
        done.set()

    def work(item: int) -> None:
        scoring.set()
        done.wait(60)

    other = threading.Thread(target=stranger)
    other.start()
    begun.wait(60)
    if what == "passes":
        threads.passes(work, range(2))
    else:
        with threads_kept():
            work(0)
    other.join()
    torch.testing.assert_close(used, [torch.ones(1), layer.weight.detach()])
    assert not caplog.records
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2.0)
    torch.testing.assert_close(layer.weight, 2 * used[1])  # nothing is cached for good
    threads.close()


def test_passes_of_others_meanwhile_are_not_put_in_turn(caplog) -> None:
    one, other = Threads(2), Threads(2)
    began, ended = threading.Event(), threading.Event()

    def work(item: int) -> None:
        began.set()
        ended.wait(60)

    meanwhile = threading.Thread(target=one.passes, args=(work, range(2)))
    meanwhile.start()
    began.wait(60)
    other.passes(in_double, range(2))
    ended.set()
    meanwhile.join()
    assert len(caplog.records) == 1
    one.close()
    other.close()


def test_functions_of_torch_are_the_scripts_own_after_passes(monkeypatch) -> None:
    threads, own = Threads(2), [lambda *_: None, lambda *_: None]
    monkeypatch.setattr(torch._C, "_set_default_dtype", own[0])
    threads.passes(lambda _: None, range(2))
    assert torch._C._set_default_dtype is own[0]
    threads.passes(lambda _: setattr(torch._C, "_set_default_dtype", own[1]), range(2))
    assert torch._C._set_default_dtype is own[1]
    threads.close()


def test_values_that_are_set_already_are_set_by_threads(caplog) -> None:
    """As torch.compile sets them after each compilation."""
    threads, compiled = Threads(2), torch.compile(lambda x: x.sin(), backend="eager")
    threads.passes(lambda item: compiled(torch.ones(3 + item)), range(2))
    assert "in turn" not in caplog.text
    threads.passes(lambda _: torch.use_deterministic_algorithms(True), range(2))
    torch.use_deterministic_algorithms(False)
    assert "in turn" in caplog.text
    threads.close()


def test_a_torch_without_these_functions_scores_in_turn(caplog, monkeypatch) -> None:
    monkeypatch.setattr("neuro_cli.core.machine.threads.missing", "torch 9 has no torch._C._set")
    threads, met = Threads(2), set()
    threads.passes(lambda _: met.add(threading.get_ident()), range(9), repeats=False)
    assert met == {threading.get_ident()}
    assert "torch 9 has no torch._C._set" in caplog.text
    threads.close()


def test_weights_cached_around_a_call_are_no_members() -> None:
    layer = parametrizations.weight_norm(torch.nn.Linear(2, 2))
    with parametrize.cached():
        before = layer.weight.detach().clone()
        with threads_kept(), torch.no_grad():
            layer.parametrizations.weight.original0.mul_(2.0)
            torch.testing.assert_close(layer.weight, 2 * before)
        torch.testing.assert_close(layer.weight, before)


def test_calls_that_write_to_what_all_have_are_made_in_turn(caplog) -> None:
    threads, table, made = Threads(2), {}, {}

    def work(item: int) -> None:
        table["item"] = item
        time.sleep(0.001)
        made[item] = table["item"]

    threads.passes(work, range(8), wrote=lambda: "dict of 1")
    assert made == {item: item for item in range(8)}
    assert "outside of its member, which threads have in common (dict of 1): members are scored in turn" in caplog.text
    threads.close()
