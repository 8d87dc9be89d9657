"""Networks of transformers as models: outputs, what is trained, answers, generation, members in one pass."""

import copy
import itertools
import logging

import pytest
import torch
from support.tiny_language import VOCABULARY, tiny_family, tiny_model, transformers
from torch import nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.seeds import seeded
from neuro_cli.language.tuned import write_tuned
from neuro_cli.library.forward_gradient import ForwardGradient
from neuro_cli.model.huggingface import HuggingFace
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.perturbed import PerturbedForward

DIRECTIONS, SIGMA = 3, 0.1


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    made = {kind: tiny_model(place / kind, kind) for kind in ("llama", "qwen2", "gpt2", "bert")}
    # its tokens are folded into the batch
    return made | {"opt": tiny_family(place / "opt", "OPTConfig", ffn_dim=64, word_embed_proj_dim=32)}


def words(*texts, side="right", tokenizer):
    made = tokenizer(list(texts), return_tensors="pt", padding=True, padding_side=side)
    return made["input_ids"], made["attention_mask"]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "bert"])
def test_its_logits_are_those_of_transformers(folders, kind):
    model = HuggingFace(folders[kind])
    theirs = transformers.AutoModelForSequenceClassification if kind == "bert" else transformers.AutoModelForCausalLM
    theirs = theirs.from_pretrained(folders[kind]).eval()
    tokens, mask = words("12 + 35 = 47", "x = 1", tokenizer=model.tokenizer)
    with torch.no_grad():
        wanted = theirs(input_ids=tokens, attention_mask=mask).logits
        made = model(tokens)
    if kind == "bert":
        torch.testing.assert_close(made, wanted)
    else:  # padding after a text changes nothing before it
        torch.testing.assert_close(made[mask.bool()], wanted[mask.bool()])


def test_the_head_is_applied_to_wanted_positions_alone(folders):
    model = HuggingFace(folders["llama"])
    tokens, _ = words("12 + 35 = 47", "x = 1", tokenizer=model.tokenizer)
    places = torch.tensor([[10, 11], [3, 4]])
    shapes = []
    model.pretrained.lm_head.register_forward_hook(lambda _, __, made: shapes.append(made.shape[:2]))
    with torch.no_grad():
        made = model.answer_logits(tokens, places)
        whole = model(tokens)
    torch.testing.assert_close(made, torch.stack([row[at] for row, at in zip(whole, places, strict=True)]))
    assert shapes == [(2, 2), (2, 12)]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_greedy_answers_are_those_of_transformers(folders, kind, side):
    """Rotations of a llama depend on distances alone; a GPT-2 has learnt places, which padding on the left must not count in."""
    model = HuggingFace(folders[kind])
    texts = "12 + 35 =", "Name: A", "x"
    made = model.generate(*words(*texts, side=side, tokenizer=model.tokenizer), 8)
    tokens, mask = words(*texts, side="left", tokenizer=model.tokenizer)
    wanted = model.pretrained.generate(input_ids=tokens, attention_mask=mask, max_new_tokens=8, do_sample=False)
    assert torch.equal(made, wanted[:, tokens.shape[1] :])
    if kind == "gpt2":
        alone = [model.generate(*words(text, tokenizer=model.tokenizer), 8) for text in texts]
        assert torch.equal(made, torch.cat(alone))


