"""What a model draws while it is built: by the seed, or refused between ranks and at a resume."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.inside import neuro_inside, well
from support.thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.initial import fingerprint, of_attributes, of_constants, refuse_unlike_ranks, same

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
    layout = "to_sparse"

    def __init__(self):
        super().__init__()
        self.register_buffer("links", getattr(torch.eye(64), self.layout)())
        self.last = nn.Linear(64, 10)

    def forward(self, images):
        return self.last((self.links @ images.flatten(1).T).T)


class SparseRows(Sparse):
    layout = "to_sparse_csr"


class Frozen(Seeded):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.from_numpy(np.random.default_rng().random(10)), requires_grad=False)

    def forward(self, images):
        return super().forward(images) + self.shift


class Attribute(Seeded):
    def __init__(self):
        super().__init__()
        self.shifts = {"last": np.random.default_rng().random(10)}

    def forward(self, images):
        return super().forward(images) + torch.from_numpy(self.shifts["last"])


class Transposed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 10).t())

    def forward(self, images):
        return images.flatten(1) @ self.weight.t()
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
    assert "test_accuracy" in well(neuro_inside("evaluate", "Unseeded", "trust=drawn", cwd=tmp_path)).stdout  # in the checkpoint


@pytest.mark.parametrize(
    ("name", "kinds"), [("Frozen", "buffers or frozen parameters"), ("Attribute", "tensors or arrays in attributes")]
)
def test_numbers_that_no_file_has_are_refused_where_they_differ(tmp_path, name, kinds):
    """``evaluate`` and ``export`` answered for another network than the run's."""
    (tmp_path / "drawn.py").write_text(NETWORKS)
    well(neuro_inside("train", *SMALL, f"model._target_=drawn.{name}", "hydra.run.dir=run", cwd=tmp_path))
    for verb in ("evaluate", "export", "resume"):
        refused = neuro_inside(verb, "run", "trust=drawn", *["checkpoint=1"] * (verb == "resume"), cwd=tmp_path)
        assert refused.returncode == 2
        assert f"model={name}: its {kinds} differ from those of the run: draw them by torch" in refused.stderr


def test_ranks_with_other_arrays_are_refused():
    def build(world):
        network = nn.PReLU()
        network.table = np.random.default_rng().random(3)
        refuse_unlike_ranks(network, world, made=True)  # a script's own may be caches
        with pytest.raises(ConfigError, match="its numbers differ from those of rank 0"):
            refuse_unlike_ranks(network, world)

    on_ranks(2, build)


def test_arrays_of_objects_and_of_kinds_that_torch_does_not_know_are_not_compared():
    network = nn.Linear(2, 2)
    network.table = [np.array(["a"]), np.array([object()]), np.ones(2, np.longdouble), np.ones(2, ">f4"), np.ones(2)[::-1]]
    assert [value == 0 for value in of_attributes(network, made=False)] == [True, True, True, True, False]


def test_evaluate_has_the_bits_of_the_run_where_a_parameter_lies_transposed(tmp_path):
    (tmp_path / "drawn.py").write_text(NETWORKS)
    well(neuro_inside("train", *SMALL, "model._target_=drawn.Transposed", "hydra.run.dir=run", cwd=tmp_path))
    well(neuro_inside("evaluate", "run", "trust=drawn", "output=found.json", cwd=tmp_path))
    found, summary = (json.loads((tmp_path / file).read_text()) for file in ("found.json", "run/summary.json"))
    assert found["test_loss"] == summary["test_loss"]


@pytest.mark.parametrize("name", ["Sparse", "SparseRows"])
def test_a_network_with_a_sparse_buffer_is_trained_resumed_evaluated_and_loaded(tmp_path, name):
    """No file has the buffer, which the constructor makes; the run ended with an error at its first checkpoint."""
    (tmp_path / "drawn.py").write_text(NETWORKS)
    well(neuro_inside("train", *SMALL, f"model._target_=drawn.{name}", "hydra.run.dir=run", cwd=tmp_path))
    before = load_file(tmp_path / "run" / "model.safetensors")
    assert before.keys() == {"last.weight", "last.bias"}
    well(neuro_inside("resume", "run", "checkpoint=1", "trust=drawn", cwd=tmp_path))
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "test_accuracy" in well(neuro_inside("evaluate", "run", "trust=drawn", cwd=tmp_path)).stdout
