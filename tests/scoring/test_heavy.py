"""Trials of networks with many frozen parameters: without a copy of them in another type, and yet strict."""

from collections.abc import Callable

import pytest
import torch
from support.configs import composed
from support.tiny_language import tiny_family, tiny_model

from neuro_cli.core.module import precision as conversion
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.precision import convert_tables_late, in_precision
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.model.huggingface import HuggingFace
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import batched, trial
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes import dense, perturbed
from neuro_cli.scoring.passes.outputs import nearer
from neuro_cli.scoring.traces import Traces
from neuro_cli.scoring.trial import Trial
from neuro_cli.task.language.reward import Reward


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tiny_model(tmp_path_factory.mktemp("llama"), num_hidden_layers=4)
    text = folder / "text.txt"
    text.write_text("12 + 35 = 47, " * 100)
    return (
        "model=huggingface", f"model.path={folder}", "task=text", f"task.files={text}", "task.context=8", "sampler=low_rank",
        "population=8", "batch_size=2", "threads=1",
    )  # fmt: skip


@pytest.fixture
def tried(monkeypatch):
    """Types and numbers of layers of all trials; every network counts as heavy."""
    seen = []
    monkeypatch.setattr(trial, "HEAVY", 1)

    class Seen(Trial):
        def __init__(self, members, dtype, rounded=False, run=None):
            seen.append((dtype, len(members.fresh().pretrained.model.layers)))
            super().__init__(members, dtype, rounded, run)

    monkeypatch.setattr(trial, "Trial", Seen)
    return seen


def scorer(settings, precision, *more):
    return build(Options(composed(*settings, f"precision={precision}", *more)), SingleProcess()).distribution.job.scorer


@pytest.mark.parametrize("trainable", ["norms", "all"])
def test_two_threads_share_few_rows(settings, tried, trainable):
    assert scorer(settings, "float32", f"model.trainable={trainable}")._length == 2  # of 4 directions


def test_many_trained_weights_are_tried_like_frozen_ones_in_half_precision_alone(settings, tried):
    scorer(settings, "bfloat16", "model.trainable=all")
    assert tried == [(torch.float32, 2), (torch.bfloat16, 4)]
    scorer(settings, "float32", "model.trainable=all")
    assert tried[2:] == [(torch.float64, 4), (torch.float32, 4)]


@pytest.mark.parametrize(
    ("precision", "wanted"), [("float32", [(torch.float32, 4)]), ("bfloat16", [(torch.float32, 2), (torch.bfloat16, 4)])]
)
def test_the_whole_in_its_precision_and_in_a_half_one_first_layers_in_float32(settings, tried, precision, wanted):
    made = scorer(settings, precision)
    assert isinstance(made, BatchedScorer)
    assert tried == wanted
    assert made._length * 2 * 2 == 8  # two threads share the members' few rows


@pytest.mark.parametrize("family", ["LlamaConfig", "Gemma3TextConfig"])
@pytest.mark.parametrize("tied", [False, True])
def test_tables_of_the_vocabulary_are_converted_where_they_are_used(tmp_path, family, tied, monkeypatch):
    monkeypatch.setattr(conversion, "TABLE", 2000)  # numbers; a layer's matrices have 1,024 and 2,048
    monkeypatch.setattr(conversion, "BLOCK", 1000)
    model = HuggingFace(tiny_family(tmp_path / "model", family, tie_word_embeddings=tied), dtype="bfloat16")
    tokens = torch.arange(12).view(2, 6)
    exact, late = (in_precision(change(copied(model)), torch.float32) for change in (lambda one: one, in_float32))
    wanted, made = exact(tokens), late(tokens)
    assert late.pretrained.get_output_embeddings().weight.dtype == torch.bfloat16
    assert late.pretrained.get_input_embeddings().weight.dtype == torch.bfloat16
    assert made.dtype == torch.float32
    # Gemma rounds its scale of embeddings to the table's type
    assert (made - wanted).abs().max() <= (2e-2 if "Gemma" in family else 1e-5) * wanted.abs().max()


def in_float32(module):
    return convert_tables_late(module, torch.float32)


@pytest.mark.parametrize("trainable", ["norms", "*.mlp.*"])
def test_a_trial_of_first_layers_copies_no_table(settings, tried, trainable, monkeypatch):
    monkeypatch.setattr(conversion, "TABLE", 2500)
    seen = []

    def kept(module, precision):
        made = in_precision(module, precision)
        seen.append((precision, made.pretrained.lm_head.weight.dtype))
        return made

    monkeypatch.setattr(trial, "in_precision", kept)
    assert isinstance(scorer(settings, "bfloat16", f"model.trainable={trainable}", "model.dtype=bfloat16"), BatchedScorer)
    assert tried == [(torch.float32, 2), (torch.bfloat16, 4)]
    assert {table for _, table in seen} == {torch.bfloat16}
    assert {precision for precision, _ in seen} == {torch.float32, torch.bfloat16}


