"""Text as a task: its vocabulary, its windows, its split, its measures by a plain loop, and what it refuses."""

import csv
import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, one_line, well
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.runner.load import load
from neuro_cli.task.text import Text
from neuro_cli.task.tokens import Vocabulary, contents_of

WORDS = "Zwölf Boxkämpfer jagen Eva quer über den Sylter Deich. "


class Bigram(nn.Module):
    """Logits of a token from the one before it alone."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(size, size)

    def forward(self, tokens: Tensor) -> Tensor:
        made: Tensor = self.table(tokens)
        return made


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes((WORDS * 20).encode())
    return path


def loaded(files, **options) -> Text:
    task = Text(str(files) if isinstance(files, Path) else files, **{"context": 16, "evaluation_batch": 2} | options)
    task.load(input_shape=None, device=torch.device("cpu"), seed=3, batch_size=8)
    return task


@pytest.mark.parametrize("unit", ["characters", "bytes"])
def test_tokens_are_text_again(file, unit):
    texts = contents_of([file])
    vocabulary = Vocabulary.of(texts, unit)
    tokens = vocabulary.encode(*next(iter(texts.items())))
    assert vocabulary.decode(tokens.tolist()) == WORDS * 20
    text = WORDS if unit == "characters" else WORDS.encode()
    assert tokens[: len(text)].tolist() == [sorted(set(WORDS)).index(c) for c in WORDS] if unit == "characters" else list(text)
    assert vocabulary.size == (len(set(WORDS)) if unit == "characters" else 256)


def test_examples_are_a_function_of_seed_and_generation(file):
    task, other = loaded(file), loaded(file)
    whole = task.batch(7, 0, 8)
    assert whole.inputs.shape == whole.targets.shape == (8, 16)
    assert whole.inputs.dtype == whole.targets.dtype == torch.int64
    assert torch.equal(whole.inputs[:, 1:], whole.targets[:, :-1])
    assert torch.equal(other.batch(7, 3, 6).targets, whole.targets[3:6])
    assert not torch.equal(task.batch(8, 0, 8).inputs, whole.inputs)
    assert len(torch.unique(task.batch(8, 0, 8).inputs, dim=0)) > 4


def test_training_never_meets_the_end_of_a_file(tmp_path):
    for name, letters in (("a", "ab"), ("b", "cd")):
        (tmp_path / f"{name}.txt").write_text(letters[0] * 90 + letters[1] * 10)
    task = loaded(tmp_path / "*.txt", context=8)
    met = {letter for generation in range(20) for row in task.batch(generation, 0, 8).targets for letter in row.tolist()}
    assert task.vocabulary is not None
    assert {task.vocabulary.decode([letter]) for letter in met} == {"a", "c"}
    assert task.vocabulary.decode(task._test.tolist()) == "b" * 10 + "d" * 10


@pytest.mark.parametrize("share", [0.1, 0.13, 0.2])
def test_every_test_token_counts_once_whatever_the_windows_are(file, share):
    task = loaded(file, test_share=share)
    module = Bigram(task.output_size)
    sums = np.sum([task.evaluate_chunk(module, chunk) for chunk in range(task.evaluation_chunks)], axis=0)
    text = WORDS * 20
    test = text[len(text) - round(share * len(text)) :]
    numbers = [sorted(set(WORDS)).index(letter) for letter in test]
    table = module.table.weight.detach().double().numpy()
    nats = sum(math.log(np.exp(table[a]).sum()) - table[a][b] for a, b in pairwise(numbers))
    right = sum(table[a].argmax() == b for a, b in pairwise(numbers))
    assert task.evaluation_chunks > 1
    found = task.evaluation(sums)
    assert found["test_loss"] == pytest.approx(nats / (len(test) - 1), rel=1e-6)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(test[1:].encode()), rel=1e-6)
    assert found["test_accuracy"] == pytest.approx(right / (len(test) - 1))


def test_a_fitness_is_the_mean_of_its_tokens(file):
    module = Bigram(len(set(WORDS)))
    for fitness, columns in (("negative_cross_entropy", 1), ("accuracy", 2)):
        task = loaded(file, fitness=fitness)
        batch = task.batch(0, 0, 8)
        scores, tokens = task.example_scores(module, batch), task.rewards(module, batch)
        assert scores.shape == (8, columns)
        assert tokens.shape == (8, 16, columns)
        torch.testing.assert_close(tokens.sum(1), scores)
        nats = -module(batch.inputs).log_softmax(-1).gather(-1, batch.targets[..., None])[..., 0]
        torch.testing.assert_close(task.loss(module, batch), nats.mean())
        torch.testing.assert_close(scores[:, -1].abs(), nats.mean(1))
        torch.testing.assert_close(16 * tokens[..., -1].abs(), nats)


def test_without_files_there_is_the_text_of_python_s_help():
    task = Text()
    task.load(input_shape=(64,), device=torch.device("cpu"), seed=1, batch_size=4)
    assert task.vocabulary is not None
    text = task.vocabulary.decode(task._train.tolist())
    assert len(text) > 200_000
    assert 'The "assert" statement' in text


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"files": "nowhere.txt"}, "task.files=nowhere.txt: it cannot be read: no such file or directory"),
        ({"files": "."}, "task.files=.: it cannot be read: is a directory"),
        ({"files": ["words.txt", "empty.txt"]}, "task.files=empty.txt: the file is empty"),
        ({"files": "latin.txt"}, "task.files=latin.txt: byte 1 is not UTF-8; task.unit=bytes takes any file"),
        ({"files": []}, "task.files=[]: must be a text file, a list of them, a pattern (texts/*.txt), or null"),
        (
            {"context": 5000},
            "task.context=5000: the training text has 990 tokens, and an example needs one more than its context",
        ),
        ({"context": 200}, "task.context=200: the test text has 110 tokens, and an example needs one more than its context"),
    ],
)
def test_what_it_refuses(file, options, line, monkeypatch):
    monkeypatch.chdir(file.parent)
    (file.parent / "empty.txt").touch()
    (file.parent / "latin.txt").write_bytes("aé".encode("latin-1"))
    with pytest.raises(ConfigError) as error:
        loaded(**{"files": "words.txt"} | options)
    assert str(error.value) == line


def test_a_model_that_does_not_fit_is_refused(file):
    with pytest.raises(UserError, match=r"^model expects 8, task=text gives 16 tokens \(task.context\)$"):
        Text(str(file), context=16).load(input_shape=(8,), device=torch.device("cpu"), seed=1, batch_size=4)
    task = loaded(file)
    with pytest.raises(UserError, match=r"^model: its output for 2x16 tokens is 2x16x3, task=text needs 2x16x34 logits$"):
        task.misfit(nn.Embedding(40, 3))


SMALL = (
    "train", "task=text", "model=char_gpt", "model.width=8", "model.heads=2", "model.depth=1", "task.context=8",
    "population=8", "batch_size=4", "threads=1", "evaluate.every=2", "checkpoint.every=2",
    "algo.lr_schedule.kind=constant",
)  # fmt: skip


def test_a_run_keeps_its_vocabulary_through_resume_evaluate_and_load(file):
    folder = file.parent
    done = well(neuro_inside(*SMALL, "task.files=words.txt", "generations=4", "hydra.run.dir=whole", cwd=folder))
    assert "test loss" in done.stdout
    neuro_inside(*SMALL, "task.files=words.txt", "generations=2", "hydra.run.dir=run", cwd=folder)
    (folder / "there").mkdir()
    file.rename(folder / "there" / "words.txt")
    well(neuro_inside("resume", "run", "generations=4", "task.files=there/words.txt", cwd=folder))
    summaries = [json.loads((folder / name / "summary.json").read_text()) for name in ("whole", "run")]
    assert summaries[0]["parameters_sha256"] == summaries[1]["parameters_sha256"]
    assert summaries[0]["test_loss"] == summaries[1]["test_loss"]

    # fewer different characters: by a vocabulary of its own the network would get other numbers
    (folder / "other.txt").write_text("Eva jagen quer. " * 20)
    module = load(folder / "run")
    assert module.vocabulary.characters == "".join(sorted(set(WORDS)))
    well(neuro_inside("evaluate", "run", "task.files=other.txt", "output=scores.json", cwd=folder))
    task = Text(str(folder / "other.txt"), context=8)
    task.vocabulary = module.vocabulary
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=1)
    with torch.no_grad():
        sums = sum(task.evaluate_chunk(module, chunk) for chunk in range(task.evaluation_chunks))
    assert json.loads((folder / "scores.json").read_text())["test_loss"] == pytest.approx(task.summarise(sums)["test_loss"])

    line = one_line(neuro_inside("resume", "run", "generations=6", "task.files=other.txt", cwd=folder))
    assert line == "task.files=other.txt: the text differs from the run's; resume keeps it"
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "text.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(example, names := {})  # the page's function
    text = names["continued"](folder / "run", "Eva jagen", 12)
    assert text.startswith("Eva jagen")
    assert len(text) == 21
    assert set(text) <= set(WORDS)

    (folder / "strange.txt").write_text("Ein Xylophon. " * 20)
    line = one_line(neuro_inside("evaluate", "run", "task.files=strange.txt", cwd=folder))
    assert line == f"task.files=strange.txt: 'X': not among the {len(set(WORDS))} characters of the run's vocabulary"


def test_noise_on_activations_reports_the_mean_of_examples_not_of_their_tokens(file):
    well(
        neuro_inside(*SMALL, "task.files=words.txt", "sampler=activation", "generations=1", "hydra.run.dir=run", cwd=file.parent)
    )
    row = next(csv.DictReader((file.parent / "run" / "metrics.csv").open()))
    assert -float(row["fitness_mean"]) == pytest.approx(math.log(34), rel=0.05)  # an untrained network: all tokens alike


def test_the_text_of_another_python_is_not_taken_for_the_run_s(monkeypatch):
    task = Text()
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    monkeypatch.setattr("pydoc_data.topics.topics", {"one": "assert " * 100})
    again = Text()
    again.restore(task.state())
    with pytest.raises(UserError, match=r"^task.files=null: this Python's help text differs from the run's"):
        again.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