WINDOW = {"sliding_window": 4}  # tokens that a layer sees
STATE = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_chunk_size": 8}
FAMILIES = {
    "MistralConfig": (WINDOW, True),
    "Gemma3TextConfig": ({**WINDOW, "layer_types": ["sliding_attention", "full_attention"]}, True),
    "MptConfig": ({"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128}, True),  # distances of places
    "BambaConfig": ({**STATE, "attn_layer_indices": [1]}, True),  # recurrent and attention
    "Lfm2Config": ({"layer_types": ["conv", "full_attention"]}, True),
    "OPTConfig": ({"ffn_dim": 64, "word_embed_proj_dim": 32}, True),
    "RwkvConfig": ({"attention_hidden_size": 32, "context_length": 128}, False),  # reads padding as tokens
    "OpenAIGPTConfig": ({"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}, False),  # has no cache
    "MambaConfig": ({"state_size": 4}, False),
}


@pytest.mark.parametrize("config", FAMILIES)
def test_padding_between_prompt_and_answer_changes_no_answer(tmp_path, config, caplog):
    """It would count in a window, a distance or a state. The plain loop takes one prompt and a complete pass for each token."""
    more, caches = FAMILIES[config]
    model = HuggingFace(tiny_family(tmp_path / config, config, **more))
    assert model.caches is caches
    texts = "12 + 35 =", "Name: A", "x", "one two three, 7 8 9"
    wanted = torch.zeros(len(texts), 10, dtype=torch.int64)
    with torch.no_grad():
        for row, text in enumerate(texts):
            tokens, _ = words(text, tokenizer=model.tokenizer)
            for place in range(10):
                tokens = torch.cat([tokens, model.pretrained(input_ids=tokens, use_cache=False).logits[:, -1:].argmax(-1)], 1)
                wanted[row, place] = tokens[0, -1]
                if tokens[0, -1] == 1:
                    break
    for side in ("right", "left"):
        assert torch.equal(model.generate(*words(*texts, side=side, tokenizer=model.tokenizer), 10), wanted)
    said = [record.getMessage().partition(": ")[2] for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == ["each token of an answer takes a complete pass: its cache bears no padding"] * (not caches)


def test_a_network_that_reads_later_tokens_is_no_causal_one(tmp_path):
    folder = tiny_family(tmp_path / "model", "BertConfig", is_decoder=False)
    with pytest.raises(ConfigError, match=r"its logits depend on later tokens: no causal language model \(is_decoder in"):
        HuggingFace(folder)
    assert HuggingFace(tiny_family(tmp_path / "other", "BertConfig", is_decoder=True)).caches


def test_padding_behind_a_text_changes_no_class(tmp_path):
    sizes = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64, "decoder_start_token_id": 0}
    model = HuggingFace(tiny_family(tmp_path / "t5", "T5Config", "SequenceClassification", **sizes))  # answers at the end
    tokens, _ = words("12 + 35", "x", tokenizer=model.tokenizer)
    tokens[0, -1] = tokens[1, 1] = 1
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[1:], model(tokens[1:, :2]))
    nobody = tiny_family(tmp_path / "gpt2", "GPT2Config", "SequenceClassification", pad_token_id=None)
    with pytest.raises(ConfigError, match=r"its config.json has no pad_token_id, by which classifiers see padding"):
        HuggingFace(nobody)
    more = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}  # answers at the last place
    with pytest.raises(ConfigError, match=r"its classes depend on padding behind a text"):
        HuggingFace(tiny_family(tmp_path / "xlnet", "XLNetConfig", "SequenceClassification", **more))


def test_an_answer_ends_with_its_last_token_and_then_padding(folders):
    model = HuggingFace(folders["llama"])
    tokens, mask = words("12 + 35 =", "Name: A", tokenizer=model.tokenizer)
    free = model.generate(tokens, mask, 6)
    model.pretrained.generation_config.eos_token_id = int(free[0, 2])
    made = model.generate(tokens, mask, 6)
    stops = (free == free[0, 2]).int().cumsum(1)
    assert torch.equal(made, free.where(stops - (free == free[0, 2]).int() == 0, 0))
    model.pretrained.generation_config.eos_token_id = None
    assert torch.equal(model.generate(tokens, mask, 6, {int(free[0, 2])}), made)


def test_an_answer_ends_where_its_logits_are_no_numbers(tmp_path):
    """Their argmax is a token too."""
    model = HuggingFace(tiny_model(tmp_path / "llama", tie_word_embeddings=False))
    tokens, mask = words("12 + 35 =", "Name: A", tokenizer=model.tokenizer)
    wanted = model.generate(tokens, mask, 3)
    own = next(token for token in tokens[0].tolist() if token not in tokens[1])
    nn.init.constant_(model.pretrained.get_input_embeddings().weight[own], torch.nan)
    made = model.generate(tokens, mask, 3)
    assert made[0, 0] == -1
    assert torch.equal(made[1], wanted[1])


def test_a_model_that_is_frozen_afterwards_answers_as_before(folders):
    model = HuggingFace(folders["llama"], dtype="bfloat16")
    tokens, mask = words("12 + 35 =", tokenizer=model.tokenizer)
    wanted = model.generate(tokens, mask, 4)
    assert torch.equal(model.requires_grad_(False).generate(tokens, mask, 4), wanted)


@pytest.mark.parametrize(
    ("trainable", "wanted"), [("norms", 5), ("all", 20), ("*.mlp.*", 6), ("lora", 28), ("model.layers.1.*_proj.weight", 7)]
)
def test_what_is_trained(folders, trainable, wanted):
    model = HuggingFace(folders["llama"], trainable=trainable, dtype="bfloat16")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert len(trained) == wanted
    assert {parameter.dtype for parameter in trained} == {torch.float32}
    assert ParameterLayout(model).size == sum(parameter.numel() for parameter in trained)
    with torch.device("meta"):  # as a resume asks for the size
        assert ParameterLayout(HuggingFace(folders["llama"], trainable=trainable)).size == ParameterLayout(model).size
    tokens, _ = words("12 + 35", tokenizer=model.tokenizer)
    with torch.no_grad():
        assert model(tokens).dtype == (torch.float32 if trainable == "all" else torch.bfloat16)


@pytest.mark.parametrize("kind", ["bert", "qwen2"])
def test_a_new_head_makes_a_classifier(folders, kind):
    with seeded(3):
        model = HuggingFace(folders[kind], classes=5)
    with seeded(3):
        again = HuggingFace(folders[kind], classes=5)
    tokens, _ = words("12 + 35", "x", tokenizer=model.tokenizer)
    with torch.no_grad():
        assert model(tokens).shape == (2, 5)
        assert torch.equal(model(tokens), again(tokens))
    head = model.pretrained.classifier if kind == "bert" else model.pretrained.score
    assert all(parameter.requires_grad for parameter in head.parameters())


def test_additions_that_a_network_would_pass_by_are_refused(tmp_path):
    """A Mamba multiplies by the weight of a linear layer without calling it."""
    folder = tiny_family(tmp_path / "model", "MambaConfig", **FAMILIES["MambaConfig"][0])
    with pytest.raises(ConfigError, match=r"^model.trainable=lora: the network uses the weight of a linear layer by itself"):
        HuggingFace(folder, trainable="lora")


SINKS = {"num_local_experts": 2, "num_experts_per_tok": 1, "layer_types": ["sliding_attention", "full_attention"]}


@pytest.mark.parametrize(
    ("config", "more", "wanted"),
    [
        ("MambaConfig", FAMILIES["MambaConfig"][0], {"norm", "norm_f"}),  # its D is a vector too
        ("RwkvConfig", FAMILIES["RwkvConfig"][0], {"pre_ln", "ln1", "ln2", "ln_out"}),  # so are decays
        ("GptOssConfig", {**SINKS, **WINDOW}, {"input_layernorm", "post_attention_layernorm", "norm"}),  # so are sinks
    ],
)
def test_norms_are_scales_of_norms_alone(tmp_path, config, more, wanted):
    model = HuggingFace(tiny_family(tmp_path / "model", config, **more))
    trained = {tuple(name.split(".")[-2:]) for name, one in model.named_parameters() if one.requires_grad}
    assert trained == {(name, "weight") for name in wanted}


def test_no_parameter_of_that_name(folders, tmp_path):
    with pytest.raises(ConfigError, match=r"^model.trainable=norms: its norms have no scales; must be norms, all"):
        HuggingFace(tiny_family(tmp_path / "olmo", "OlmoConfig"))
    with pytest.raises(ConfigError, match=r"^model.trainable=\*.gate: no parameter has such a name; must be"):
        HuggingFace(folders["llama"], trainable="*.gate")


@pytest.mark.parametrize(
    ("kind", "trainable"),
    [*itertools.product(["llama", "qwen2", "bert"], ["norms", "all", "lora"]), ("opt", "norms"), ("opt", "lora")],
)
def test_members_of_one_pass_answer_as_networks_of_their_own(folders, kind, trainable):
    answers_of_members(HuggingFace(folders[kind], trainable=trainable), generates=kind != "bert")


def answers_of_members(model: HuggingFace, generates: bool = True, tolerance: float = 1e-3) -> None:
    """Compare logits and answers of members in one pass with those of networks of their own, answers where digits allow."""
    layout, sampler = ParameterLayout(model), LowRank()
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 2 * DIRECTIONS, layout)
    rows = MemberBatch([SIGMA, -SIGMA], DIRECTIONS, 2)
    tokens, mask = words("12 + 35 =", "Name: A", "x", "10 = 3 + 7", "b", "ok?", tokenizer=model.tokenizer)
    tokens, mask = with_mark([tokens.repeat(2, 1), mask.repeat(2, 1)])  # as scorers give them
    centre = layout.flatten(model)
    with torch.no_grad():
        with PerturbedForward(model, layout, sampler.perturbation(0, 0, rows, torch.float32)):
            made = model(tokens)
            answers = model.generate(tokens, mask, 5) if generates else None
        single = copy.deepcopy(model)
        for number in range(2 * DIRECTIONS):
            own = slice(2 * number, 2 * number + 2)
            step = rows.scales[number // DIRECTIONS] * sampler.explicit(0, number % DIRECTIONS)
            layout.attach(single, centre + step)
            torch.testing.assert_close(made[own], single(tokens[own]), rtol=tolerance, atol=tolerance)
            if generates and tolerance < 0.01:
                assert torch.equal(answers[own], single.generate(tokens[own], mask[own], 5))


MIXED = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
LINEAR = {f"linear_{name}": size for name, size in
          (("num_key_heads", 2), ("num_value_heads", 2), ("key_head_dim", 8), ("value_head_dim", 8))}  # fmt: skip
COMPUTED = {
    "Gemma3TextConfig": {},
    "CohereConfig": {},
    "NemotronConfig": {},
    "JambaConfig": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "num_experts": 3,
        "mamba_dt_rank": 4,
    },
    "Qwen3NextConfig": {"layer_types": ["linear_attention", "full_attention"], **LINEAR, **MIXED},
}


@pytest.mark.parametrize("family", COMPUTED)
def test_norms_with_a_computed_scale_and_experts_generate_in_one_pass(tmp_path, family):
    answers_of_members(HuggingFace(tiny_family(tmp_path / "model", family, **COMPUTED[family])))


@pytest.mark.parametrize("family", ["JambaConfig", "Qwen3NextConfig"])
def test_experts_in_bfloat16_generate_in_one_pass(tmp_path, family):
    model = HuggingFace(tiny_family(tmp_path / "model", family, **COMPUTED[family]), dtype="bfloat16")
    answers_of_members(model, tolerance=0.05)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_additions_of_low_rank_become_part_of_the_weights(folders, tmp_path, kind):
    model = HuggingFace(folders[kind], trainable="lora", rank=2)
    tokens, _ = words("12 + 35", tokenizer=model.tokenizer)
    with torch.no_grad():
        assert torch.equal(model(tokens), HuggingFace(folders[kind])(tokens))  # nothing is added at first
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.2)
        write_tuned(folders[kind], tmp_path / "tuned", model.tuned())
        torch.testing.assert_close(HuggingFace(tmp_path / "tuned")(tokens), model(tokens), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "trainable"), [("llama", "norms"), ("llama", "lora"), ("llama", "all"), ("gpt2", "lora")])
