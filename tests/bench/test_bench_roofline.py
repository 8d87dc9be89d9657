"""``neuro bench roofline``: what is counted, against hand counts; the table that it writes; what it refuses."""

import csv

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.inside import neuro_inside, one_line
from torch import nn

from neuro_cli.bench.roofline import INTEGERS, MEMORY, PRODUCTS, Machine, Work, _integers, forward_work
from neuro_cli.core.machine.threads import Threads

TINY = (
    "repeats=2", "threads=1", "model=MLP_270K", "population=4", "batch_size=8", "roofline.linear.features=[[24,12]]",
    "roofline.linear.examples=32", "roofline.convolution.sizes=[[2,3,4]]", "roofline.convolution.examples=5",
)  # fmt: skip
rate = st.floats(1e6, 1e12)
amount = st.floats(0, 1e12)


@given(products=amount, integers=amount, memory=amount, rates=st.tuples(rate, rate, rate))
def test_a_kernel_takes_at_least_its_operations_and_at_least_its_bytes(products, integers, memory, rates):
    seconds, bound = Work(products, integers, memory).least(dict(zip((PRODUCTS, INTEGERS, MEMORY), rates, strict=True)))
    parts = {PRODUCTS: products / rates[0], INTEGERS: integers / rates[1], MEMORY: memory / rates[2]}
    assert seconds == pytest.approx(max(parts[PRODUCTS] + parts[INTEGERS], parts[MEMORY]))
    if parts[MEMORY] > 1.001 * (parts[PRODUCTS] + parts[INTEGERS]):
        assert bound == MEMORY
    elif parts[PRODUCTS] > 1.001 * max(parts[INTEGERS], parts[MEMORY]):
        assert bound == PRODUCTS


def test_a_forward_pass_has_two_operations_for_each_weight_that_meets_a_number():
    network = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 7))
    assert forward_work(network, torch.zeros(5, 2, 4, 4)) == (2 * 5 * (3 * 2 * 9 * 16 + 48 * 7), 5 * (48 + 48 + 48 + 7))


def test_the_loop_of_integers_makes_as_many_operations_as_it_counts():
    values = np.arange(5, dtype=np.uint32)
    expected = values.copy()
    for _ in range(3 * 16):
        expected = (expected + np.uint32(0x9E3779B9)) ^ np.uint32(0x5BD1E995)
    _integers(values, 3)
    assert values.tolist() == expected.tolist()
    assert set(Machine(Threads(2), torch.float32).rates()) == {PRODUCTS, INTEGERS, MEMORY}


def test_each_kernel_has_its_share_of_the_limit_in_every_round(tmp_path):
    done = neuro_inside("bench", "roofline", *TINY, "hydra.run.dir=bench", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "bench" / "roofline.csv").open() as file:
        rows = list(csv.DictReader(file))
    kernels = [row["kernel"] for row in rows if row["round"] == "0"]
    assert len(kernels) == len(set(kernels)) == 3 + 1 + 2 * 4
    assert [row["kernel"] for row in rows if row["round"] == "1"] == kernels
    by_name = {row["kernel"]: row for row in rows}
    dense = 784 * 256 + 256 * 256 + 256 * 10
    assert float(by_name["forward passes of the members"]["products"]) == 4 * 2 * 8 * dense
    plain, flipped = (by_name[f"linear 24, 12, {name}"] for name in ("unperturbed", "sign_flip"))
    assert float(flipped["products"]) == 2 * float(plain["products"]) == 4 * 32 * 24 * 12
    assert float(flipped["bytes"]) == float(plain["bytes"]) == 4 * 32 * 36
    for row in rows:
        assert float(row["share"]) == pytest.approx(float(row["limit_seconds"]) / float(row["seconds"]))
        assert float(row["seconds"]) > 0
        assert row["bound"] in (PRODUCTS, INTEGERS, MEMORY)
    for said in ("share of the limit", "GB a second", "torch 2"):
        assert said in done.stdout


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        ("sampler=low_rank", "neuro bench roofline counts those of iid and antithetic"),
        ("layout=per_example", "layout=per_example: must be one of shared_batch"),
        ("roofline.samplers=[iid]", "roofline.samplers=iid: must be a sampler that reuses noise"),
        ("roofline.samplers=[none]", "roofline.samplers=none: must be some of iid, antithetic"),
        ("roofline.linear.features=[[1]]", "roofline.linear.features=[1]: each must be a number or [inputs, outputs]"),
    ],
)
def test_what_it_does_not_count_is_refused(chosen, line, tmp_path):
    assert line in one_line(neuro_inside("bench", "roofline", *TINY, chosen, cwd=tmp_path))
