"""Tokens of pretrained tokenizers: a tiny one of this test, in rewards and in texts."""

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError
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
    vocabulary = {token: number for number, token in enumerate([*words[:3], *sorted(alphabet)])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens(words[:3])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", chat_template=TEMPLATE)


def test_text_is_tokens_and_text_again(tokenizer):
    tokens = PretrainedVocabulary(tokenizer)
    assert tokens.decode(tokens.numbers("é one 12\n")) == "é one 12\n"
    assert tokens.decode(tokens.numbers("<user>12")) == "<user>12"
    assert tokens.decode(tokens.numbers("<user>12"), special=False) == "12"
    assert tokens.size == 259
    assert tokens.end == 0
    assert tokens.chat("one") == "<user> one <assistant> "
    text = "é one"
    assert tokens.widths()[tokens.encode("a", text.encode()).long()].sum() == len(text.encode())


def test_an_answer_ends_with_the_tokenizers_own_end(tokenizer, monkeypatch):
    task = Reward(count=60, test_size=10, end=None, chat=True, shots=1, reward="exact_match")
    monkeypatch.setattr(task, "_make_tokenizer", lambda problems: PretrainedVocabulary(tokenizer))
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    batch = task.batch(0, 0, 4)
    row, (number, place, *wanted) = batch.inputs[0].tolist(), batch.targets[0, 0].tolist()
    problem = task._training[number]
    assert task.tokens.decode(row[: place + 1], special=False).endswith(f"\n{problem.prompt}  ")
    assert tokenizer.decode(row[: place + 1]).endswith("<assistant> ")
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
