"""Networks whose matrices stay in the blocks of a GGUF file answer as the dequantised ones, alone and as members of one pass."""

import json
from bisect import bisect_left
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, well
from support.tiny_language import tiny_gguf, tiny_model

from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.copies import PAGES, copied
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.language import blocks
from neuro_cli.language.blocks import dequantised
from neuro_cli.language.pretrained import load_model
from neuro_cli.language.tuned import write_tuned
from neuro_cli.model.huggingface import HuggingFace
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.scoring import choice
from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.perturbed import PerturbedForward
from neuro_cli.task.language.reward import Reward

CASES = [("llama", "Q8_0", False), ("llama", "Q4_1", True), ("llama", "Q4_0", False), ("qwen2", "Q4_1", False)]
TOKENS = torch.arange(2, 26).view(2, 12)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {kind: tiny_model(place / kind, kind) for kind in ("llama", "qwen2")}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def file(folders):
    return tiny_gguf(folders["llama"].parent / "tiny.gguf", folders["llama"], "Q4_1")


def logits(model):
    with torch.no_grad():
        return model(input_ids=TOKENS).logits


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_of_blocks_are_those_of_the_package_gguf(kind, dtype):
    gguf = pytest.importorskip("gguf")
    types = gguf.GGMLQuantizationType
    values = np.random.default_rng(1).normal(size=(7, 96)).astype(np.float32)
    data = gguf.quants.quantize(values, types[kind])
    rows = torch.from_numpy(data)
    made = dequantised(rows, rows.view(torch.float16), kind, dtype)
    assert torch.equal(made, torch.from_numpy(gguf.quants.dequantize(data, types[kind])).to(dtype))


@pytest.mark.parametrize(("kind", "stored", "own_head"), CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_are_those_of_the_dequantised_network_bit_for_bit(folders, tmp_path, kind, stored, own_head, dtype):
    file = tiny_gguf(tmp_path / "tiny.gguf", folders[kind], stored, own_head)
    made, wanted = load_model(file, dtype=dtype, quantised=True), load_model(file, dtype=dtype)
    assert made.dtype == dtype
    assert torch.equal(logits(made), logits(wanted))
    if dtype == torch.float32:  # rounded numbers stay so, and those of blocks are not rounded before they are used
        assert torch.equal(logits(copied(made).double()), logits(copied(wanted).double()))


def test_a_matrix_is_dequantised_in_pieces(file, monkeypatch):
    model, whole, largest = load_model(file, quantised=True), logits(load_model(file)), []
    plain = blocks.dequantised
    monkeypatch.setattr(blocks, "dequantised", lambda *given: largest.append(len(given[0])) or plain(*given))
    monkeypatch.setattr(blocks, "CHUNK", 5 * 32)
    torch.testing.assert_close(logits(model), whole, rtol=1e-5, atol=1e-5)
    assert max(largest) == 5


def test_blocks_are_pages_of_the_file_in_copies_too(file):
    model = load_model(file, quantised=True)
    matrices = [one for one in model.parameters() if one.dtype == torch.uint8]
    assert all(PAGES in vars(one) for one in matrices)
    assert str(file) in Path("/proc/self/maps").read_text()
    floats = sum(one.numel() for one in model.parameters() if one.is_floating_point())
    assert floats == sum(one.numel() for one in load_model(file).parameters() if one.dim() == 1)
    twin = copied(model)
    assert torch.equal(logits(twin), logits(model))
    assert [PAGES in vars(one) for one in twin.parameters()] == [PAGES in vars(one) for one in model.parameters()]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("trainable", ["norms", "lora"])
def test_members_of_one_pass_answer_as_those_of_the_dequantised_network(file, trainable, dtype):
    made, model = (HuggingFace(file, trainable=trainable, dtype=dtype, quantised=quantised) for quantised in (True, False))
    layout, sampler, rows = ParameterLayout(model), LowRank(), MemberBatch([0.1, -0.1], 3, 1)
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 6, layout)
    centre = layout.flatten(model)
    assert ParameterLayout(made).places == layout.places
    layout.attach(made, centre)
    tokens, mask = with_mark([TOKENS[:1].repeat(6, 1), torch.ones(6, 12, dtype=torch.long)])
    results = []
    for module in (made, model):
        twin = copied(module, getattr(torch, dtype)).to(getattr(torch, dtype))
        with torch.no_grad(), PerturbedForward(twin, layout, sampler.perturbation(0, 0, rows, getattr(torch, dtype))):
            results.append([twin(tokens), twin.generate(tokens, mask, 4)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("trainable", ["norms", "lora"])
def test_half_precision_stays_half_with_trained_numbers_in_float32(file, trainable):
    made, wanted = (HuggingFace(file, trainable=trainable, dtype="bfloat16", quantised=quantised) for quantised in (True, False))
    wanted.load_state_dict(made.state_dict(), strict=False)  # additions of low rank are random
    with torch.no_grad():
        assert torch.equal(made(TOKENS), wanted(TOKENS))
        assert made(TOKENS).dtype == torch.bfloat16


def test_additions_of_low_rank_to_blocks_become_a_folder_and_norms_a_gguf_file(file, tmp_path):
    model = HuggingFace(file, trainable="lora", rank=2, quantised=True)
    norms = HuggingFace(file, quantised=True)
    with torch.no_grad():
        for parameter in [*model.parameters(), *norms.parameters()]:
            if parameter.requires_grad:
                parameter.normal_(std=0.2)
        write_tuned(file, tmp_path / "tuned", model.tuned())
        torch.testing.assert_close(HuggingFace(tmp_path / "tuned")(TOKENS), model(TOKENS), rtol=1e-4, atol=1e-4)
        write_tuned(file, tmp_path / "tuned.gguf", norms.tuned())
        assert torch.equal(HuggingFace(tmp_path / "tuned.gguf", quantised=True)(TOKENS), norms(TOKENS))


def test_shapes_alone_are_those_of_the_network(file):
    def described():
        return [(name, one.shape, one.dtype) for name, one in HuggingFace(file, quantised=True).named_parameters()]

    with torch.device("meta"):
        shapes = described()
        assert {one.device.type for one in HuggingFace(file, quantised=True).parameters()} == {"meta"}
    assert shapes == described()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"trainable": "all"},
            r"model.trainable=all: model.embed_tokens.blocks stays in blocks \(model.quantised=true\): must be",
        ),
        ({"trainable": "*.mlp.*"}, r"model.trainable=\*.mlp.\*: model.layers.0.mlp.gate_proj.blocks stays in blocks"),
        ({"classes": 3}, "model.quantised=true: needs a file"),
        ({"path": "folder"}, "model.quantised=true: needs a file"),
        ({"path": "other"}, "model.quantised=true: the file has model.embed_tokens in Q5_0, must be one of Q4_0, Q4_1, Q8_0"),
    ],
)
def test_what_is_refused(file, folders, tmp_path, change, reason):
    if change.get("path") == "other":
        change = {"path": tiny_gguf(tmp_path / "other.gguf", folders["llama"], "Q5_0")}
    if change.get("path") == "folder":
        change = {"path": folders["llama"]}
    with pytest.raises(ConfigError, match=f"^{reason}"):
        HuggingFace(**{"path": file, "quantised": True} | change)


