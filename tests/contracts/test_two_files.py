"""A new option of a group is two files: a class in the package's folder and a YAML. Nothing else names it, and it trains.

Sampler, algorithm, task and logger: tests/docs/test_extending.py, from the page.
"""

import importlib
import sys
import textwrap

from support.inside import neuro_inside

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2", "evaluate.every=2", "hydra.run.dir=run")
# group: the class in neuro_cli/GROUP/mine.py, and the keys that conf/GROUP/mine.yaml gives its arguments
MINE = {
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
    "model": (
        """
        from torch import nn

        class Mine(nn.Sequential):
            def __init__(self, width):
                super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        """,
        "width: 5",
    ),
}


def test_options_of_two_files_train(tmp_path, monkeypatch):
    for group, (source, keys) in MINE.items():
        package = importlib.import_module(f"neuro_cli.{group}")
        for folder in (tmp_path / group, tmp_path / "conf" / group):
            folder.mkdir(parents=True)
        (tmp_path / group / "mine.py").write_text(textwrap.dedent(source))
        (tmp_path / "conf" / group / "mine.yaml").write_text(f"_target_: neuro_cli.{group}.mine.Mine\n{keys}\n")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / group)])
    options = (f"hydra.searchpath=[file://{tmp_path / 'conf'}]", *(f"{group}=mine" for group in MINE))
    try:
        done = neuro_inside("train", *SMALL, *options, cwd=tmp_path)
        evaluated = neuro_inside("evaluate", "run", cwd=tmp_path)  # the saved run is trusted as ours
    finally:
        for group in MINE:
            monkeypatch.delitem(sys.modules, f"neuro_cli.{group}.mine", raising=False)
    assert done.returncode == 0, done.stderr
    assert evaluated.returncode == 0, evaluated.stderr
