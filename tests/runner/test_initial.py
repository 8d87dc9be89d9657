"""What a model draws while it is built: by the seed, or refused between ranks and at a resume."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.inside import neuro_inside, well
from support.thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.initial import fingerprint, of_constants, refuse_unlike_ranks, same

SMALL = ("generations=2", "population=4", "batch_size=16", "threads=1", "checkpoint.every=1")


def features(**options: bool) -> nn.Module:
    """Return a network with random features that no seed reaches."""
    network = nn.Linear(8, 3)
    network.register_buffer("features", torch.from_numpy(np.random.default_rng().standard_normal(64)), **options)
    return network


@pytest.mark.parametrize(
    "other",
    [torch.arange(9.0).flip(0), -torch.arange(9.0), torch.arange(8.0), torch.tensor([0.0, 1, 2, 3, 4, 5, 6, 8, 7])],
    ids=["order", "signs", "length", "two"],
)
def test_other_numbers_have_another_fingerprint(other):
    assert not same(fingerprint([torch.arange(9.0)]), fingerprint([other]))


def test_rounding_is_no_other_draw():
    drawn = torch.randn(300, generator=torch.Generator().manual_seed(1))
    assert same(fingerprint([drawn]), fingerprint([drawn * (1 + 2e-7)]))


@pytest.mark.parametrize(
    "tensor", [torch.tensor([float("-inf"), 0.0]), torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64)]
)
def test_masks_and_complex_numbers_have_a_finite_fingerprint(tensor: Tensor):
    assert np.isfinite(fingerprint([tensor])).all()


@pytest.mark.parametrize("sparse", ["to_sparse", "to_sparse_csr"])
def test_sparse_numbers_have_a_fingerprint(sparse):
    one, other = (getattr(torch.eye(3) * scale, sparse)() for scale in (1, 2))
    assert same(fingerprint([one]), fingerprint([one.clone()]))
    assert not same(fingerprint([one]), fingerprint([other]))


def test_numbers_that_torch_does_not_give_are_not_compared():
    assert fingerprint([torch.empty(3, device="meta")]) == [0.0]


def test_frozen_parameters_and_buffers_are_constants():
    network = features()
    network.weight.requires_grad_(False)
    assert len(of_constants(network)) == 2


@pytest.mark.parametrize("persistent", [True, False])
def test_ranks_with_other_buffers_are_refused(persistent):
    def build(world):
        with pytest.raises(
            ConfigError, match=r"model=Linear: its numbers differ from those of rank 0: draw them by torch"
        ) as error:
            refuse_unlike_ranks(features(persistent=persistent), world)
        return str(error.value)

    assert len(on_ranks(2, build)) == 2


def test_ranks_with_the_same_numbers_pass():
    network = features()
    on_ranks(2, lambda world: refuse_unlike_ranks(network, world))


NETWORKS = """
import random

import numpy as np
import torch
from torch import nn


class Seeded(nn.Module):
    def __init__(self):
        super().__init__()
        self.stream = random.randrange(1000)
        self.register_buffer("features", torch.from_numpy(np.random.randn(64, 8)).float())
        self.last = nn.Linear(8, 10)

    def forward(self, images):
        return self.last((images.flatten(1) @ self.features + self.stream).tanh())


class Unseeded(Seeded):
    def __init__(self):
        super().__init__()
        self.features += torch.from_numpy(np.random.default_rng().random((64, 8))).float()


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("links", torch.eye(64).to_sparse())
        self.last = nn.Linear(64, 10)

    def forward(self, images):
        return self.last(torch.sparse.mm(self.links, images.flatten(1).T).T)
"""


def test_a_resume_with_other_buffers_is_refused_and_one_with_drawn_numbers_repeats(tmp_path):
    (tmp_path / "drawn.py").write_text(NETWORKS)
    for name in ("Seeded", "Unseeded"):
        well(neuro_inside("train", *SMALL, f"model._target_=drawn.{name}", f"hydra.run.dir={name}", cwd=tmp_path))
    well(neuro_inside("train", *SMALL, "model._target_=drawn.Seeded", "hydra.run.dir=again", cwd=tmp_path))
    one, again = (load_file(tmp_path / name / "model.safetensors") for name in ("Seeded", "again"))
    assert one.keys() == again.keys() == {"features", "last.weight", "last.bias"}
    assert all(torch.equal(one[name], again[name]) for name in one)
    well(neuro_inside("resume", "Seeded", "checkpoint=1", "trust=drawn", cwd=tmp_path))
    refused = neuro_inside("resume", "Unseeded", "checkpoint=1", "trust=drawn", cwd=tmp_path)
    assert refused.returncode == 2
    assert "model=Unseeded: its buffers or frozen parameters differ from those of the run" in refused.stderr


def test_a_network_with_a_sparse_buffer_is_trained_resumed_evaluated_and_loaded(tmp_path):
    """No file has the buffer, which the constructor makes; the run ended with an error at its first checkpoint."""
    (tmp_path / "drawn.py").write_text(NETWORKS)
    well(neuro_inside("train", *SMALL, "model._target_=drawn.Sparse", "hydra.run.dir=run", cwd=tmp_path))
    before = load_file(tmp_path / "run" / "model.safetensors")
    assert before.keys() == {"last.weight", "last.bias"}
    well(neuro_inside("resume", "run", "checkpoint=1", "trust=drawn", cwd=tmp_path))
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "test_accuracy" in well(neuro_inside("evaluate", "run", "trust=drawn", cwd=tmp_path)).stdout
