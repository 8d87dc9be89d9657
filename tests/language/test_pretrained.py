"""Loading of pretrained networks and tokenizers, what is refused, and tuned copies of their files."""

import json
import re
import resource
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_language import tiny_family, tiny_gguf, tiny_model, transformers

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.module.copies import PAGES, copied, has_pages
from neuro_cli.language import gguf_file, pretrained
from neuro_cli.language.mapped_files import map_parameters, parts_of_file
from neuro_cli.language.pretrained import load_model, load_tokenizer
from neuro_cli.language.tuned import write_tuned

NORM = "model.layers.1.input_layernorm.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def file(folder, tmp_path_factory):
    return tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", folder)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pretrained._config.cache_clear()
    pretrained._tokenizer.cache_clear()
    return tmp_path / "cache"


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(2, 12)[None]).logits


def different_bytes(one, other):
    assert one.stat().st_size == other.stat().st_size
    places = np.flatnonzero(np.frombuffer(one.read_bytes(), np.uint8) != np.frombuffer(other.read_bytes(), np.uint8))
    return (0, 0) if not len(places) else (int(places[0]), int(places[-1]))


def test_weights_in_the_type_of_the_file_are_its_pages_in_copies_too(folder):
    model = load_model(folder)
    assert has_pages(model)
    twin = copied(model)
    assert torch.equal(logits(twin), logits(transformers.LlamaForCausalLM.from_pretrained(folder)))
    with torch.no_grad():
        model.model.norm.weight.fill_(9.0)
    assert float(twin.model.norm.weight.detach().max()) < 9.0  # what one writes, the other and the file do not see
    assert float(load_model(folder).model.norm.weight.detach().max()) < 9.0


def test_another_type_is_converted(folder):
    model = load_model(folder, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert not has_pages(model)


def test_a_gguf_file_is_converted_once_and_then_mapped(folder, file, cache, monkeypatch):
    first = load_model(file)
    wanted = logits(transformers.LlamaForCausalLM.from_pretrained(folder))
    torch.testing.assert_close(logits(first), wanted, rtol=0.05, atol=0.05 * float(wanted.abs().max()))
    monkeypatch.setattr(pretrained, "_from_gguf", lambda *_: pytest.fail("converted again"))
    again = load_model(file)
    assert torch.equal(logits(again), logits(first))
    assert has_pages(again)
    assert str(cache) in Path("/proc/self/maps").read_text()
    assert load_tokenizer(file).decode(load_tokenizer(file)("12 + 35")["input_ids"]) == "12 + 35"


def test_a_new_head_is_not_in_the_cache_of_a_gguf_file(tmp_path):
    """A language model would find no head of its own there, and get a random one."""
    file = tiny_gguf(tmp_path / "tiny.gguf", tiny_model(tmp_path / "base"), own_head=True)  # -2 times the embedding
    assert load_model(file, classes=3).score.weight.shape == (3, 32)
    made = load_model(file)
    torch.testing.assert_close(made.lm_head.weight, -2 * made.model.embed_tokens.weight, rtol=0, atol=0.02)


def _begun(writer):
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_bos_token_id(2)


def _linear(writer, factor):
    writer.add_rope_scaling_type(SimpleNamespace(value="linear"))
    writer.add_rope_scaling_factor(factor)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (lambda writer: _linear(writer, 4.0), "rope.scaling of type linear by 4"),
        (lambda writer: writer.add_tensor("rope_freqs.weight", np.float32([1, 8])), "rope_freqs.weight"),
        (lambda writer: writer.add_final_logit_softcapping(30.0), "final_logit_softcapping of 30"),
        (lambda writer: writer.add_logit_scale(0.5), "logit_scale of 0.5"),
        (lambda writer: writer.add_tensor("blk.1.attn_output.bias", np.ones(32, np.float32)), "blk.1.attn_output.bias"),
        (lambda writer: writer.add_tensor("blk.0.ffn_down.bias", np.ones(32, np.float32)), "blk.0.ffn_down.bias"),
    ],
)
def test_a_gguf_file_with_settings_that_transformers_leaves_out_is_refused(folder, cache, tmp_path, more, line):
    """Its network would have other logits, with no word."""
    file = tiny_gguf(tmp_path / "scaled.gguf", folder, more=more)
    for _ in range(2):  # nor is it in the cache afterwards
        with pytest.raises(ConfigError, match=rf"^model.path=.*scaled.gguf: transformers leaves its {line} out, so it would be"):
            load_model(file)


@pytest.mark.parametrize(
    "more",
    [
        lambda writer: _linear(writer, 1.0),
        lambda writer: writer.add_rope_scaling_type(SimpleNamespace(value="none")),
        lambda writer: writer.add_tensor("rope_freqs.weight", np.float32([1, 1])),
        lambda writer: writer.add_logit_scale(1.0),
    ],
)
def test_settings_of_a_gguf_file_that_change_nothing_are_taken(folder, cache, tmp_path, more):
    assert load_model(tiny_gguf(tmp_path / "plain.gguf", folder, more=more)) is not None


