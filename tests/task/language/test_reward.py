"""Answers and rewards against plain loops: one pass is what generation gives, parts of a generation are parts of it."""

import csv

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, well
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.trust import refuse_untrusted
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.task.language import generation
from neuro_cli.task.language.reward import Reward


class Adder(nn.Module):
    """Characters to logits of sums, of which every third is wrong in its last digit."""

    def __init__(self, task: Reward) -> None:
        super().__init__()
        self.unit = nn.Parameter(torch.ones(1))
        self._tokens = task.tokens

    def forward(self, tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, self._tokens.size)
        for row, line in enumerate(tokens.tolist()):
            for place in range(tokens.shape[1]):
                text = self._tokens.decode(line[: place + 1]).split("\n")[-1]
                logits[row, place, self._next(text)] = 5.0
        return logits * self.unit

    def _next(self, text: str) -> int:
        if " = " not in text:
            return 0
        asked, _, begun = text.partition(" = ")
        total = sum(map(int, asked.split(" + ")))
        wanted = f"{total // 10}{(total + (total % 3 == 0)) % 10}\n"
        return self._tokens.numbers(wanted[len(begun) : len(begun) + 1] or "\n")[0]


def loaded(batch_size: int = 8, **options) -> Reward:
    task = Reward(**{"test_size": 30, "count": 200, "new_tokens": 5, "evaluation_batch": 16} | options)
    task.load(input_shape=None, device=torch.device("cpu"), seed=3, batch_size=batch_size)
    return task


def share_right(task: Reward, problems) -> list[bool]:
    return [sum(map(int, each.prompt.removesuffix(" = ").split(" + "))) % 3 != 0 for each in problems]


def evaluated(task: Reward, module: nn.Module) -> dict[str, float]:
    return task.evaluation(np.sum([task.evaluate_chunk(module, chunk) for chunk in range(task.evaluation_chunks)], axis=0))


@pytest.mark.parametrize("together", [1, 3])
def test_one_pass_scores_answers_as_a_loop_over_them_does(together):
    scores = {}
    for reward in ("exact_match", "share_of_tokens", "prefix_of_tokens", "log_likelihood"):
        task = loaded(reward=reward, together=together, shots=2)
        module = Adder(task)
        scores[reward] = task.example_scores(module, task.batch(1, 0, 8))
        assert task.batch(2, 0, 8).inputs.shape == (8, 14 * (2 + together) - 1)
    numbers = task._stream.examples(8 * together, 16 * together).tolist()
    right = torch.tensor(share_right(task, [task._training[k] for k in numbers])).float().view(8, together)
    torch.testing.assert_close(scores["exact_match"][:, 0], right.mean(1))
    torch.testing.assert_close(scores["share_of_tokens"][:, 0], ((3 + right) / 4).mean(1))  # three digits and the end
    torch.testing.assert_close(scores["prefix_of_tokens"][:, 0], ((2 + 2 * right) / 4).mean(1))  # the third digit may be wrong
    assert 0 < right.mean() < 1
    torch.testing.assert_close(scores["log_likelihood"][:, 0], -scores["log_likelihood"][:, 1])
    loss = task.loss(module, task.batch(1, 0, 8))
    torch.testing.assert_close(loss, scores["log_likelihood"][:, 1].mean())
    assert loss.requires_grad


def test_generation_gives_the_answer_that_one_pass_calls_exact():
    forced = loaded(reward="exact_match", samples=2, temperature=0.01)
    generated = loaded(reward="contains")
    module = Adder(forced)
    assert task_scores(forced, module) == task_scores(generated, module)
    one, other = evaluated(forced, module), evaluated(generated, module)
    right = np.mean(share_right(forced, forced._test))
    assert one["test_accuracy"] == other["test_accuracy"] == one["pass_at_k"] == one["majority_vote"] == pytest.approx(right)
    assert 0 < right < 1
    assert generated.measures(np.array([0.5, 0.25]), 4, 1.0) == {"reward_failed": 0.25}


@pytest.mark.parametrize("reward", ["contains", "exact_match"])
def test_an_answer_whose_logits_are_no_numbers_is_a_failed_one(reward):
    """The argmax of such logits is a token too, and ``contains`` may find it right."""
    task = loaded(reward=reward, samples=2, reward_failed=-1.0 if reward == "contains" else 0.0)
    module = Adder(task)
    nn.init.constant_(module.unit, torch.nan)
    scores = task.example_scores(module, task.batch(2, 0, 8))
    assert scores[:, 0].tolist() == [-1.0 if reward == "contains" else 0.0] * 8
    if reward == "contains":
        assert scores[:, 1].tolist() == [1.0] * 8
    found = evaluated(task, module)
    assert found["test_accuracy"] == found["pass_at_k"] == found["majority_vote"] == 0.0


def task_scores(task: Reward, module: nn.Module) -> list[float]:
    return task.example_scores(module, task.batch(2, 0, 8))[:, 0].tolist()


