"""``neuro bench growth``: its points, widths and exponents, and the whole on real ranks."""

import pytest
from support.configs import composed
from support.inside import neuro_inside, well
from support.tables import rows_of
from support.worlds import needs_mpi

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.growth import Growth
from neuro_cli.bench.workers.growth import network

SMALL = ("growth.parameters=[2000,8000]", "growth.population=[4,8]", "growth.ranks=[1,2]", "growth.middle_parameters=2000")


def growth(*overrides: str) -> Growth:
    return BenchConfig.of(composed("what=growth", *overrides, verb="bench")).own(Growth, "growth")


def test_one_number_varies_at_a_time_and_dense_noise_has_an_end():
    points = list(growth(*SMALL, "growth.middle_population=4", "growth.dense_numbers=16000").points())
    assert [(axis, p.sampler, p.parameters, p.population, p.ranks) for axis, p in points] == [
        ("parameters", "antithetic", 2000, 4, 1),
        ("population", "antithetic", 2000, 4, 1),
        ("population", "antithetic", 2000, 8, 1),
        ("ranks", "antithetic", 2000, 4, 1),
        ("ranks", "antithetic", 2000, 4, 2),
        ("parameters", "low_rank", 2000, 4, 1),
        ("parameters", "low_rank", 8000, 4, 1),
        ("population", "low_rank", 2000, 4, 1),
        ("population", "low_rank", 2000, 8, 1),
        ("ranks", "low_rank", 2000, 4, 1),
        ("ranks", "low_rank", 2000, 4, 2),
    ]


@pytest.mark.parametrize("wanted", [1000, 54321, 10**6])
def test_the_network_has_about_as_many_parameters(wanted):
    own = growth()
    width = own.width(wanted)
    count = sum(parameter.numel() for parameter in network([own.inputs, width, width, 10]).parameters())
    assert count == pytest.approx(wanted, rel=0.06)  # a step of the width at 1,000 is 9 %


@needs_mpi
@pytest.mark.slow  # a world for each of six points
def test_every_point_has_seconds_and_memory(tmp_path):
    options = (*SMALL, "growth.samplers=low_rank", "repeats=2", "threads=1", "hydra.run.dir=bench")
    well(neuro_inside("bench", "growth", *options, cwd=tmp_path))
    rows = rows_of(tmp_path / "bench" / "growth.csv")
    assert [row["axis"] for row in rows] == ["parameters"] * 2 + ["population"] * 2 + ["ranks"] * 2
    assert all(0 < float(row["least"]) <= float(row["seconds"]) <= float(row["most"]) for row in rows)
    assert all(float(row["memory_bytes"]) > 1e6 for row in rows)
    assert (tmp_path / "bench" / "growth.svg").exists()