def test_a_table_that_is_used_outside_of_its_layer_is_converted(settings, tried, monkeypatch):
    def used_alone(module, precision):
        made = convert_tables_late(module, precision)
        head = made.pretrained.lm_head
        vars(head)["forward"] = lambda x: torch.nn.functional.linear(x, head.weight)
        return made

    monkeypatch.setattr(conversion, "TABLE", 2500)
    monkeypatch.setattr(trial, "convert_tables_late", used_alone)
    assert isinstance(scorer(settings, "bfloat16", "model.dtype=bfloat16"), BatchedScorer)
    assert tried == [(torch.float32, 2), (torch.float32, 2), (torch.bfloat16, 4)]


def lacks_noise(monkeypatch, lacks: Callable[[str, torch.Tensor], bool]) -> None:
    """Let passes leave out the noise of norms that ``lacks`` chooses by name and input."""
    real = perturbed.PerturbedForward.product

    def lacking(self, one, other):
        place = self._place(one)
        if place is not None and lacks(place.name, other):
            return one.to(other.dtype) * self._both_sides(other)
        return real(self, one, other)

    for function in perturbed.PRODUCTS:
        monkeypatch.setitem(perturbed.HANDLERS, function, lacking)
    monkeypatch.setattr(trial, "WAYS", trial.WAYS[:2])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("table", [conversion.TABLE, 1])
def test_one_norm_without_its_noise_is_seen(settings, tried, precision, table, monkeypatch):
    monkeypatch.setattr(conversion, "TABLE", table)
    lacks_noise(monkeypatch, lambda name, _: name == "pretrained.model.layers.1.input_layernorm.weight")
    assert isinstance(scorer(settings, precision), MemberScorer)


@pytest.fixture
def rewarded(settings):
    """Generated sums by the same network, whose reward counts right tokens."""
    path = next(each for each in settings if each.startswith("model.path="))
    return (
        "model=huggingface", path, "task=reward", "task.count=20", "task.test_size=4", "sampler=low_rank", "layout=per_example",
        "population=8", "batch_size=4", "threads=1",
    )  # fmt: skip


def in_half(module):
    return all(one.dtype == torch.bfloat16 for one in module.parameters())


@pytest.mark.parametrize("more", [(), ("task.reward=contains", "task.new_tokens=2")], ids=["tokens", "generated"])
def test_rewards_that_rounding_flips_part_no_passes(rewarded, tried, monkeypatch, more):
    real = Reward.example_scores

    def flipped(self, module, batch):
        scores = real(self, module, batch)
        return torch.rand_like(scores) if in_half(module) else scores

    monkeypatch.setattr(Reward, "example_scores", flipped)
    monkeypatch.setattr(batched, "traces", lambda *_: Traces([], False, None))  # which would see these draws
    assert isinstance(scorer((*rewarded, *more), "bfloat16"), BatchedScorer)
    assert tried == [(torch.float32, 2), (torch.bfloat16, 4)]


def test_a_pass_that_lacks_half_of_the_noise_in_a_half_type_is_seen(rewarded, tried, monkeypatch):
    lacks_noise(monkeypatch, lambda name, other: other.dtype == torch.bfloat16 and "input_layernorm" in name)
    assert isinstance(scorer(rewarded, "bfloat16"), MemberScorer)


def test_distances_are_of_each_row_and_numbers_must_be_there():
    still, noise = torch.zeros(2, 3), torch.tensor([[1.0, -1.0, 2.0], [0.1, 0.1, 0.1]])
    assert nearer([noise * 1.4], [noise], [still], 0.5)
    other = noise.clone()
    other[1] = 0  # little of the whole, all of a row
    assert not nearer([other], [noise], [still], 0.5)
    assert not nearer([noise * float("nan")], [noise], [still], 0.5)
    assert not nearer([noise[:1]], [noise], [still], 0.5)
    assert not nearer([noise.long()], [noise.long()], [still.long()], 0.5)
    infinite = torch.cat([noise, torch.full((2, 1), -torch.inf)], 1)
    assert nearer([infinite], [infinite], [torch.cat([still, infinite[:, 3:]], 1)], 0.5)


@pytest.mark.parametrize(
    ("family", "trainable"),
    [("GPTNeoXConfig", "norms"), ("GPTNeoXConfig", "*.embed_in.weight"), ("GPT2Config", "*.mlp.*")],  # the last by addmm
)
def test_members_generate_in_one_pass(tmp_path, family, trainable):
    """Layers without noise in products count none, and generation returns no activation."""
    folder = tiny_family(tmp_path / "model", family)
    asked = ("task=reward", "task.reward=contains", "task.new_tokens=3", "task.count=20", "task.test_size=4")
    given = ("model=huggingface", f"model.path={folder}", f"model.trainable={trainable}", "sampler=low_rank", "population=8")
    chosen = scorer((*asked, *given, "layout=per_example", "batch_size=4", "threads=1"), "float32")
    assert isinstance(chosen, BatchedScorer)
    assert chosen._length == 4


def test_a_member_of_large_trained_weights_is_not_converted_as_a_whole(settings, tried, monkeypatch):
    """Each weight's values are computed where the pass uses them, and nowhere else."""
    monkeypatch.setattr(dense, "LARGE", 1)
    read = []

    class Seen(dense.DenseMember):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func == torch.Tensor.data.__get__:
                read.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    monkeypatch.setattr(trial, "DenseMember", Seen)
    scorer(settings, "bfloat16", "model.trainable=all")
    assert not read
