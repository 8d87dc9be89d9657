"""From numbers to verdicts: expectations by their properties, values out of hand-made files, tables written and read back."""

import json
import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.core.errors import UserError
from neuro_cli.reproduce.entry import EntryRow
from neuro_cli.reproduce.outputs import measured
from neuro_cli.reproduce.plot import plot
from neuro_cli.reproduce.results import RowResult, counts, facts, shown, spread, table, verdict_words, write_results
from neuro_cli.reproduce.verdict import (
    AS_EXPECTED,
    FAILED,
    NOT_AS_EXPECTED,
    NOT_JUDGED,
    NOT_MEASURABLE,
    NOT_REACHED,
    NOT_REPRODUCED,
    PUBLISHED,
    REFERENCE,
    REPRODUCED,
    Expectation,
    judge,
)

positive = st.floats(1e-6, 1e6)
factors = st.floats(0.1, 10.0)


@given(positive, positive, factors, st.floats(0.0, 1.0))
def test_a_bound_holds_for_all_that_is_better(value, reference, times, better):
    most, least = Expectation("at_most", PUBLISHED, times), Expectation("at_least", PUBLISHED, times)
    assert most.holds(value, reference) or least.holds(value, reference)
    if most.holds(value, reference):
        assert most.holds(value * better, reference)
    if least.holds(value * better, reference):
        assert least.holds(value, reference)


@given(positive, st.floats(0.0, 0.9), st.floats(-2.0, 2.0))
def test_near_is_a_relative_deviation(reference, within, share):
    value = reference * (1 + share * within)
    if abs(share) < 0.999:
        assert Expectation("near", PUBLISHED, within=within).holds(value, reference) or within < 1e-9
    if abs(share) > 1.001 and within > 1e-9:
        assert not Expectation("near", PUBLISHED, within=within).holds(value, reference)


@given(st.lists(st.sampled_from(["holds", "breaks", "for a GPU", "unmeasured"]), max_size=6), st.booleans(), st.booleans())
def test_a_row_is_reproduced_when_all_that_is_expected_of_it_is_judged_and_holds(kinds, gpu, published):
    made = {
        "holds": Expectation("at_most", PUBLISHED if published else 2.0),
        "breaks": Expectation("at_least", 2.0),
        "for a GPU": Expectation("at_most", 2.0, gpu=True),
        "unmeasured": Expectation("at_most", "other"),
    }
    verdict = judge(1.0, [made[kind] for kind in kinds], {PUBLISHED: 2.0, "other": None}, gpu)
    judged = [kind for kind in kinds if kind in ("holds", "breaks") or (kind == "for a GPU" and gpu)]
    compared = published and "holds" in kinds
    if not kinds:
        assert verdict.word == REFERENCE
    elif "breaks" in judged:
        assert verdict.word == (NOT_REPRODUCED if compared else NOT_AS_EXPECTED)
        assert "not ≥ 2" in verdict.reason
    elif len(judged) == len(kinds):
        assert verdict.word == (REPRODUCED if compared else AS_EXPECTED)
        assert verdict.reason == ""
    else:
        assert verdict.word == NOT_MEASURABLE
        assert verdict.reason.count(" holds") == len(judged)
    assert ("that was not measured" in verdict.reason) == ("unmeasured" in kinds)


@pytest.mark.parametrize(
    ("value", "tried", "expectation", "other", "word", "reason"),
    [
        (math.inf, 6.0, Expectation("at_most", PUBLISHED), 1.0, NOT_REPRODUCED, "not reached in 6 minutes; not ≤ published"),
        (math.inf, 0.5, Expectation("at_most", PUBLISHED), 1.0, NOT_REACHED, "not reached in 0.5 minutes; ≤ published is"),
        # no order is known of a run that never got there: neither its own nor that of others to it
        (math.inf, 15.0, Expectation("at_least", "other"), 1.0, NOT_REACHED, "not reached in 15 minutes; ≥ “other” is not"),
        (0.6, None, Expectation("at_most", "other"), math.inf, NOT_JUDGED, "≤ “other” is not judged, that was never reached"),
        (
            math.inf,
            15.0,
            Expectation("at_most", "other"),
            math.inf,
            NOT_REACHED,
            "not reached in 15 minutes; ≤ “other” is not",
        ),
        (0.6, None, Expectation("at_most", "other"), 0.7, AS_EXPECTED, ""),
        (0.6, None, Expectation("at_most", PUBLISHED), 0.7, REPRODUCED, ""),
        (0.6, None, Expectation("at_least", 0.7), 0.7, NOT_AS_EXPECTED, "not ≥ 0.7"),
        (math.inf, 15.0, None, 1.0, REFERENCE, "not reached in 15 minutes"),
    ],
)
def test_a_goal_that_was_never_reached_reproduces_no_order(value, tried, expectation, other, word, reason):
    references = {PUBLISHED: 5.67 if other > 1 else 1.0, "other": other}
    found = judge(value, [expectation] if expectation else [], references, False, tried, "minutes")
    assert found.word == word
    assert found.reason.startswith(reason)
    assert "inf" not in found.reason