@pytest.mark.parametrize(("says", "begins"), [(None, True), (True, True), (False, False)])
def test_a_gguf_file_of_llama_3_begins_texts_as_llama_cpp_does(folder, cache, tmp_path, says, begins):
    """Most such files do not say so."""

    def more(writer):
        _begun(writer)
        if says is not None:
            writer.add_add_bos_token(says)

    file = tiny_gguf(tmp_path / "begun.gguf", folder, more=more)
    for _ in range(2):  # the second one from the cache
        assert (load_tokenizer(file)("12")["input_ids"][0] == 2) == begins
        pretrained._tokenizer.cache_clear()


@pytest.mark.parametrize(
    ("found", "config", "line"),
    [
        ({"rope.freq_base": 1e6}, {}, "rope.freq_base of 1e\\+06"),
        ({"rope.dimension_count": 6}, {}, "rope.dimension_count of 6"),
        ({"rope.dimension_count": 6}, {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.75}}, None),
        ({}, {"query_pre_attn_scalar": 256}, "attention scale"),
        ({"attention.layer_norm_epsilon": 1e-3}, {}, "epsilon of norms, 0.001"),
        (
            {"attention.layer_norm_epsilon": np.float32(1e-5), "rope.freq_base": np.float32(1e4), "rope.dimension_count": 8},
            {},
            None,
        ),
    ],
)
def test_numbers_of_a_gguf_file_that_transformers_has_from_its_defaults_are_named(found, config, line):
    """Starcoder's base of positions, Phi-4-mini's and Nemotron's share of turned numbers, and the scale of Gemma 2 27B."""
    sizes = {"head_dim": 8, "rope_parameters": {"rope_theta": 1e4}, "layer_norm_eps": 1e-5, **config}
    read = SimpleNamespace(**sizes, num_attention_heads=4, hidden_size=32)
    said = gguf_file._other_number(found, read, read.rope_parameters)
    assert said is None if line is None else re.match(line, said)


def test_what_a_killed_process_has_left_in_the_cache_is_removed(file, cache):
    load_tokenizer(file)
    folder = next((cache / "neuro" / "gguf").glob("*-tokenizer"))
    left = folder.rename(folder.with_name(f"{folder.name}.abc"))  # a folder gets its name when it is complete
    other = left.with_name("another-tokenizer.abc")
    other.mkdir()
    pretrained._tokenizer.cache_clear()
    load_tokenizer(file)
    assert folder.is_dir()
    assert not left.exists()
    assert other.exists()


def test_a_parameter_in_another_order_than_its_file_is_not_mapped(tmp_path):
    """As transformers reorders rows of some files: the first and the last may stay."""
    network = torch.nn.Linear(70, 6)
    rows = network.weight.detach().clone()
    save_file({"weight": rows[[0, 3, 1, 4, 2, 5]].contiguous(), "bias": network.bias.detach()}, tmp_path / "one.safetensors")
    map_parameters(network, tmp_path)
    assert torch.equal(network.weight, rows)
    assert [hasattr(one, PAGES) for one in (network.weight, network.bias)] == [False, True]


