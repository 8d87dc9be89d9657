"""Malformed messages are refused with the wrong field, and shown without characters that a terminal would obey."""

from dataclasses import replace

import numpy as np
import pytest
from node_lab import COLUMNS, LIMITS, POPULATION, own_first, report_on

from neuro_cli.election.fields import printable, shown
from neuro_cli.evolve.collector import ScoreReport, message_of, misfit, report_of
from neuro_cli.evolve.ledger.record import MEMBERS
from neuro_cli.evolve.network.messages import FIELDS, MalformedError, checked
from neuro_cli.selection.base import Scores

ME = f"{'0' * 32}@127.0.0.1:7"


def test_a_report_comes_back_as_it_was():
    report = report_on(ME, 5)
    found = report_of(ME, checked(message_of(report), "report"), LIMITS)
    assert (found.scores.iteration, found.scores.first, found.members) == (5, own_first(ME, 5), POPULATION)
    assert found.scores.fitness.tolist() == report.scores.fitness.tolist()
    assert found.means.tolist() == report.means.tolist()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"n": -180}, "report: n=-180 is not an integer from 1"),
        ({"n": 0}, "n=0 is not"),
        ({"n": 2**63}, "n=9223372036854775808 is not"),
        ({"n": 2**33}, "on 8589934592 members, a peer scores 4"),
        ({"n": True}, "n=True is not"),
        ({"n": 4.0}, "n=4.0 is not"),
        ({"m": -5}, "m=-5 is not"),
        ({"m": 2**40}, f"m={2**40} is not an integer from 0 to {MEMBERS - 1}"),
        ({"m": 1}, "on members 1 to 4, which are not its own"),
        ({"i": 2**32}, "i=4294967296 is not"),
        ({"i": -1}, "i=-1 is not"),
        ({"i": 6}, "which are not its own"),
        ({"f": b""}, "f=.* is not float64 numbers"),
        ({"f": b"abcd"}, "is not float64 numbers"),
        ({"f": "abcdefgh"}, "is not float64 numbers"),
        ({"f": np.full(4, np.nan, "<f8").tobytes()}, "not finite"),
        ({"f": np.full(5, 1, "<f8").tobytes()}, "which are not its own"),
        ({"a": np.full(3, 1, "<f4").tobytes()}, "with 3 score columns, this task has 2"),
        ({"a": np.array([1, np.inf], "<f4").tobytes()}, "not finite"),
        ({"more": 1}, "report: the fields"),
        ({"k": "repord"}, "repord where report is expected"),
        ({"k": None}, "no kind where report is expected"),
    ],
)
def test_what_no_peer_can_have_found_is_refused(change, why):
    with pytest.raises(MalformedError, match=why):
        report_of(ME, checked(message_of(report_on(ME, 5)) | change, "report"), LIMITS)


def test_a_report_is_of_its_senders_own_members():
    with pytest.raises(MalformedError, match="not its own"):
        report_of(ME.replace("0", "1"), message_of(report_on(ME, 5)), LIMITS)
    best = ScoreReport(Scores(5, own_first(ME, 5) + 3, np.ones(1, np.float32)), POPULATION, np.ones(COLUMNS, np.float32))
    assert report_of(ME, message_of(best), LIMITS).scores.first == own_first(ME, 5) + 3  # selection=max


STRIDE = 6
SEVERAL = replace(LIMITS, local_iterations=3, stride=STRIDE)


def sequence(**changes):
    first = own_first(ME, 5)
    scores = Scores(5, first + 2 * STRIDE + 1, np.ones(1, np.float32), (first + 3, first + STRIDE))
    return message_of(ScoreReport(scores, 3 * POPULATION, np.ones(COLUMNS, np.float32))) | changes


def test_a_sequence_of_local_iterations_comes_back_as_it_was():
    found = report_of(ME, checked(sequence(), "report", "sequence"), SEVERAL)
    first = own_first(ME, 5)
    assert (found.scores.path, found.scores.first) == ((first + 3, first + STRIDE), first + 2 * STRIDE + 1)
    assert message_of(found) == sequence()


@pytest.mark.parametrize(
    ("change", "limits", "why"),
    [
        ({"p": [own_first(ME, 5)]}, SEVERAL, "of 2 local iterations, a peer makes 3"),
        ({"p": [own_first(ME, 5), own_first(ME, 5)]}, SEVERAL, "in local iteration 1, which is not its own"),
        ({"p": [own_first(ME, 5) + POPULATION, own_first(ME, 5) + STRIDE]}, SEVERAL, "in local iteration 0, which"),
        ({"m": own_first(ME, 5)}, SEVERAL, "which are not its own"),
        ({"n": POPULATION}, SEVERAL, "on 4 members, a peer scores 12"),
        ({}, LIMITS, "on 12 members, a peer scores 4"),
        ({"n": POPULATION}, LIMITS, "of 3 local iterations, a peer makes 1"),
        ({"p": []}, SEVERAL, "p=.* is not 1 to 255 times"),
        ({"p": [0] * 256}, SEVERAL, "p=.* is not 1 to 255 times"),
        ({"p": [-1, 2]}, SEVERAL, "p=.* is not 1 to 255 times an integer"),
    ],
)
def test_a_sequence_that_no_peer_can_have_found_is_refused(change, limits, why):
    with pytest.raises(MalformedError, match=why):
        report_of(ME, checked(sequence(**change), "report", "sequence"), limits)


@pytest.mark.parametrize("kind", sorted(FIELDS))
def test_every_kind_needs_each_of_its_fields(kind):
    purpose = kind.removeprefix("hello for ")
    message = {"k": "hello", "for": purpose} if purpose != kind else {"k": kind}
    for name in FIELDS[kind]:
        for value in (object(), [[]], b"\x00" * (2**26 + 1), -(2**70)):
            assert not FIELDS[kind][name].holds(value), (name, value)
    if FIELDS[kind]:
        with pytest.raises(MalformedError, match="are not those of its kind"):
            checked(message, kind)
    else:
        assert checked(message, kind) == message
    with pytest.raises(MalformedError, match="are not those of its kind"):
        checked(message | dict.fromkeys([*FIELDS[kind], "x"]), kind)


@pytest.mark.parametrize(
    "value", ["\x1b[31mred\n", b"x" * 10**6, [0] * 10**6, {"a" * 10**5: 1}, 10**5000, "a" * 10**6, "\u202e"], ids=range(7)
)
def test_what_others_send_is_shown_short_and_printable(value):
    text = shown(value)
    assert len(text) < 80
    assert text.isprintable()
    assert printable("a\nb", 10) == r"a\nb"


def test_fitnesses_far_from_0_arrive_as_they_are():
    fitness = 1e8 + np.arange(POPULATION) / 8
    sent = ScoreReport(Scores(5, own_first(ME, 5), fitness), POPULATION, np.ones(COLUMNS, np.float32))
    assert report_of(ME, checked(message_of(sent), "report"), LIMITS).scores.fitness.tolist() == fitness.tolist()


def test_half_a_pair_is_refused_where_pairs_are_shaped():
    first, limits = 2 * own_first(ME, 5), replace(LIMITS, first_member=lambda peer, iteration: 2 * own_first(peer, iteration))
    for start, stop, fits in ((0, 4, True), (2, 4, True), (1, 3, False), (0, 3, False)):
        scores = Scores(5, first + start, np.ones(stop - start))
        report = ScoreReport(scores, POPULATION, np.ones(COLUMNS, np.float32))
        assert misfit(ME, report, limits) == ""
        assert misfit(ME, report, replace(limits, pairs=True)) == ("" if fits else "that splits a mirrored pair")
