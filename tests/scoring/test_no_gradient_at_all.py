"""A module with an output that has no gradient is refused by back-propagation in one line, and trains by evolution."""

from support.inside import neuro_inside, one_line, well

STEPS = """
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, images):
        return torch.heaviside(self.layer(images.flatten(1)).detach(), torch.zeros(()))
"""
SMALL = ("train", "model._target_=own_steps.Steps", "population=4", "batch_size=8", "generations=1", "threads=1")


def test_a_module_of_steps(tmp_path):
    (tmp_path / "own_steps.py").write_text(STEPS)
    line = one_line(neuro_inside(*SMALL, "algo=sgd", "hydra.run.dir=sgd", cwd=tmp_path))
    assert line == "model=Steps: its output has no gradient; train it by another algo than sgd"
    well(neuro_inside(*SMALL, "hydra.run.dir=es", cwd=tmp_path))
