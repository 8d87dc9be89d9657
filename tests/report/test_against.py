"""A figure of a swept key: values, spread over seeds, lines of other keys, short names, errors in a line."""

import numpy as np
import pytest
from made_runs import made_run
from support.inside import neuro_inside, one_line

from neuro_cli.report.against import points_of
from neuro_cli.report.table import differing, read_jobs, short_names


@pytest.fixture
def sweep(tmp_path):
    number = 0
    for algo in ("snes", "pgpe"):
        for sigma in (0.2, 0.02):
            for seed in (1, 2, 3):
                run = made_run(tmp_path / "sweep" / str(number), 10, **{"algo": algo, "algo.sigma": sigma, "seed": seed})
                text = (run / "summary.json").read_text()
                accuracy = 0.5 + 0.1 * (algo == "snes") + sigma + seed / 100
                (run / "summary.json").write_text(text.replace('"test_accuracy": 0.75', f'"test_accuracy": {accuracy}'))
                number += 1
    return tmp_path / "sweep"


def test_points_are_means_and_deviations_over_seeds(sweep):
    metric, lines = points_of(read_jobs(sweep), "algo.sigma")
    assert metric.name == "test_accuracy"
    assert set(lines) == {"algo=snes", "algo=pgpe"}
    assert [point.x for point in lines["algo=snes"]] == ["0.02", "0.2"]  # by number, not as typed
    assert np.isclose(lines["algo=snes"][0].mean, 0.64)
    assert np.isclose(lines["algo=pgpe"][1].deviation, 0.01)


def test_the_command_writes_a_figure_of_a_number_or_a_name(sweep):
    done = neuro_inside("report", "sweep", "x=algo.sigma", cwd=sweep.parent)
    assert "algo=snes, algo.sigma=0.02: 0.6400 +- 0.0100 (3 runs)" in done.stdout
    svg = (sweep / "sigma.svg").read_text()
    assert "algo=pgpe" in svg
    assert (sweep / "sigma.png").stat().st_size > 10_000
    assert neuro_inside("report", "sweep", "x=algo", cwd=sweep.parent).returncode == 0
    assert "snes" in (sweep / "algo.svg").read_text()


def test_another_key_is_refused_in_a_line(sweep):
    assert "did you mean algo.sigma" in one_line(neuro_inside("report", "sweep", "x=algo.sgma", cwd=sweep.parent))
    text = one_line(neuro_inside("report", "sweep", "x=generations", cwd=sweep.parent))
    assert text == "x=generations: must be a key in which the runs with a result differ (algo, algo.sigma)"


def test_a_class_in_the_place_of_an_option_is_in_its_column(tmp_path):
    for name, choice in (("a", {"model": "MNIST_30K"}), ("b", {"model._target_": "mine.Net", "model._partial_": "true"})):
        made_run(tmp_path / "sweep" / name, 10, **choice)
    jobs = read_jobs(tmp_path / "sweep")
    assert [job.overrides for job in jobs] == [{"model": "MNIST_30K"}, {"model": "mine.Net"}]
    assert differing(jobs) == ["model"]


def test_names_are_the_shortest_ends_that_differ():
    keys = ["algo.sigma", "task.train", "task.test", "task.test.root", "task.train.root", "seed"]
    assert list(short_names(keys).values()) == ["sigma", "train", "test", "test.root", "train.root", "seed"]
    assert short_names(["a.b", "c.a.b", "b"]) == {"a.b": "a.b", "c.a.b": "c.a.b", "b": "b"}
