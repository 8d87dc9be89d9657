"""The scorer of a run: by the task's word, else by sampler and number of examples; words that name none are refused."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from support.configs import composed

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import base
from neuro_cli.scoring.base import Scorer
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.choice import scorer_of
from neuro_cli.scoring.episodes import EpisodeScorer
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.task.digits import Digits

SMALL = ("population=8", "batch_size=16", "threads=1", "model=MNIST_10K")
EPISODES = ("task=lunar_lander", "task.id=CartPole-v1", "model=mlp_policy", "population=8", "threads=1")


def scorer(*overrides: str) -> Scorer:
    return build(Options(composed(*overrides)), SingleProcess()).distribution.job.scorer


@pytest.mark.parametrize(
    ("overrides", "kind", "examples"),
    [
        (SMALL, MemberScorer, 16),
        ((*SMALL, "sampler=low_rank"), MemberScorer, 16),
        ((*SMALL, "sampler=low_rank", "batch_size=8"), BatchedScorer, 8),
        ((*SMALL, "sampler=low_rank", "layout=per_example"), BatchedScorer, 4),
        ((*SMALL, "batch_size=8"), MemberScorer, 8),
        ((*EPISODES, "task.episodes=3"), EpisodeScorer, 3),
    ],
)
def test_task_sampler_and_examples_choose(overrides, kind, examples):
    if overrides[0] == "task=lunar_lander":
        pytest.importorskip("gymnasium")
    chosen = scorer(*overrides)
    assert type(chosen) is kind
    assert chosen.examples == examples


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("asked", "precisely", "line"), [
    ("rounds_float32", "float32", base.ROUNDED), ("lacks_bfloat16", "bfloat16", base.UNSUPPORTED_BFLOAT16),
])  # fmt: skip
def test_products_that_are_rounded_or_slow_are_said_once_where_they_are_asked_for(
    asked, precisely, line, precision, monkeypatch, caplog
):
    monkeypatch.setattr(base, asked, lambda: True)
    settings = scorer(*SMALL, f"precision={precision}").settings
    Scorer.__init__(object.__new__(MemberScorer), settings)
    assert caplog.text.count(line) == (precision == precisely)


class Mistyped(Digits):
    scored_by = "epsiodes"


class Unplayable(Digits):
    """Says that it is scored by episodes and has none."""

    scored_by = "episodes"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (Mistyped, r"^Mistyped\.scored_by=epsiodes: must be one of examples, episodes, batch$"),
        (Unplayable, r"^Unplayable\.scored_by=episodes: .* derives from neuro_cli\.task\.reinforcement\.\w*\.?Reinforcement$"),
    ],
)
def test_a_word_that_names_no_scorer_of_the_task_is_refused_in_one_line(kind, line):
    settings = scorer(*SMALL).settings
    task = kind("negative_cross_entropy", 500)
    with pytest.raises(ConfigError, match=line):
        scorer_of(replace(settings, task=task), torch.zeros(settings.layout.size))


@pytest.mark.parametrize("overrides", [(), ("sampler=low_rank", "batch_size=8")], ids=["members", "batched"])
def test_a_scorer_does_not_keep_the_initial_centre(overrides):
    """The centre of a large model is held once, by the algorithm."""
    settings = scorer(*SMALL, *overrides).settings
    centre = torch.zeros(settings.layout.size)
    held = weakref.ref(centre)
    made = scorer_of(settings, centre)
    del centre
    gc.collect()
    assert isinstance(made, Scorer)
    assert held() is None