def test_an_expectation_says_what_it_is():
    assert str(Expectation("at_most", PUBLISHED, 1.25)) == "≤ 1.25 x published"
    assert str(Expectation("at_least", "iid", 0.95)) == "≥ 0.95 x “iid”"
    assert str(Expectation("near", "SU", within=0.15)) == "≈ “SU” ± 15%"
    assert str(Expectation("at_most", 1e-10)) == "≤ 1e-10"


ROW = EntryRow("r", "a", "out.csv", "seconds", {"what": "iid", "round": 1}, {}, "median", None, "s", None, ())


@pytest.fixture
def folder(tmp_path) -> Path:
    lines = ["what,round,seconds,least,most,ended", "iid,1,3.0,2.5,3.5,goal", "iid,1,5.0,4.5,5.5,budget", "iid,1,4.0,3,6,goal"]
    (tmp_path / "out.csv").write_text("\n".join([*lines, "iid,2,100,,,goal", "flip,1,,,,goal"]) + "\n")
    summary = {"test_accuracy": 0.5, "first": {"median": 0.25, "none": None}, "rows": [{"p": 1.5}]}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def test_a_number_is_the_middle_of_the_rows_that_are_meant(folder, tmp_path):
    value = measured(ROW, [folder / "empty", folder])
    assert (value.value, value.least, value.most) == (4.0, 3.0, 5.0)
    assert measured(replace(ROW, reduce="mean"), [folder]).value == 4.0
    value = measured(replace(ROW, spread=("least", "most")), [folder])
    assert (value.least, value.most) == (2.5, 6.0)
    assert measured(replace(ROW, file="summary.json", value="first.median"), [folder]).value == 0.25
    assert measured(replace(ROW, file="summary.json", value="rows.0.p"), [folder]).value == 1.5


def test_a_goal_that_was_not_reached_counts_as_slowest(folder):
    once = measured(replace(ROW, never={"ended": "budget"}), [folder])
    assert (once.value, once.least, once.most, once.tried) == (4.0, 3.0, math.inf, 5.0)
    assert measured(ROW, [folder]).tried is None
    mostly = measured(replace(ROW, where={"what": "iid"}, never={"round": 1}), [folder])
    assert mostly.value == math.inf


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"file": "other.csv"}, "r: the run left no other.csv"),
        ({"where": {"what": "signs"}}, "r: out.csv has no row with what=signs"),
        ({"where": {"what": "flip"}}, "r: out.csv: seconds: no number there, but ''"),
        ({"value": "hours"}, "r: out.csv: hours: no number there, but None"),
        ({"file": "summary.json", "value": "first.none"}, "r: summary.json: first.none: no number there, but None"),
        ({"file": "summary.json", "value": "first.0.none"}, "r: summary.json: first.0.none: no number there, but None"),
        ({"file": "summary.json", "value": "second.median"}, "r: summary.json: second.median: no number there, but None"),
    ],
)
def test_a_number_that_is_not_there_is_named(folder, changes, told):
    with pytest.raises(UserError) as refused:
        measured(replace(ROW, **changes), [folder])
    assert str(refused.value) == told


KEPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "results.py"))
HOW = {"command": "neuro bench", "date": "today", "git_revision": "abc", "machine": "a processor, 2 cores, no GPU, python 3"}
NEVER = {"command": "neuro x", "date": "", "git_revision": "", "machine": ""}
RESULTS = [
    RowResult("t", "quick", "iid", "times", 43.0, 106.25, 80.0, 150.5, "≥ “signs”", REPRODUCED, "", **HOW),
    RowResult("t", "quick", "signs | both", "times", None, 1e-13, 1e-13, 1e-13, "≤ 1", NOT_REPRODUCED, "not ≤ 1", **HOW),
    RowResult("t", "quick", "ddpg", "minutes", None, math.inf, 3.0, math.inf, "", REFERENCE, "", **HOW),
    RowResult("t", "quick", "gpu", "times", 2.0, None, None, None, "≤ published", NOT_MEASURABLE, "there is no GPU", **NEVER),
    RowResult("t", "quick", "bad", "numbers", 2.0, None, None, None, "≤ published", FAILED, "exit code 1", **HOW),
]


def test_a_table_is_read_back_as_it_was_written(tmp_path):
    write_results(tmp_path / "t.csv", RESULTS)
    assert KEPT["read_results"](tmp_path / "t.csv") == RESULTS


def test_markdown_shows_both_sides_and_the_verdict():
    lines = table(RESULTS).splitlines()
    assert lines[2] == "| iid | times | 43 | 106.2 (80 to 150.5) | 2.47 | ≥ “signs” | reproduced |"
    assert lines[3] == "| signs \\| both | times |  | 1e-13 |  | ≤ 1 | not reproduced: not ≤ 1 |"
    assert lines[4] == "| ddpg | minutes |  | not reached (3 to not reached) |  |  | reference |"
    assert lines[5] == "| gpu | times | 2 |  |  | ≤ published | not measurable here: there is no GPU |"
    assert counts(RESULTS) == "1 reproduced, 1 not reproduced, 1 not measurable here, 1 failed"
    assert KEPT["summary"]({"results/t.md": RESULTS}).splitlines()[2] == (
        f"| [t](results/t.md) | quick | {counts(RESULTS)} | a processor, 2 cores, no GPU | today |"
    )
    rows = [line.split(" | ")[1] for line in KEPT["headlines"]({"t.md": RESULTS}).splitlines()[2:-2]]
    assert rows == ["iid", "gpu", "bad"]
    unknown = [replace(result, published=None) for result in RESULTS]
    assert len(KEPT["headlines"]({"t.md": unknown}).splitlines()) == 2 + 3 + 2
    told = facts(RESULTS)
    assert told.count("neuro bench") == 1
    assert "neuro x" not in told  # it never ran
    assert "git revision abc" in told


@pytest.mark.parametrize(("value", "text"), [(None, ""), (3274634.0, "3,274,634"), (0.95316, "0.9532"), (0.0, "0"), (-7.0, "-7")])
def test_numbers_are_short_and_whole_where_they_count(value, text):
    assert shown(value) == text


def test_the_figure_is_the_same_file_for_the_same_numbers(tmp_path):
    for stem in ("one", "two"):
        (tmp_path / stem).mkdir()
        plot("a title", RESULTS, tmp_path / stem / "t")
    svg = (tmp_path / "one" / "t.svg").read_text()
    assert svg == (tmp_path / "two" / "t.svg").read_text()
    assert "a processor, 2 cores, no GPU" in svg
    for word in ("a title", "signs | both", "106.2", "not reached", "published", "measured: not measurable here"):
        assert word in svg
    assert (tmp_path / "one" / "t.png").stat().st_size > 10_000
    assert spread(RESULTS[0]) == "106.2 (80 to 150.5)"


def test_a_bound_itself_is_met():
    assert Expectation("at_most", PUBLISHED, 2.0).holds(3.0, 1.5)
    assert Expectation("at_least", PUBLISHED, 2.0).holds(3.0, 1.5)


def test_a_verdict_and_its_reason_say_nothing_twice():
    late = replace(RESULTS[3], verdict=NOT_REACHED, reason="not reached in 3 minutes; not judged")
    assert verdict_words(late) == "not reached in 3 minutes; not judged"
    assert verdict_words(RESULTS[3]) == "not measurable here: there is no GPU"
    assert verdict_words(RESULTS[0]) == "reproduced"
