"""``neuro bench layer``: the published layers, what its methods compute, how much they take, what it writes."""

from functools import partial

import numpy as np
import pytest
import torch
from support.configs import composed
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of
from torch import nn

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.layer.cases import Case, Convolution, Layer, Linear, Networks, cases, convolution, linear
from neuro_cli.bench.layer.measure import bench_layer, method_of
from neuro_cli.bench.layer.memory import noise_numbers, peak_bytes
from neuro_cli.bench.layer.methods import SIGMA
from neuro_cli.bench.layer.subject import Subject
from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.config import section

CPU = torch.device("cpu")
LARGE = ("~layer.network.models.MNIST_3M", "~layer.network.models.char_gpt")
IID = {"_target_": "neuro_cli.sampler.iid.Iid"}
FLIP = {"_target_": "neuro_cli.sampler.sign_flip.SignFlip", "antithetic": False}
PLACE = {"_target_": "neuro_cli.sampler.permutation.Permutation", "antithetic": False}
RANK_1 = {"_target_": "neuro_cli.sampler.low_rank.LowRank", "antithetic": False}


def subject(case: Case, threads: int = 2) -> Subject:
    torch.manual_seed(1)
    return Subject(case, CPU, torch.float32, threads)


def test_the_default_layers_are_the_published_ones():
    layer = section(Layer, composed(verb="bench")["layer"], "layer.")
    found = [(case.name, case.examples) for case in cases(layer) if isinstance(case.module, nn.Linear | nn.Conv2d)]
    assert found == [
        *((f"linear {size}", 8192) for size in ("256, 256", "512, 512", "512, 10")),
        *((f"conv {size}", 512) for size in ("3,64,32x32", "64,64,32x32", "128,128,16x16", "256,256,8x8", "512,512,4x4")),
    ]


def test_no_two_threads_share_a_module():
    """A pass replaces its module's forward function."""
    method = method_of(subject(linear([24, 24], 64), threads=3), IID)
    modules = [method._modules.get() for _ in range(3)]
    assert len({id(module) for module in modules}) == 3


def char_gpt(examples: int) -> Case:
    """Return a small transformer, whose inputs are tokens."""
    options = composed(verb="bench")["layer"]["network"]["models"]["char_gpt"]
    small = {"outputs": 11, "context": 6, "width": 8, "heads": 2}
    networks = Networks({"char_gpt": options | small}, examples)
    (case,) = cases(Layer(steps=["draw"], linear=Linear([], 1), convolution=Convolution([], 1), network=networks))
    assert (case.shape, case.tokens) == ((6,), 11)
    return case


def network(examples: int) -> Case:
    return Case("network", nn.Sequential(nn.Flatten(), nn.Linear(12, 7), nn.ReLU(), nn.Linear(7, 2)), (3, 2, 2), examples, 0)