def test_without_a_cache_each_process_converts(file, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert not has_pages(load_model(file))
    assert "since the cache cannot be written" in caplog.text


def test_what_is_refused(folder, tmp_path, monkeypatch):
    def copy(name, **config):
        place = tmp_path / name
        place.mkdir()
        entries = json.loads((folder / "config.json").read_text())
        (place / "config.json").write_text(json.dumps({**entries, **config}))
        (place / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        return place

    for place, reason in [
        (tmp_path / "absent", "must be a folder with config.json and "),
        (copy("code", auto_map={"AutoModel": "x.Y"}), r"names code of its own \(auto_map\)"),
        (copy("few_bits", quantization_config={"quant_method": "gptq"}), "its weights are quantised"),
        (copy("vision", model_type="vit", architectures=["ViTModel"]), "its architecture, ViTModel, must be a causal"),
        (copy("damaged", model_type="nothing"), "transformers cannot read its config"),
    ]:
        with pytest.raises(ConfigError, match=f"^model.path={place}: .*{reason}"):
            load_model(place)
    pickled = copy("pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"has no \*.safetensors; other weights are pickled"):
        load_model(pickled)
    two = copy("two")  # transformers would read the older file
    (two / "new.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    index = two / "model.safetensors.index.json"
    for content, error, reason in [
        ('{"weight_map": {"lm_head.weight": "new.safetensors"}}', ConfigError, "which may be another network; remove one"),
        ("{}", UserError, "it cannot be read as an index of shards"),
    ]:
        index.write_text(content)
        with pytest.raises(error, match=reason):
            load_model(two)
    index.write_text('{"weight_map": {"lm_head.weight": "model.safetensors"}}')
    assert torch.equal(logits(load_model(two)), logits(load_model(folder)))
    monkeypatch.setattr(pretrained, "absent", lambda *_: ["gguf"])
    with pytest.raises(UserError, match=r"^model=huggingface: gguf is not installed: pip install '.*\[llm\]'$"):
        load_tokenizer(folder)


def test_tuned_tensors_replace_those_of_a_folder_and_nothing_else(folder, tmp_path):
    norm = torch.linspace(0.5, 1.5, 32)
    write_tuned(folder, tmp_path / "tuned", {f"pretrained.{NORM}": norm})
    assert torch.equal(load_model(tmp_path / "tuned").get_parameter(NORM).detach(), norm)
    place = parts_of_file(folder / "model.safetensors")[NORM].start
    low, high = different_bytes(folder / "model.safetensors", tmp_path / "tuned" / "model.safetensors")
    assert place <= low <= high < place + norm.numel() * 4
    assert load_tokenizer(tmp_path / "tuned").vocab_size == load_tokenizer(folder).vocab_size
    with pytest.raises(UserError, match="tuned: it exists"):
        write_tuned(folder, tmp_path / "tuned", {NORM: norm})


def test_tuned_norms_replace_those_of_a_gguf_file(file, tmp_path):
    norm = torch.linspace(0.5, 1.5, 32)
    write_tuned(file, tmp_path / "tuned.gguf", {NORM: norm})
    base, tuned = load_model(file), load_model(tmp_path / "tuned.gguf")
    assert torch.equal(tuned.get_parameter(NORM).detach(), norm)
    same = [name for name, one in base.named_parameters() if torch.equal(one, tuned.get_parameter(name))]
    assert len(same) == len(list(base.parameters())) - 1
    low, high = different_bytes(file, tmp_path / "tuned.gguf")
    assert 0 < high - low < norm.numel() * 4
    write_tuned(file, tmp_path / "folder", {NORM: norm})
    assert torch.equal(logits(load_model(tmp_path / "folder")), logits(tuned))


@pytest.mark.parametrize("name", ["tuned", "tuned.gguf", "tuned from gguf"])
def test_a_disk_that_takes_no_copy_is_an_error_of_files_and_leaves_nothing(file, folder, tmp_path, name):
    """Libraries that write have errors of their own."""
    source, limits = folder if name == "tuned" else file, resource.getrlimit(resource.RLIMIT_FSIZE)
    load_model(source)  # a GGUF file is converted in the cache
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_tuned(source, tmp_path / name, {NORM: torch.ones(32)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [one.name for one in tmp_path.iterdir() if one.name != "cache"] == []


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("model.layers.0.mlp.up_proj.weight", (64, 32), r"the file has it in blocks \(Q8_0\)"),
        ("model.layers.9.other", (1,), "is no tensor of "),
        (NORM, (31,), r"has the shape \(31,\), the file's \(32,\)"),
    ],
)
def test_tensors_that_a_gguf_file_cannot_have(file, tmp_path, name, shape, reason):
    with pytest.raises(ConfigError, match=f"^file={name}: {reason}"):
        write_tuned(file, tmp_path / "tuned.gguf", {name: torch.ones(shape)})
    assert [one.name for one in tmp_path.iterdir() if one.name != "cache"] == []


@pytest.mark.parametrize(
    ("config", "more", "name", "touched"),
    [
        ("GPTNeoXConfig", {}, "lm_head.weight", ["embed_out.weight"]),
        (
            "Qwen3MoeConfig",
            {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8},
            "model.layers.1.mlp.experts.down_proj",
            [f"model.layers.1.mlp.experts.{expert}.down_proj.weight" for expert in (0, 1)],
        ),
    ],
)
def test_tensors_that_files_have_by_other_names_or_in_parts_are_replaced(tmp_path, config, more, name, touched):
    folder = tiny_family(tmp_path / "base", config, dtype="bfloat16", **more)
    before = dict(load_model(folder).named_parameters())[name].detach() + 0.5
    write_tuned(folder, tmp_path / "tuned", {name: before})
    assert torch.equal(dict(load_model(tmp_path / "tuned").named_parameters())[name], before.to(torch.bfloat16).float())
    base, tuned = (load_file(tmp_path / part / "model.safetensors") for part in ("base", "tuned"))
    assert sorted(key for key, tensor in base.items() if not torch.equal(tensor, tuned[key])) == touched
    assert all(tensor.dtype is torch.bfloat16 for tensor in tuned.values())
    with pytest.raises(ConfigError, match=r"no.such: is no tensor of"):
        write_tuned(folder, tmp_path / "other", {"no.such": before})


@pytest.mark.parametrize("size", ["1GB", "30KB"])
def test_a_tuned_folder_is_tuned_where_it_is_read(folder, tmp_path, size):
    """Files of other precisions or programs have tensors of the same names, and come first in the order of names."""
    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    model.save_pretrained(tmp_path / "base", max_shard_size=size)
    for name in ("consolidated.safetensors", "model.fp16.safetensors"):
        save_file({name: one.detach().clone() for name, one in model.named_parameters()}, tmp_path / "base" / name)
    with torch.no_grad():
        norm = dict(model.named_parameters())[NORM].fill_(3.0)
    write_tuned(tmp_path / "base", tmp_path / "tuned", {f"pretrained.{NORM}": norm})
    assert torch.equal(logits(load_model(tmp_path / "tuned")), logits(model))
