"""Tensors of a GGUF file: their types, their places and their names in transformers."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from neuro_cli.core.machine.pages import Part
from neuro_cli.language.kept_folder import kept_folder

# numbers that files store as they are, by the names of safetensors, which are those of the package gguf
PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
# settings that change what a network computes, and that transformers leaves out of some files or of all
CAPS = ("attn_logit_softcapping", "final_logit_softcapping")
SCALES = ("attention.scale", "attention.clamp_kqv", "logit_scale", "embedding_scale", "residual_scale", "rope.scale_linear")
FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
# kinds of vocabularies with which llama.cpp puts a first token before a text though the file does not ask for it
BEGUN = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken")
# names in files of what transformers' configs call by one of several names
EPSILONS = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
EPSILON_NAMES = ("rms_norm_eps", "layer_norm_eps", "norm_eps", "layer_norm_epsilon", "norm_epsilon")


class Stored(NamedTuple):
    """A tensor in a GGUF file: name of its type, shape in the order of torch, first byte in the file."""

    kind: str
    shape: tuple[int, ...]
    start: int

    @property
    def part(self) -> Part:
        """Place of a tensor of a PLAIN type."""
        return Part(PLAIN[self.kind], self.shape, self.start)


class GgufFile:
    """Tensors of a GGUF file by the names of transformers, for a network of so many ``layers``."""

    def __init__(self, file: Path, layers: int) -> None:
        from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

        table = _table(file)
        self.architecture: str = table["architecture"]
        self._tensors = {name: Stored(kind, tuple(shape), start) for name, kind, shape, start in table["tensors"]}
        self._names = get_tensor_name_map({name: kind for kind, name in MODEL_ARCH_NAMES.items()}[self.architecture], layers)

    def get(self, name: str) -> Stored | None:
        """Return the tensor that transformers calls ``name``, None where the file lacks it."""
        return self._tensors.get(self._name(name))

    def without_place(self, names: Iterable[str]) -> str | None:
        """Return a bias of the file that is none of ``names``, parameters of transformers; None if each is one."""
        # the table has some by the name in the network without a head, as Bloom's
        known = {self._name(one) for name in names for one in (name, name.partition(".")[2])}
        # biases of experts are stored as one tensor, and those of a router have other names in each network
        biases = (name for name in self._tensors if name.endswith(".bias") and "_exps" not in name and "exp_probs" not in name)
        return next((name for name in biases if name not in known), None)

    def _name(self, name: str) -> str | None:
        found: str | None = self._names.get_name(name, try_suffixes=(".weight", ".bias"))
        return found


def _table(file: Path) -> dict[str, Any]:
    """Return the architecture and the tensors of a file. They are kept in the user's cache: the package gguf takes seconds."""

    def make(folder: Path) -> None:
        (folder / "tensors.json").write_text(json.dumps(_read(file)))

    from importlib.metadata import version

    folder = kept_folder(file, f"gguf {version('gguf')}", "tensors", make)
    table: dict[str, Any] = _read(file) if folder is None else json.loads((folder / "tensors.json").read_text())
    return table


def _read(file: Path) -> dict[str, Any]:
    from gguf import GGUFReader

    reader = GGUFReader(file)
    sizes = [
        (one.name, one.tensor_type.name, [int(size) for size in reversed(one.shape)], int(one.data_offset))
        for one in reader.tensors
    ]
    return {"architecture": str(reader.fields["general.architecture"].contents()), "tensors": sizes}


def left_out(file: Path, config: Any, names: Iterable[str]) -> str | None:
    """Return what a file has and the network does not that transformers makes of its ``config``; None if there is nothing.

    ``names``: that network's parameters.
    """
    from gguf import GGUFReader

    reader = GGUFReader(file)
    start = str(reader.fields["general.architecture"].contents()) + "."
    found = {name.removeprefix(start): field.contents() for name, field in reader.fields.items() if name.startswith(start)}
    for name in CAPS:
        if name in found and found[name] != getattr(config, name, None):
            return f"{name} of {found[name]:g}"
    for name in SCALES:
        if found.get(name, 0) not in (0, 1):
            return f"{name} of {found[name]:g}"
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)  # each kind of layers has its own; the others' scaling is in no file
    kind, factor = found.get("rope.scaling.type", "linear"), found.get("rope.scaling.factor", 1)
    if kind != "none" and factor != 1 and (rope.get("rope_type"), rope.get("factor")) != (kind, factor):
        return f"rope.scaling of type {kind} by {factor:g}"
    for tensor in reader.tensors:
        if tensor.name in FACTORS and (tensor.data != 1).any() and rope.get("rope_type", "default") == "default":
            return tensor.name
    return _other_number(found, config, rope) or GgufFile(file, config.num_hidden_layers).without_place(names)


def begins_texts(file: Path) -> bool:
    """Return whether llama.cpp puts a first token before a text though the file does not say so, as most of Llama 3 do not."""
    from gguf import GGUFReader

    words = {name.removeprefix("tokenizer.ggml."): field for name, field in GGUFReader(file).fields.items()}
    return "bos_token_id" in words and "add_bos_token" not in words and "pre" in words and words["pre"].contents() in BEGUN


def _other_number(found: dict[str, Any], config: Any, rope: dict[str, Any]) -> str | None:
    """Return a number of a file that ``config`` has otherwise: transformers took the default of its class."""
    base = found.get("rope.freq_base")
    if base is not None and not _near(base, rope.get("rope_theta", base)):
        return f"rope.freq_base of {base:g}"
    heads = getattr(config, "num_attention_heads", 0)  # Mamba has none
    size = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 0)
    turned = None if hasattr(config, "global_head_dim") or hasattr(config, "rotary_dim") else found.get("rope.dimension_count")
    if turned is not None and "rope_theta" in rope and turned != int(size * rope.get("partial_rotary_factor", 1)):
        return f"rope.dimension_count of {turned}"
    scaled = getattr(config, "query_pre_attn_scalar", size)
    if scaled != size:  # Gemma's, which llama.cpp knows by the number of layers
        return f"attention scale, for it has queries of {size} numbers and divides by the root of {scaled},"
    mine = [getattr(config, name) for name in EPSILON_NAMES if getattr(config, name, None) is not None]
    epsilon = next((found[name] for name in EPSILONS if name in found), None)
    if epsilon is not None and mine and not _near(epsilon, mine[0]):
        return f"epsilon of norms, {epsilon:g},"
    return None


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * abs(other)