@pytest.mark.parametrize(
    ("create", "examples", "node", "pair"),
    [
        (partial(convolution, [3, 5, 4]), 6, IID, True),
        (network, 6, IID, False),
        (partial(linear, [40, 33]), 600, FLIP, True),
        (char_gpt, 70, PLACE, False),
        (char_gpt, 70, RANK_1, False),
    ],
    ids=("convolution", "network", "sign_flip", "transformer permutation", "transformer low_rank"),
)
def test_every_example_runs_once_with_noise_of_its_own(create, examples, node, pair):
    """In pairs n examples are n/2 pairs: they were n pairs on 2 n rows, which doubled the times of antithetic on a GPU."""
    made = subject(create(examples))
    method = method_of(made, node | {"antithetic": pair})
    for _ in range(5):
        method.forward(0)  # threads side by side
    sides = (1, -1) if pair else (1,)
    with torch.no_grad():
        outputs = torch.cat([method.outputs(method._pass, chunk) for chunk in range(len(method._bounds))])
    rows = [(direction, sign) for low, high in method._bounds for sign in sides for direction in range(low, high)]
    assert len(outputs) == len(set(rows)) == method.examples == examples
    sampler, candidate = made.sampler(node | {"antithetic": pair}, examples), made.candidate()
    for place in {*range(0, examples, max(1, examples // 5)), examples - 1}:
        direction, sign = rows[place]
        example = direction + (sign < 0) * sampler.directions
        candidate.flat.copy_(made.centre + sign * SIGMA * sampler.explicit(0, direction))
        with torch.no_grad():
            wanted = candidate.ready()(made.x[example : example + 1])[0]
        torch.testing.assert_close(outputs[place], wanted, atol=1e-4, rtol=1e-4)
    weights = torch.randn(examples, generator=torch.Generator().manual_seed(2)).double().numpy()[None]
    wanted = sampler.combine(weights, (1,), 0, range(examples), 0, made.layout.size)[0]
    torch.testing.assert_close(method.update(0), wanted, atol=1e-3, rtol=1e-3)


def test_pairs_need_an_even_number_of_examples():
    with pytest.raises(ConfigError, match="linear 4, 4: antithetic pairs need an even number of examples"):
        method_of(subject(linear(4, 5)), IID | {"antithetic": True})


def test_noise_beyond_memory_is_that_of_some_examples(monkeypatch):
    monkeypatch.setattr("neuro_cli.bench.layer.methods.STORED", 2 * 32)
    made = subject(linear([8, 4], 10))
    assert [method_of(made, IID | {"antithetic": pair}).examples for pair in (False, True)] == [2, 4]


def bytes_of(factors) -> int:
    tensors = [factors] if isinstance(factors, torch.Tensor) else [t for each in factors.values() for t in each if t is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("sides", ["both", "outputs", "inputs"])
@pytest.mark.parametrize("node", [FLIP, PLACE, PLACE | {"sparsity": 0.1}], ids=["sign_flip", "permutation", "permutation_10"])
def test_the_formula_of_memory_is_what_is_counted(node, sides):
    """Against the tensors that a sampler makes for 20 directions."""
    for case in (linear([64, 40], 20), convolution([10, 40, 6], 20)):
        made = subject(case)
        sampler = made.sampler(node | {"sides": sides}, 20)
        numbers, kept = noise_numbers(sampler)
        (block,) = sampler.blocks.values()
        a, b, weights = block.inner, block.rows, made.layout.size
        share = sampler.shared_cube(block, sampler.address_of(0, 0)).numel() if node["_target_"].endswith("Permutation") else 0
        assert kept == bytes_of(sampler.factors(0, range(20))) + 4 * weights + 4 * share
        if "sparsity" not in node:  # the paper's formula: a b numbers for all, and a sign or an index for each row or column
            assert numbers == weights + 20 * {"both": a + b, "outputs": b, "inputs": a}[sides]
    assert noise_numbers(subject(linear([64, 40], 20)).sampler(IID | {"antithetic": False}, 20)) == (20 * 2560, 4 * 20 * 2560)
    assert noise_numbers(subject(linear([64, 40], 20)).sampler(IID | {"antithetic": True}, 20))[0] == 10 * 2560
    assert noise_numbers(subject(linear([64, 40], 20)).sampler(IID | {"antithetic": False}, 20), 2)[1] == 2 * 20 * 2560


@pytest.mark.parametrize("make", [lambda: torch.ones(2**24), lambda: np.ones(2**24, np.float32)], ids=["torch", "numpy"])
def test_the_peak_of_memory_counts_what_any_library_takes(make):
    found = peak_bytes(make, CPU)
    if found is None:
        pytest.skip("this system does not say")
    assert 0.98 < found / 2**26 < 1.1  # Linux counts a thread's pages in lots of 64


@pytest.mark.slow  # by default two of the layers with four of the samplers, below
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_all_published_layers_run_with_a_few_examples(tmp_path, precision):
    rows = written(tmp_path, f"precision={precision}", "~samplers.noise_table")
    assert len({row["layer"] for row in rows}) == 3 + 5 + 1


def written(folder, *overrides):
    """Rows of layer.csv, compared with each other and with memory.csv."""
    small = ("layer.linear.examples=4", "layer.convolution.examples=2", "layer.network.examples=2", "repeats=2", "threads=1")
    config = composed(*small, *overrides, *LARGE, verb="bench")
    bench_layer(BenchConfig.of(config), folder)
    rows = rows_of(folder / "layer.csv")
    steps = {f"{name} {step}" for name in config["samplers"] for step in ("draw", "forward", "update")}
    assert {row["what"] for row in rows} == {"unperturbed"} | steps
    plain = {(row["layer"], row["round"]): float(row["milliseconds"]) for row in rows if row["what"] == "unperturbed"}
    for row in rows:
        assert float(row["multiple"]) == pytest.approx(float(row["milliseconds"]) / plain[row["layer"], row["round"]])
        assert row["examples"] == row["of"]
    memory = rows_of(folder / "memory.csv")
    assert {row["method"] for row in memory} == {"unperturbed", *config["samplers"]}
    (line,) = (row for row in memory if (row["layer"], row["method"]) == ("MLP_270K", "iid"))
    assert int(line["noise_numbers"]) == 2 * 269_322
    return rows


def test_only_the_steps_that_are_asked_for(tmp_path):
    options = ("layer.linear.features=[24]", "layer.linear.examples=40", "layer.convolution.sizes=[]", "layer.steps=[update]")
    gone = (*LARGE, "~layer.network.models.MLP_270K", "repeats=1", "hydra.run.dir=bench")
    well(neuro_inside("bench", "layer", *options, *gone, "~samplers.noise_table", cwd=tmp_path))
    assert {row["what"].rpartition(" ")[2] for row in rows_of(tmp_path / "bench" / "layer.csv")} == {"unperturbed", "update"}
    assert not (tmp_path / "bench" / "memory.csv").exists()
    refuse = partial(neuro_inside, "bench", "layer", "hydra.run.dir=other", cwd=tmp_path)
    assert one_line(refuse("layer.steps=[backward]")).startswith("layer.steps=backward: must be one of draw, forward, update")
    assert one_line(refuse("layer.steps=[]")).startswith("layer.steps=[]: must be a list of some of draw")
    assert one_line(refuse("precision=float16", "device=cpu")).startswith("precision=float16: half precision needs a GPU")
