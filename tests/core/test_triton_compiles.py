"""Triton kernels compile for a GPU that is not here: the interpreter takes what the compiler refuses."""

import pytest

SIZES = {"bm": 64, "bn": 32, "bk": 32, "br": 4, "bl": 4, "bw": 64, "bc": 32, "bd": 32, "block": 256, "taken": 4, "depth": 32}
SIZES |= {"lanes": 256, "part": 64, "height": 5, "width": 5}
FLAGS = ("last", "wide", "few", "has_bias", "has_shift", "square", "law")
NUMBERS = ("scale0", "scale1")


def types_of(name: str, kind: str) -> dict[str, str]:
    """Types of a kernel's pointers by name; whatever is not here is an integer."""
    floats = ("x", "y", "t", "weight", "low", "high", "bias", "shift", "maps", "factors", "filters", "out")
    found = dict.fromkeys(floats, f"*{kind}") | {"words": "*u32"} | dict.fromkeys(NUMBERS, "fp32")
    found |= {"index": "*i32", "into": "*fp32", "row_of": "*i32", "column_of": "*i32", "shared": "*fp32", "weights": "*fp32"}
    if name == "_placed_sum":
        found |= {"weights": "*fp64", "out": "*fp64", "low": "i32"}
    if name == "_layer":
        found["shared"] = "i32"
    return found


TURNS = ("bf16", True), ("fp32", False)  # by default each kernel in one of the two
CASES = [(kind, flag) for kind in ("bf16", "fp32", "fp16") for flag in (True, False)]


@pytest.mark.parametrize("turns", [TURNS, *(pytest.param((case,), marks=pytest.mark.slow) for case in CASES)], ids=str)
def test_every_row_and_layer_kernel_compiles_for_a_hopper_gpu(turns):
    pytest.importorskip("triton", reason="no Triton here: it comes with torch where torch has CUDA")
    compiler = pytest.importorskip("triton.compiler")
    backends = pytest.importorskip("triton.backends.compiler")
    from neuro_cli.core.kernels import triton_layers, triton_rows, triton_sums

    kernels = ("_flip", "_add_flipped", "_gather", "_add_scattered", "_add_outer", "_filtered")
    both = [(triton_rows, name) for name in kernels]
    both += [(triton_sums, name) for name in ("_weighted_signs", "_counts", "_placed_sum")]
    both += [(triton_layers, name) for name in ("_layer", "_pooled", "_spread")]
    for place, (module, name) in enumerate(both):
        kind, flag = turns[place % len(turns)]
        kernel, constants = getattr(module, name), {}
        for parameter in kernel.params:
            if parameter.is_constexpr:
                value = SIZES.get(parameter.name, flag)
                value = ("tf32x3" if kind == "fp32" else "ieee") if parameter.name == "precision" else value
                constants[parameter.name] = 1 + flag if parameter.name == "rank" else value
        types = types_of(name, kind)
        signature = {key: "constexpr" if key in constants else types.get(key, "i32") for key in kernel.arg_names}
        places = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
        source = compiler.ASTSource(kernel, signature, constexprs=places)
        made = compiler.compile(source, target=backends.GPUTarget("cuda", 90, 32))
        assert made.asm["ptx"], name
