"""Rewards in processes of their own: one that raises, hangs, ends or gives no number costs one score."""

import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.language.reward_functions import contains, pattern, program
from neuro_cli.task.language.reward_pool import RewardPool

CODE = """
import os, time
print("printed at import")
def bad(prompt, answer, target, factor=1):
    print(input.__name__)
    if answer == "hang": time.sleep(600)
    if answer == "end": os._exit(3)
    if answer == "raise": raise KeyError("x")
    return {"nan": float("nan"), "text": "text"}.get(answer, factor * len(answer))
def places(prompt, answer, target):
    import numpy
    right = [mine == wanted for mine, wanted in zip(answer, target)]
    return {"array": numpy.array([0.5, 1.0]), "part": [1.0, float("nan")], "deep": [[1.0]]}.get(answer, right)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_rewards.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "my_rewards"


def test_a_failure_costs_one_score_and_is_said_once(module, caplog):
    pool = RewardPool(f"{module}.bad", {"factor": 2}, 2.0, -1.0, ("p", "a", "t"))
    answers = ["abc", "raise", "nan", "text", "end", "ab", "hang", "a"]
    made = pool.rewards([("p", answer, "t") for answer in answers])
    assert [reward for reward, _ in made] == [6.0, -1.0, -1.0, -1.0, -1.0, 4.0, -1.0, 2.0]
    assert [failed for _, failed in made] == [False, True, True, True, True, False, True, False]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == f"task.reward={module}.bad: a call failed (KeyError: 'x'): its answer gets task.reward_failed=-1"


def test_numbers_by_places_count_as_their_mean(module):
    pool = RewardPool(f"{module}.places", {}, 60.0, -1.0, ("p", "abcd", "abcd"))
    made = pool.rewards([("p", answer, "abcd") for answer in ("abcd", "abdc", "array", "part", "deep", "")])
    assert made == [(1.0, False), (0.5, False), (0.75, False), (-1.0, True), (-1.0, True), (-1.0, True)]


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("my_rewards.other", {}, "it cannot be imported: AttributeError: module 'my_rewards' has no attribute 'other'"),
        ("my_rewards.bad", {"size": 1}, "reward('p', 'a', 't') fails: TypeError: bad() got an unexpected keyword argument"),
    ],
)
def test_a_reward_that_cannot_be_called_is_refused_at_once(module, name, options, said):
    with pytest.raises(ConfigError) as error:
        RewardPool(name, options, 5.0, 0.0, ("p", "a", "t"))
    assert str(error.value).startswith(f"task.reward={name}: {said}")


def test_built_in_rewards():
    assert [contains("", text, "12") for text in ("it is 12.", "123", "12")] == [1, 0, 1]
    others = ("x = -12", "\N{MINUS SIGN}12", "0.12", ".12", "12.5", "12,000", "7,12")
    assert not any(contains("", text, "12") for text in others)
    assert [contains("", text, "12") for text in ("15-12", "3, 12, 4", "$12$", "a 12-year-old", "x=12.")] == [1] * 5
    assert [contains("", text, "-12") for text in ("x = -12", "12")] == [1, 0]
    assert [pattern("", text, r"\d+") for text in ("12", "12a", " 7 ")] == [1, 0, 1]
    assert pattern("", "ab", "9", expression="[ab]+") == 1
    command = ["sh", "-c", 'test "$1" = "$2" && test "$(cat)" = "$1"', "sh", "{answer}", "{target}"]
    assert [program("", text, "x{answer}", command=command) for text in ("x{answer}", "y")] == [1, 0]