def test_a_part_of_a_generation_is_that_part_of_it(tmp_path):
    lines = [f'{{"prompt": "{k}: ", "answer": "{"x" * (k % 7 + 1)}"}}' for k in range(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    task, other = (loaded(problems=str(tmp_path / "a.jsonl"), count=None, test_size=5, together=2) for _ in range(2))
    whole = task.batch(4, 0, 8)
    part = other.batch(4, 3, 6)
    assert torch.equal(part.inputs, whole.inputs[3:6])
    assert torch.equal(part.targets, whole.targets[3:6])
    assert not torch.equal(task.batch(5, 0, 8).targets[:, 0, 0], whole.targets[:, 0, 0])
    assert len(task.batch(4, 2**32, 2**32 + 2).inputs) == 2  # a peer's own examples, beyond those of a rank


def test_samples_are_addressed_and_the_most_frequent_answer_is_the_vote(monkeypatch):
    task = loaded(reward="exact_match", samples=4, temperature=3.0, general="help", general_tokens=128)
    torch.manual_seed(0)
    module = CharGPT(task.output_size, task._longest([*task._training, *task._test]) + 64, 8, 1, 2)
    first, again = evaluated(task, module), evaluated(task, module)
    assert first == again
    assert {metric.name for metric in task.metrics} <= first.keys()
    assert first["general_loss"] == pytest.approx(np.log(task.output_size), rel=0.1)
    texts = iter(["a", "b", "b", "a", "c"])
    task = loaded(reward="exact_match", samples=5)
    monkeypatch.setattr(task, "_answers", lambda module, batch, choose: [next(texts)])
    monkeypatch.setattr(task, "_right", lambda text, problem: text == "c")
    assert task._sampled(module, task._batch([task._row([0], task._coded_test)], range(1)), [0]) == (1.0, 0.0)


def test_state_refuses_other_problems_on_resume_alone(tmp_path):
    task = loaded()
    other = loaded(data_seed=1)
    with pytest.raises(ConfigError, match=r"task\.problems=additions: the problems differ from the run's"):
        other.restore(task.state())
    fresh = Reward(data_seed=1, count=200, test_size=30)
    fresh.restore(task.state())
    fresh.load(input_shape=None, device=torch.device("cpu"), seed=3, batch_size=4)
    assert fresh.tokens.characters == task.tokens.characters


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"reward": "exact"},
            "task.reward=exact: must be share_of_tokens, prefix_of_tokens, exact_match, log_likelihood, contains, pattern,",
        ),
        ({"together": 2, "reward": "contains"}, "task.together=2: needs task.chat=false and a reward of share_of_tokens"),
        ({"chat": True}, "task.chat=True: needs the tokenizer of a language model"),
        ({"shots": 190}, "task.shots=190: leaves no training problem"),
        ({"context": 8}, "task.context=8: the longest example has 14 tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, said):
    with pytest.raises(UserError) as error:
        loaded(**options)
    assert said in str(error.value)


def test_a_saved_run_names_no_reward_of_a_stranger():
    config = {"task": {"_target_": "neuro_cli.task.language.reward.Reward", "reward": "my_rewards.bad"}}
    with pytest.raises(UserError, match=r"task\.reward=my_rewards.bad: it runs code of my_rewards; pass trust=my_rewards"):
        refuse_untrusted(config, [])
    refuse_untrusted(config, ["my_rewards"])
    refuse_untrusted({"task": {**config["task"], "reward": "contains"}}, [])


def test_a_run_learns_by_a_generated_reward(tmp_path):
    """The centre of a network moves by what a process says of its answers."""
    keys = "task=reward task.reward=pattern task.new_tokens=2 task.count=60"
    keys += " task.test_size=8 generations=2 population=8 batch_size=4 layout=per_example model.width=8 model.depth=1 threads=1"
    well(
        neuro_inside(
            "train",
            *keys.split(),
            "algo.sigma=0.5",
            "+task.reward_options.expression='[^0-4]+'",
            "hydra.run.dir=run",
            cwd=tmp_path,
        )
    )
    rows = list(csv.DictReader((tmp_path / "run" / "metrics.csv").read_text().splitlines()))
    assert [row["reward_failed"] for row in rows] == ["0.0", "0.0"]
    assert 0 < float(rows[-1]["fitness_mean"]) < 1
    refused = neuro_inside("train", "task=reward", "task.reward=contains", "algo=sgd", cwd=tmp_path)
    assert refused.returncode == 2
    assert "task.reward=contains: has no gradient; algo=sgd learns from share_of_tokens" in refused.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_worked_out_some_places_at_a_time_with_the_same_bits(dtype, monkeypatch):
    logits = torch.randn(3, 5, 99, generator=torch.Generator().manual_seed(1)).to(dtype)
    wanted = torch.arange(15).view(3, 5)
    exact = logits.float()
    nats = exact.logsumexp(-1) - exact.gather(-1, wanted[..., None]).squeeze(-1)
    for wide in (1, 2 * 3 * 99, 2**21):
        monkeypatch.setattr(generation, "WIDE", wide)
        made, likeliest = generation.judged(logits, wanted)
        assert torch.equal(made, nats)
        assert torch.equal(likeliest, exact.argmax(-1))
