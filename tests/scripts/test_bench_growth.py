"""``scripts/bench_growth.py``: one number varies at a time, and networks have about as many parameters as a point says."""

import runpy
from argparse import Namespace

import pytest
from test_kept_results import ROOT

GROWTH = runpy.run_path(str(ROOT / "scripts" / "bench_growth.py"))


def test_one_number_varies_at_a_time_and_dense_noise_has_an_end():
    sizes = {"parameters": [2000, 10**8], "population": [4], "ranks": [1, 2]}
    chosen = Namespace(samplers=["antithetic", "low_rank"], repeats=1, threads=1, **sizes)
    points = [(one["sampler"], one["parameters"], one["population"], one["ranks"]) for one in GROWTH["points"](chosen)]
    middle = [(2000, 128, 1), (10**8, 128, 1), (10**5, 4, 1), (10**5, 128, 1), (10**5, 128, 2)]
    assert points == [(name, *point) for name in chosen.samplers for point in middle if name != "antithetic" or point[0] < 10**8]


@pytest.mark.parametrize("wanted", [1000, 54321, 10**6])
def test_the_network_has_about_as_many_parameters(wanted):
    count = sum(parameter.numel() for parameter in GROWTH["network"](wanted).parameters())
    assert count == pytest.approx(wanted, rel=0.06)  # a step of the width at 1,000 is 9 %
