"""Values of options that are refused before torch is imported: which checks of a constructor count, and in which words."""

import ast

import pytest
import yaml
from support.configs import composed

from neuro_cli.algo.base import Algorithm
from neuro_cli.cli import early
from neuro_cli.cli.early import check_options
from neuro_cli.cli.options.groups import groups
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.distribution.method import Method
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.options import Options
from neuro_cli.sampler.base import Estimator
from neuro_cli.task.base import Task

KINDS = {"algo": Algorithm, "sampler": Estimator, "task": Task, "distribution": Method}
MADE = """
LOW, HIGH = 1, 9
FIRST, SECOND = BOTH = "one", "other"

class Base:
    def __init__(self, passed, changed, own):
        integer("base.passed", passed, LOW, HIGH)
        integer("base.changed", changed, 1)
        integer("base.own", own, 1)

class Option(Base):
    def __init__(self, first, passed, changed, own, either, maybe, later, unknown, key="x", none=None):
        self.first = one_of("made.first", first, BOTH)
        super().__init__(passed, changed + 1, own=own or 2)
        if first:
            integer("made.either", either, 1)
        maybe = maybe or 1
        integer("made.maybe", maybe, 1)
        integer("made.unknown", unknown, len(first))
        self.none = None if none is None else integer(f"{key}.none", none, 1)
        self.all = [integer("made.first", first, 100) for _ in passed]
        if either:
            return
        integer("made.later", later, 1)

class Inherits(Option):
    pass
"""


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(early, "_source", lambda module: ast.parse(MADE).body if module == "neuro_cli.made" else [])
    early._checks_of.cache_clear()
    yield
    early._checks_of.cache_clear()


@pytest.mark.parametrize("name", ["Option", "Inherits"])
@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"first": "on"}, r"^made\.first=on: must be one of one, other$"),
        ({"passed": 10}, r"^base\.passed=10: must be an integer from 1 to 9$"),
        ({"none": "abc", "key": "made"}, r"^made\.none=abc: must be an integer >= 1$"),
    ],
)
def test_a_check_in_any_case_is_made(made, name, given, line):
    with pytest.raises(ConfigError, match=line):
        check_options({"deep": [{"_target_": f"neuro_cli.made.{name}", **given}]})


@pytest.mark.parametrize("value", ["abc", "${x}", "???", None])
def test_what_the_constructor_may_not_check_waits_for_it(made, value):
    for name in ("changed", "own", "either", "maybe", "later", "unknown"):
        check_options({"_target_": "neuro_cli.made.Option", name: value})
    if value != "abc":
        check_options({"_target_": "neuro_cli.made.Option", "first": value, "passed": value, "none": value})
    check_options({"_target_": "mine.Option", "first": 5})


WRONG = {
    "algo": [
        "algo.sigma=abc",
        "algo.sigma=-1",
        "algo.average=1",
        "algo.weight_decay=-1",
        "algo.shaping=centered",
        "algo.non_finite=best",
    ],
    "sampler": ["sampler.antithetic=2", "sampler=low_rank sampler.rank=0", "sampler=sign_flip sampler.sides=all"],
    "task": ["task.evaluation_batch=0", "task=text task.unit=word", "task=gymnasium task.simulator=fast"],
    "distribution": [
        "distribution=semi_updates distribution.ranks_shaping=some",
        "distribution=chromosome_updates distribution.wire=8",
    ],
}
WRONG["algo"] += [f"algo={name} algo.sigma=0" for name in ("pgpe", "snes", "ars", "genetic", "xnes", "sep_cma_es", "cr_fm_nes")]
WRONG["algo"] += ["algo.lr_schedule.kind=cosinus", "algo.sigma_schedule.warmup=-1", "algo=genetic algo.parents=0"]


@pytest.mark.parametrize(("group", "typed"), [(group, typed) for group, lines in WRONG.items() for typed in lines])
def test_the_words_are_those_of_the_constructor(group, typed):
    config = composed(*typed.split())
    with pytest.raises(ConfigError) as caught:
        check_options(config)
    with pytest.raises(ConfigError) as later:
        make(Options(config).plain, group, KINDS[group])
    assert str(caught.value) == str(later.value)


def test_the_optimizers_rate_is_checked_whoever_makes_it():
    with pytest.raises(ConfigError, match=r"^algo\.optimizer\.lr=abc: must be a number >= 0$"):
        check_options(composed("algo.optimizer.lr=abc"))
    check_options(composed("algo.optimizer.lr=auto"))


@pytest.mark.parametrize("group", groups())
def test_options_as_they_are_pass(group):
    for option in groups()[group]:
        check_options({group: yaml.safe_load((config_folder() / group / f"{option}.yaml").read_text())})
