"""Peers that the collector waits for, and late reports. Time is a number here."""

import numpy as np

from neuro_cli.evolve.collector import Collector, ScoreReport
from neuro_cli.selection.base import Scores


def report(iteration: int, first: int = 0) -> ScoreReport:
    return ScoreReport(Scores(iteration, first, np.array([1.0, 2.0], np.float32)), 2, np.array([1.5, 0.0], np.float32))


ALL = {"a", "b", "c"}


def working() -> Collector:
    """Three peers that are all at iteration 0."""
    collector = Collector(5.0)
    collector.begin(0)
    for peer in ALL:
        collector.progress(peer, 0)
    return collector


def test_all_who_work_are_waited_for_until_the_deadline():
    collector = working()
    assert not collector.ready(ALL, 0.0)
    assert collector.take("a", report(0, 0), 1.0)
    assert collector.take("b", report(0, 2), 2.0)
    assert collector.awaited(ALL) == {"c"}
    assert not collector.ready(ALL, 5.9)
    assert collector.ready(ALL, 6.0)
    assert collector.take("c", report(0, 4), 5.0)
    assert collector.ready(ALL, 5.0)


def test_nobody_waits_for_one_that_is_gone_or_still_replays():
    collector = working()
    collector.take("a", report(0, 0), 1.0)
    collector.take("b", report(0, 2), 1.0)
    assert collector.ready({"a", "b"}, 1.0)
    collector.begin(1)
    collector.begin(2)
    collector.take("a", report(2, 0), 2.0)
    assert collector.awaited({"a", "c"}) == set()


def test_a_slow_peer_is_not_waited_for_again_until_it_was_in_time():
    collector = working()
    collector.take("a", report(0, 0), 0.0)
    collector.take("b", report(0, 2), 0.0)
    collector.begin(1)  # at the deadline, without c
    assert not collector.take("c", report(0, 4), 9.0)
    assert collector.too_late == 1
    for peer, first in (("a", 0), ("b", 2)):
        collector.take(peer, report(1, first), 10.0)
    assert collector.ready(ALL, 10.0)
    collector.take("c", report(1, 4), 10.0)
    collector.begin(2)
    collector.take("a", report(2, 0), 11.0)
    collector.take("b", report(2, 2), 11.0)
    assert collector.awaited(ALL) == {"c"}


def test_one_that_was_only_not_waited_for_is_waited_for_next_time():
    collector = working()
    collector.forget("c")
    collector.take("a", report(0, 0), 0.0)
    collector.begin(1)
    collector.take("c", report(0, 4), 0.5)  # within the deadline of that iteration
    collector.take("a", report(1, 0), 1.0)
    assert "c" in collector.awaited(ALL)


def test_a_late_report_is_dropped():
    collector = working()
    collector.take("a", report(0, 0), 0.0)
    collector.begin(1)
    collector.take("c", report(0, 4), 1.0)
    collector.take("a", report(1, 0), 1.0)
    assert [one.scores.iteration for one in collector.all_reports()] == [1]


def test_a_report_that_is_sent_again_counts_once():
    collector = working()
    for _ in range(2):
        assert collector.take("a", report(0, 0), 0.0)
    collector.begin(1)
    assert collector.take("a", report(0, 0), 0.1)
    assert (collector.all_reports(), collector.too_late) == ([], 0)


def test_two_peers_cannot_bring_the_same_member():
    collector = working()
    assert collector.take("a", report(0, 10), 0.0)
    assert not collector.take("b", report(0, 11), 0.0)
    assert len(collector.all_reports()) == 1


def test_one_that_is_there_is_at_work_once_it_says_so():
    collector = Collector(5.0)
    collector.begin(0)
    collector.progress("a", 0)
    collector.progress("b", -1)  # connected, and still loading
    assert collector.at_work(ALL) == {"a"}
    collector.take("b", report(0, 2), 0.0)
    assert collector.at_work(ALL) == {"a", "b"}


def test_a_dropped_report_counts_no_more_and_is_not_waited_for():
    collector = working()
    collector.take("a", report(0, 0), 0.0)
    collector.take("b", report(0, 2), 0.0)
    collector.drop("b")
    assert not collector.take("b", report(0, 2), 0.1)
    assert collector.awaited(ALL) == {"c"}
    assert list(collector.reports) == ["a"]
    collector.begin(1)
    assert collector.take("b", report(1, 2), 0.2)