def test_another_architecture_is_refused(file, monkeypatch):
    monkeypatch.setattr("neuro_cli.language.quantised.ROTATED", {"qwen2": False})
    with pytest.raises(ConfigError, match=r"^model.quantised=true: the file's architecture, llama, must be one of qwen2$"):
        load_model(file, quantised=True)


def test_products_with_blocks_are_counted_as_others_are(folders, file, monkeypatch):
    """Where they are many, members are scored one by one: a run by blocks goes the way of one by floats."""
    least = []
    for quantised in (True, False):
        model, cpu = HuggingFace(file, quantised=quantised), torch.device("cpu")
        layout, sampler, task = ParameterLayout(model), Iid(), Reward(tokenizer=folders["llama"], count=20, test_size=4)
        sampler.bind(Noise(1, layout.size, cpu, Threads(1)), 4, layout)
        task.load(input_shape=None, device=cpu, seed=1, batch_size=2)
        settings = ScoringSettings(
            module=model, layout=layout, task=task, device=cpu, precision=torch.float32, threads=Threads(1), clock=Clock(),
            batch_size=2, sampler=sampler, per_example=False,
        )  # fmt: skip

        centre = layout.flatten(model)
        least.append(bisect_left(range(10**9), True, key=partial(_few, settings, centre, monkeypatch)))
    assert 0 < least[0] == least[1]


def _few(settings, centre, monkeypatch, limit):
    monkeypatch.setattr(choice, "most_products", lambda _: limit)
    return not choice._has_many_products(settings, centre)


def test_runs_of_both_forms_train_the_same_numbers(folders, file, tmp_path):
    hashes, passes = {}, []
    for run in ("true", "false"):
        well(neuro_inside(
            "train", "model=huggingface", f"model.path={file}", f"model.quantised={run}", "task=reward", "task.test_size=4",
            f"task.tokenizer={folders['llama']}", "task.count=20", "sampler=low_rank", "population=4", "batch_size=2",
            "generations=2", "threads=1", "algo.optimizer.lr=0.001", f"hydra.run.dir=run_{run}", cwd=tmp_path,
        ))  # fmt: skip
        hashes[run] = json.loads((tmp_path / f"run_{run}" / "summary.json").read_text())["parameters_sha256"]
        log = (tmp_path / f"run_{run}" / "log.txt").read_text()
        passes.append([line.split("INFO ")[1] for line in log.splitlines() if "neuro_cli.scoring" in line])
    assert hashes["true"] == hashes["false"]
    assert passes[0] == passes[1]
    assert "4 members in one forward pass" in passes[0][-1]
    for verb in (("resume", "run_true", "generations=3"), ("evaluate", "run_true")):
        well(neuro_inside(*verb, cwd=tmp_path))
