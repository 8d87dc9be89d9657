"""``scripts/module_zoo.py``: the kept table, how an outcome is judged, and that a process that dies or hangs is a row."""

import importlib
import runpy
import sys

import pytest
from test_kept_results import ROOT
from torch import nn

SCRIPT = ROOT / "scripts" / "module_zoo.py"
ZOO = runpy.run_path(str(SCRIPT))
KEPT = ROOT / "docs" / "results" / "modules"
ROWS = ZOO["read"](KEPT.with_suffix(".csv"))
# a worker that answers, dies and hangs as it is told
WORKER = """
import json, os, sys, time
served = 0
for line in sys.stdin:
    asked, served = json.loads(line)["family"], served + 1
    if asked == "dies" or (asked == "spoilt" and served > 1):
        os.abort()
    if asked == "hangs":
        time.sleep(600)
    row = {kind: {"way": "fast", "difference": 1e-16, "note": ""} for kind in ("own rows", "shared rows", "step")}
    print(json.dumps(row | {"model": asked, "seconds": 0.1}), flush=True)
"""


@pytest.fixture
def zoo(monkeypatch):
    """Modules of scripts/zoo, by name."""
    monkeypatch.syspath_prepend(ROOT / "scripts" / "zoo")
    yield importlib.import_module
    for name in ("checks", "subjects", "zoo_torchvision"):
        sys.modules.pop(name, None)


def test_the_page_is_what_the_table_says():
    assert KEPT.with_suffix(".md").read_text() == ZOO["page"](ROWS)


def test_a_process_that_dies_or_hangs_is_a_row():
    asked = [{"zoo": "timm", "family": family} for family in ("first", "dies", "hangs", "spoilt", "last")]
    found = {row["family"]: row for row in ZOO["rows_of"]([sys.executable, "-c", WORKER], asked, 1, 3.0)}
    assert [found[family]["step"] for family in ("first", "dies", "hangs", "spoilt", "last")] == [
        "fast", "abort", "hang", "fast", "fast",
    ]  # fmt: skip
    assert found["dies"]["own rows note"] == "exit code -6"
    assert found["hangs"]["step note"] == "over 3 s"
    spoilt = {row["family"]: row for row in ZOO["rows_of"]([sys.executable, "-c", WORKER], [asked[0], asked[3]], 1, 60.0)}
    assert (spoilt["spoilt"]["step"], spoilt["spoilt"]["step note"]) == ("abort", "only after others in its process")


class Counting(nn.Module):
    """Network that adds what it was called before: no member gives what it gives alone."""

    calls = 0  # of the class, out of the reach of whoever puts a module back

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x):
        Counting.calls += 1
        return self.inner(x) + Counting.calls


def test_a_right_pass_is_told_from_a_wrong_one(zoo, monkeypatch):
    subjects, checks = zoo("subjects"), zoo("checks")
    subject = subjects.Subject("own", "own", 1, "own", "", lambda: nn.Linear(3, 2), subjects.images(3))
    assert checks.fits(subject, 4) == 8
    found = checks.outcomes(subject, "low_rank", 4, 2)
    assert {kind: outcome.way for kind, outcome in found.items()} == dict.fromkeys(ZOO["KINDS"], "fast")
    assert max(outcome.difference for outcome in found.values()) < 1e-6
    right = checks.member_of

    def other(module, noise, member):  # the sides of each direction change places
        return right(module, noise, member ^ 1)

    monkeypatch.setattr(checks, "member_of", other)
    assert [outcome.way for outcome in checks.perturbed(subject, "low_rank", 4, 2)] == ["WRONG", "WRONG"]


def test_a_network_that_does_not_repeat_shows_nothing(zoo):
    subjects, checks = zoo("subjects"), zoo("checks")
    subject = subjects.Subject("own", "own", 1, "own", "", Counting, subjects.images(3))
    assert [outcome.way for outcome in checks.perturbed(subject, "low_rank", 4, 2)] == ["WRONG", "WRONG"]
    with pytest.raises(checks.NothingShownError):
        checks.step(subject, "low_rank", 4, 2)


def test_every_family_of_torchvision_is_listed(zoo):
    subjects = zoo("zoo_torchvision").subjects()
    assert {row["family"] for row in ROWS if row["zoo"] == "torchvision"} == {subject.family for subject in subjects}
    subject = next(subject for subject in subjects if subject.family == "vision_transformer")
    assert zoo("checks").fits(subject, 2) == 24234
