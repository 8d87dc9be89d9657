"""``neuro bench generation`` for real, on a small network."""

import csv

from worlds import neuro

from neuro_cli.runner.bench import SPLIT


def test_bench_generation_times_both_systems_and_writes_csv(tmp_path):
    setting = ("model=MNIST_10K", "population=4", "batch_size=16", "repeats=2", "threads=1", "hydra.run.dir=bench")
    done = neuro("bench", "generation", *setting, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "bench" / "bench.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["system"], row["repeat"]) for row in rows] == [
        (system, str(repeat)) for system in ("neuro", "textbook") for repeat in range(2)
    ]
    for row in rows:
        assert 0 < sum(float(row[part]) for part in SPLIT) <= float(row["seconds"]) * 1.05
        assert float(row["peak_memory_bytes"]) > 1e8
    assert "neuro / textbook: " in done.stdout
    for word in ("torch 2", "numba", "1 threads", "cores"):
        assert word in done.stdout


def test_bench_refuses_an_unknown_subject(tmp_path):
    done = neuro("bench", "generatoin", "hydra.run.dir=bench", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "neuro: error: what=generatoin: must be one of generation\n"