def test_noise_on_activations_gives_the_gradient_of_back_propagation(folders, kind, trainable):
    """Predictions of smooth networks are nearly right; four queries of the llama share two keys."""
    model = HuggingFace(folders[kind], trainable=trainable, rank=2)
    tokens = torch.randint(2, VOCABULARY, (8, 17), generator=torch.Generator().manual_seed(1))

    def losses(outputs, targets):
        return nn.functional.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)

    def gradient():
        parts = [each.grad.flatten() for each in model.parameters() if each.requires_grad]
        model.zero_grad()
        return torch.cat(parts)

    with seeded(2), torch.no_grad():
        for name, each in model.named_parameters():
            if name.endswith(".up"):
                each.normal_(std=0.2)
    ForwardGradient(model, draws=1, schedule="all", threads=1).backward(losses, tokens[:, :-1], tokens[:, 1:])
    estimate = gradient()
    losses(model(tokens[:, :-1]), tokens[:, 1:]).mean().backward()
    torch.testing.assert_close(estimate, wanted := gradient(), rtol=0, atol=0.05 * float(wanted.abs().max()))
    assert nn.functional.cosine_similarity(estimate, wanted, dim=0) > 0.999


@pytest.mark.parametrize("trainable", ["norms", "lora", "all"])
def test_shapes_alone_are_those_of_the_network_and_need_no_weights(folders, tmp_path, trainable):
    def parameters(path):
        module = HuggingFace(path, trainable=trainable)
        return [(name, each.shape, each.dtype, each.requires_grad) for name, each in module.named_parameters()]

    (folder := tmp_path / "shapes").mkdir()
    for file in folders["llama"].iterdir():
        (folder / file.name).write_bytes(b"" if file.suffix == ".safetensors" else file.read_bytes())
    with torch.device("meta"):
        shapes = parameters(folder)
    assert shapes == parameters(folders["llama"])
