"""The choice by likelihood against a plain loop over choices and tokens."""

import json

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.task.language.choices import Choices

PROBLEMS = [{"prompt": f"{k} is ", "choices": ["even", "odd", "either"][: 2 + k % 2], "answer": k % 2} for k in range(12)]


def loaded(file, problems=PROBLEMS, **options):
    file.write_text("\n".join(map(json.dumps, problems)))
    task = Choices(str(file), test_size=4, **options)
    task.load(input_shape=None, device=torch.device("cpu"), seed=3, batch_size=6)
    torch.manual_seed(0)
    return task, CharGPT(task.output_size, task.input_shape[0], 8, 1, 2)


def likelihoods(task, module, problem, by_token) -> list[float]:
    values = []
    for choice in problem.choices:
        prompt, answer = task.tokens.numbers(problem.prompt), task.tokens.numbers(choice + task._end)
        logits = module.requires_grad_(False)(torch.tensor([prompt + answer]))[0].log_softmax(-1)
        each = [float(logits[len(prompt) - 1 + place, token]) for place, token in enumerate(answer)]
        values.append(sum(each) / (len(each) if by_token else 1))
    return values


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("end", ["", "."])
def test_scores_are_those_of_a_loop(tmp_path, by_token, end):
    task, module = loaded(tmp_path / "a.jsonl", by_token=by_token, end=end)
    chosen = [task._training[k] for k in task._stream.examples(6, 12).tolist()]
    margins, losses = [], []
    for problem in chosen:
        values, right = likelihoods(task, module, problem, by_token), problem.choices.index(problem.answer)
        margins.append(values[right] - max(value for place, value in enumerate(values) if place != right))
        losses.append(np.logaddexp.reduce(values) - values[right])
    made = task.example_scores(module, task.batch(1, 0, 6))
    np.testing.assert_allclose(made[:, 0], margins, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made[:, 1], losses, rtol=1e-4, atol=1e-5)
    task.fitness = "accuracy"
    assert task.example_scores(module, task.batch(1, 0, 6))[:, 0].tolist() == [float(margin > 0) for margin in margins]


def test_choices_of_one_token_need_one_pass(tmp_path):
    letters = [{**each, "choices": ["e", "o", "b"], "answer": "eo"[each["answer"]]} for each in PROBLEMS]
    one, module = loaded(tmp_path / "a.jsonl", letters)
    assert one.batch(0, 0, 6).inputs.shape[1] == 1
    chosen = [one._training[k] for k in one._stream.examples(0, 6).tolist()]
    wanted = torch.tensor([likelihoods(one, module, problem, False) for problem in chosen])
    torch.testing.assert_close(one._likelihoods(module, one.batch(0, 0, 6)), wanted, rtol=1e-4, atol=1e-5)
    values = one.evaluation(np.sum([one.evaluate_chunk(module, chunk) for chunk in range(one.evaluation_chunks)], axis=0))
    assert values.keys() == {metric.name for metric in one.metrics}
    assert values["test_loss"] == pytest.approx(np.log(3), rel=0.2)


def test_a_problem_without_choices_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="needs at least two choices"):
        loaded(tmp_path / "a.jsonl", [{"prompt": str(k), "answer": "x"} for k in range(9)])
