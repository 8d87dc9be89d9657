"""``neuro bench brokers`` for real, with few tasks."""

import csv

import pytest
from support.inside import neuro_inside, one_line

SMALL = ("brokers.tasks=300", "brokers.seconds=1", "brokers.rate=200", "brokers.shared_tasks=100", "brokers.queued=1000")


@pytest.mark.slow
def test_bench_brokers_gives_throughput_latency_sharing_and_memory(tmp_path):
    done = neuro_inside("bench", "brokers", *SMALL, "repeats=1", "hydra.run.dir=bench", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "bench" / "brokers.csv").open() as file:
        rows = {row["what"]: float(row["value"]) for row in csv.DictReader(file)}
    assert len(rows) == 9
    assert min(rows.values()) > 0
    assert rows["MiB with 1,000 tasks of 1,024 bytes in it"] >= rows["MiB of a broker with an empty queue"]
    assert rows["percent that the lesser worker did"] <= 50


def test_a_wrong_size_is_told_by_its_key(tmp_path):
    said = one_line(neuro_inside("bench", "brokers", "brokers.rate=0", cwd=tmp_path))
    assert said == "brokers.rate=0: must be an integer >= 1"
