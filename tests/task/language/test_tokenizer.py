"""Tokens of pretrained tokenizers: a tiny one of this test, in rewards and in texts."""

import copy
import json

import numpy as np
import pytest
import torch
from support.tiny_language import tiny_family

from neuro_cli.core.errors import ConfigError
from neuro_cli.model.huggingface import HuggingFace
from neuro_cli.task.base import Batch
from neuro_cli.task.language.choices import Choices
from neuro_cli.task.language.reward import Reward
from neuro_cli.task.text import Text
from neuro_cli.task.tokens import PretrainedVocabulary

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}<assistant> "


@pytest.fixture(scope="module")
def tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = ["<end>", "<user>", "<assistant>", "one", "two", " ", "é"]
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    merges = [("Ġ", "x"), ("Ġx", "y"), ("x", "y"), (".", "Ċ")]
    joined = ["".join(pair) for pair in merges]
    vocabulary = {token: number for number, token in enumerate([*words[:3], *sorted(alphabet), *joined])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(words[:3])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", chat_template=TEMPLATE)


def test_text_is_tokens_and_text_again(tokenizer):
    tokens = PretrainedVocabulary(tokenizer)
    assert tokens.decode(tokens.numbers("é one 12\n")) == "é one 12\n"
    assert tokens.decode(tokens.numbers("<user>12")) == "<user>12"
    assert tokens.decode(tokens.numbers("<user>12"), special=False) == "12"
    assert tokens.size == 263
    assert tokens.end == 0
    assert tokens.chat("one") == "<user> one <assistant> "
    text = "é one"
    assert tokens.widths()[tokens.encode("a", text.encode()).long()].sum() == len(text.encode())


def test_a_space_joins_the_word_behind_it(tokenizer):
    tokens = PretrainedVocabulary(tokenizer)
    names = tokenizer.convert_ids_to_tokens
    prompt, (word, number) = tokens.joined("a: ", ["xy\n", "12"])  # a choice between them compares both behind the same tokens
    assert [names(part) for part in (prompt, word, number)] == [["a", ":"], ["Ġxy", "Ċ"], ["Ġ", "1", "2"]]
    assert tokens.joined("a: ", ["12"]) == (tokens.numbers("a: "), [tokens.numbers("12")])
    assert tokens.joined(" ", ["x"]) == ([tokens.numbers(" ")[0]], [tokens.numbers("x")])
    assert tokens.opened("a:  ") == (tokens.numbers("a:"), "  ")
    assert tokens.opened("a\n") == (tokens.numbers("a\n"), "")
    assert sorted(names(sorted(tokens.with_text("\n")))) == [".Ċ", "Ċ"]


def begins(tokenizer):
    """Return the tokenizer with a token of its own before each text."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<user> $A", special_tokens=[("<user>", 1)])
    return tokenizer


CHOICES = [{"prompt": f"{k} is: ", "choices": ["xy", "12", "x.", "\u00e9 one"][: 2 + k % 3], "answer": k % 2} for k in range(16)]


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize("options", [{}, {"shots": 2, "end": "\n"}, {"chat": True, "shots": 1, "end": None}])
def test_choices_are_those_of_a_plain_loop_over_texts(tokenizer, tmp_path, monkeypatch, options, by_token):
    """Likelihoods of the tokens of the complete text behind what all choices share, by the unmodified network."""
    network = HuggingFace(tiny_family(tmp_path / "model", "LlamaConfig", vocab_size=264, head_dim=None)).requires_grad_(False)
    tokenizer = begins(tokenizer)
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, CHOICES)))
    task = Choices(str(tmp_path / "a.jsonl"), test_size=10, by_token=by_token, **options)
    monkeypatch.setattr(task, "_make_tokenizer", lambda problems: PretrainedVocabulary(tokenizer))
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=3)
    wanted, right = [], []
    for problem in task._test:
        if options.get("chat"):
            shown = [text for each in task._solved for text in (each.prompt.strip(), each.answer)]
            turns = [
                {"role": ("user", "assistant")[k % 2], "content": text} for k, text in enumerate([*shown, problem.prompt[:-1]])
            ]
            prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        else:
            prompt = "".join(f"{each.prompt}{each.answer}\n" for each in task._solved) + problem.prompt
        special = {"add_special_tokens": not options.get("chat")}
        ends = [0] if options.get("chat") else []
        texts = [tokenizer.encode(prompt + choice + (options.get("end") or ""), **special) + ends for choice in problem.choices]
        places = range(len(tokenizer.encode(prompt, **special)))
        common = next((at for at in places if len({text[at] for text in texts}) > 1), len(places))
        values = []
        for text in texts:
            logits = network.pretrained(torch.tensor([text])).logits[0].double().log_softmax(-1)
            behind = [float(logits[place - 1, text[place]]) for place in range(common, len(text))]
            values.append(sum(behind) / (len(behind) if by_token else 1))
        wanted.append(values)
        mine = values[problem.choices.index(problem.answer)]
        right.append(all(value < mine for value in values if value != mine))
    made = task._likelihoods(network, Batch(*task._rows["test"])).tolist()
    for ours, theirs in zip(made, wanted, strict=True):
        np.testing.assert_allclose(ours[: len(theirs)], theirs, rtol=1e-4)
        assert set(ours[len(theirs) :]) <= {-np.inf}
    chunks = np.sum([task.evaluate_chunk(network, chunk) for chunk in range(task.evaluation_chunks)], axis=0)
    assert task.evaluation(chunks)["test_accuracy"] == pytest.approx(np.mean(right))
    assert 0 < np.mean(right) < 1


def test_a_text_begins_with_the_tokenizers_own_token(tokenizer, monkeypatch):
    tokenizer = begins(tokenizer)
    rows = []
    for options in ({"shots": 1}, {"together": 2, "shots": 1}, {"chat": True}, {"reward": "contains"}):
        task = Reward(count=60, test_size=10, general="help", general_tokens=128, **options)
        monkeypatch.setattr(task, "_make_tokenizer", lambda problems: PretrainedVocabulary(tokenizer))
        task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
        rows.append(task.batch(0, 0, 4).inputs[0].tolist())
    assert [row[0] for row in rows] == [1] * 4
    assert [row.count(1) for row in rows] == [1] * 4  # the chat template has it
    assert tokenizer.decode(rows[0]).startswith("<user>{0.prompt}{0.answer}\n".format(task._split()[0][0]))
    seen = []
    module = torch.nn.Embedding(task.output_size, task.output_size)
    module.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    task.general_sums(module, task._chunks)
    assert {row[0] for row in seen[0].tolist()} == {1}
    assert seen[0][:, 1:].tolist() == task._windows[:, :-1].tolist()


class Speaker(torch.nn.Module):
    """Tokens to logits of the tokens of ``text`` behind any prompt of ``start`` tokens."""

    def __init__(self, tokens, text, start):
        super().__init__()
        self.size, self.script, self.start, self.steps = tokens.size, tokens.numbers(text), start, 0

    def forward(self, tokens):
        logits = torch.zeros(*tokens.shape, self.size)
        for place in range(self.start - 1, tokens.shape[1]):
            logits[:, place, self.script[min(place - self.start + 1, len(self.script) - 1)]] = 1.0
        self.steps += 1
        return logits


def test_a_generated_word_begins_behind_the_prompts_space_and_stops_at_its_end(tokenizer, tmp_path, monkeypatch, caplog):
    rows = [{"prompt": f"{number}: ", "answer": "xy"} for number in range(8)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = Reward(str(tmp_path / "a.jsonl"), reward="pattern", reward_options={"expression": r"xy\."}, test_size=2, new_tokens=9)
    monkeypatch.setattr(task, "_make_tokenizer", lambda problems: PretrainedVocabulary(tokenizer))
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    batch = task.batch(0, 0, 4)
    module = Speaker(task.tokens, " xy.\nmore", batch.inputs.shape[1])
    assert task.tokens.decode(batch.inputs[0].tolist())[1:] == ":"
    assert task.example_scores(module, batch)[:, 0].tolist() == [1.0] * 4
    assert module.steps == 2  # a token of word and space, and one of dot and end
    for _ in range(7):
        assert not caplog.messages
        task.example_scores(Speaker(task.tokens, " xyxy", batch.inputs.shape[1]), batch)
    assert caplog.messages == [
        "task.new_tokens=9 cuts 28 of 32 answers, which have no end by then: raise it, or show how to answer (task.shots)"
    ]


def test_an_answer_ends_with_the_tokenizers_own_end(tokenizer, monkeypatch):
    task = Reward(count=60, test_size=10, chat=True, shots=1, reward="exact_match")
    monkeypatch.setattr(task, "_make_tokenizer", lambda problems: PretrainedVocabulary(tokenizer))
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    batch = task.batch(0, 0, 4)
    row, (number, place, *wanted) = batch.inputs[0].tolist(), batch.targets[0, 0].tolist()
    problem = task._training[number]
    shown = task._solved[0]
    turns = [shown.prompt.strip(), shown.answer, problem.prompt.strip()]  # of the user, of the model, of the user
    assert tokenizer.decode(row[: place + 1]) == "<user> {} <assistant> {} <user> {} <assistant> ".format(*turns)
    assert wanted == [*task.tokens.numbers(problem.answer), 0]
    assert task._text([*wanted, 5, 6]) == problem.answer


def test_a_text_may_be_read_by_tokens(tokenizer, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("one é two " * 40)
    with pytest.raises(ConfigError, match=r"task\.tokenizer=None: task.unit=tokens needs one"):
        Text(str(tmp_path / "a.txt"), unit="tokens")
    task = Text(str(tmp_path / "a.txt"), unit="tokens", tokenizer="x", context=8)
    monkeypatch.setattr(task, "_vocabulary_of", lambda texts: PretrainedVocabulary(tokenizer))
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    assert task.vocabulary.decode(task.batch(0, 0, 4).inputs[0].tolist()) in "one é two " * 40
    module = torch.nn.Embedding(task.output_size, task.output_size)
    torch.nn.init.zeros_(module.weight)
    values = task.evaluation(np.sum([task.evaluate_chunk(module, chunk) for chunk in range(task.evaluation_chunks)], axis=0))
    assert values["bits_per_byte"] == pytest.approx(np.log2(task.output_size), rel=0.1)  # a token is a byte here
    other = Text(str(tmp_path / "a.txt"), unit="tokens", tokenizer="x", context=8)
    monkeypatch.setattr(other, "_vocabulary_of", lambda texts: PretrainedVocabulary(tokenizer))
    other.restore(task.state())  # the tokenizer's, not a saved one
    assert other.vocabulary.decode(task.batch(0, 0, 1).inputs[0].tolist()) in "one é two " * 40


@pytest.mark.parametrize("single", ["<user> $A", "<user> <assistant> $A <end>"])
def test_each_window_of_a_text_begins_as_the_tokenizer_begins_a_text(tokenizer, tmp_path, monkeypatch, single):
    """Pretrained models have seen no text without these tokens."""
    from tokenizers.processors import TemplateProcessing

    named = [("<user>", 1), ("<assistant>", 2), ("<end>", 0)]
    with_start = begins(tokenizer)
    with_start.backend_tokenizer.post_processor = TemplateProcessing(single=single, special_tokens=named)
    (tmp_path / "a.txt").write_text("one é two " * 40)
    batches, tasks = [], []
    for each in (tokenizer, with_start):
        task = Text(str(tmp_path / "a.txt"), unit="tokens", tokenizer="x", context=8)
        monkeypatch.setattr(task, "_vocabulary_of", lambda texts, each=each: PretrainedVocabulary(each))
        task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
        batches.append(task.batch(0, 0, 4))
        tasks.append(task)
    plain, started = batches
    start = tasks[1].vocabulary.start
    assert start == [1, 2][: len(start)] != []
    assert torch.equal(started.targets, plain.targets)
    for row, text in zip(started.inputs.tolist(), plain.inputs.tolist(), strict=True):
        assert row == [*start, *text[1:]]
    module = torch.nn.Embedding(263, 263)  # a token's logits depend on that token alone
    torch.nn.init.normal_(module.weight, std=0.5)
    losses = -tasks[0].rewards(module, plain), -tasks[1].rewards(module, started)
    torch.testing.assert_close(losses[1][:, 1:], losses[0][:, 1:])
    first = torch.nn.functional.cross_entropy(module.weight[start[-1:]].expand(4, -1), plain.targets[:, 0], reduction="none") / 8
    torch.testing.assert_close(losses[1][:, 0, 0], first.detach())
