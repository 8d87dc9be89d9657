"""What peers cannot send each other: buffers, frozen parameters and arrays that the model's constructor makes."""

import pytest
import torch
from support.inside import neuro_inside, one_line, well
from torch import nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.evolve.training.model import frozen_tensors, tensors_sha256

NETWORKS = """
import numpy as np
import torch
from torch import nn


class Seeded(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("features", self.drawn().float())
        self.last = nn.Linear(8, 10)

    def drawn(self):
        return torch.from_numpy(np.random.randn(64, 8))

    def forward(self, images):
        return self.last((images.flatten(1) @ self.features).tanh())


class Unseeded(Seeded):
    def drawn(self):
        return torch.from_numpy(np.random.default_rng().standard_normal((64, 8)))
"""
SMALL = ("generations=2", "population=4", "batch_size=16", "threads=1", "cluster.local_peers=1")


def test_a_buffer_that_differs_at_every_peer_is_refused(tmp_path):
    """Each peer scored another network, and nobody saw it: buffers are in no message, and parameters are the same."""
    (tmp_path / "drawn.py").write_text(NETWORKS)
    well(neuro_inside("evolve", *SMALL, "model._target_=drawn.Seeded", "hydra.run.dir=one", cwd=tmp_path))
    refused = neuro_inside("evolve", *SMALL, "model._target_=drawn.Unseeded", "hydra.run.dir=other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "model=Unseeded: its buffers, frozen parameters or arrays differ each time it is built" in one_line(refused)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_constants_have_a_hash(layout):
    def made(scale: float) -> nn.Module:
        module = nn.Linear(3, 3)
        module.bias.requires_grad_(False).zero_()
        module.register_buffer("links", getattr(torch.eye(3) * scale, layout)())
        return module

    one, same, other = (tensors_sha256(frozen_tensors(made(scale), ParameterLayout(made(1)))) for scale in (1, 1, 2))
    assert one == same != other
