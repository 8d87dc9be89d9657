"""A new option of a group is two files: a class in the package's folder and a YAML. Nothing else names it, and it trains."""

import csv
import importlib
import sys
import textwrap
from pathlib import Path

import pytest
from support.inside import neuro_inside

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2", "evaluate.every=2", "hydra.run.dir=run")
# group: the class in neuro_cli/GROUP/mine.py, and the keys that conf/GROUP/mine.yaml gives its arguments
MINE = {
    "sampler": (
        """
        from torch import Tensor
        from neuro_cli.core.noise import NOISE_STREAM
        from neuro_cli.sampler.dense import Dense

        class Mine(Dense):
            def draw(self, generation, first, count, dtype) -> Tensor:
                words = self.noise.words(generation, range(first, first + count), self.noise.size, NOISE_STREAM)
                return ((words.double() / 2**31 - 1) * 3**0.5).to(dtype)
        """,
        "antithetic: true",
    ),
    "algo": (
        """
        import numpy as np
        from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, State

        class Mine(PopulationAlgorithm):
            def __init__(self, sigma):
                self.sigma = sigma

            def start(self, centre, layout, population, seed):
                self._centre = centre.clone()

            @property
            def centre(self):
                return self._centre

            def ask(self, generation):
                return Proposal.around(self._centre, self.sigma)

            def combination(self, generation, fitness):
                better = np.argsort(-fitness, kind="stable")[: len(fitness) // 2]
                weights = np.zeros((1, len(fitness)))
                weights[0, better] = 1 / len(better)
                return Combination(weights, (1,))

            def tell(self, generation, sums):
                self._centre = self._centre + self.sigma * sums[0]

            def state(self):
                return State({"centre": self._centre.clone()})

            def restore(self, state):
                self._centre = state.tensors["centre"].clone()
        """,
        "sigma: 0.1",
    ),
    "distribution": (
        """
        from neuro_cli.distribution.base import Distribution

        class Mine(Distribution):
            name = "mine"
            needs_mpi = False

            def combine(self, generation, combination):
                return self.partial_sums(generation, combination, self.members, 0, len(self.job.algo.centre))
        """,
        "",
    ),
    "task": (
        """
        import torch
        from neuro_cli.task.classification import Classification, Data, Split
        from neuro_cli.task.images import pixel_statistics

        class Mine(Classification):
            name = "mine"
            input_shape = (1, 28, 28)
            output_size = 10

            def read(self, input_shape):
                train, test = (Split(images(count), torch.arange(count) % 10) for count in (40, 20))
                return Data(train, test, *pixel_statistics(train.images), classes=10)

        def images(count):
            drawn = torch.Generator().manual_seed(count)
            return torch.randint(256, (count, 1, 28, 28), generator=drawn, dtype=torch.uint8)
        """,
        "fitness: accuracy\nevaluation_batch: 10",
    ),
    "model": (
        """
        from torch import nn

        class Mine(nn.Sequential):
            def __init__(self, width):
                super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        """,
        "width: 5",
    ),
    "logger": (
        """
        from neuro_cli.logger.base import Logger

        class Mine(Logger):
            def start(self, run, config, resumed_at):
                self.file = run / "rows.txt"

            def log(self, row):
                with self.file.open("a") as file:
                    file.write(f"{row['generation']}\\n")

            def finish(self, summary):
                self.file.with_name("end.txt").write_text(summary["parameters_sha256"])
        """,
        "",
    ),
}


@pytest.mark.parametrize("group", MINE)
def test_an_option_of_two_files_trains(group, tmp_path, monkeypatch):
    source, keys = MINE[group]
    package = importlib.import_module(f"neuro_cli.{group}")
    for folder in (tmp_path / group, tmp_path / "conf" / group):
        folder.mkdir(parents=True)
    (tmp_path / group / "mine.py").write_text(textwrap.dedent(source))
    (tmp_path / "conf" / group / "mine.yaml").write_text(f"_target_: neuro_cli.{group}.mine.Mine\n{keys}\n")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / group)])
    try:
        done = neuro_inside("train", *SMALL, f"hydra.searchpath=[file://{tmp_path / 'conf'}]", f"{group}=mine", cwd=tmp_path)
        evaluated = neuro_inside("evaluate", "run", cwd=tmp_path)  # the saved run is trusted as ours
    finally:
        monkeypatch.delitem(sys.modules, f"neuro_cli.{group}.mine", raising=False)
    assert done.returncode == 0, done.stderr
    assert evaluated.returncode == 0, evaluated.stderr
    assert trained_generations(tmp_path / "run") == [1, 2]
    if group == "logger":
        assert (tmp_path / "run" / "rows.txt").read_text().split() == ["1", "2"]
        assert (tmp_path / "run" / "end.txt").read_text()


def trained_generations(run: Path) -> list[int]:
    with (run / "metrics.csv").open() as file:
        return [int(row["generation"]) for row in csv.DictReader(file)]
