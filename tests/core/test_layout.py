"""Parameters as one vector: order, ties, buffers, and what is refused."""

import copy

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import neuro_cli as neuro
import neuro_cli.core.layout as layouts
import neuro_cli.scoring.passes.dense as passes
from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(2, 2).requires_grad_(False)


def test_flat_vector_holds_each_trainable_number_once_and_round_trips():
    module = Tied()
    layout = ParameterLayout(module)
    assert layout.size == 3 * 2 * 9 + 3 + 16 + 4 + 4
    flat = layout.flatten(module)
    other = Tied()
    layout.load(other, flat)
    assert torch.equal(other.conv.weight, module.conv.weight)
    assert other.second.weight is other.first.weight
    assert torch.equal(layout.flatten(other), flat)
    assert not torch.equal(other.frozen.weight, module.frozen.weight)


def test_attached_module_follows_the_vector_and_convolutions_lie_channels_last():
    module = Tied()
    layout = ParameterLayout(module)
    flat = layout.flatten(module)
    layout.attach(module, flat)
    flat.mul_(2)
    assert torch.equal(layout.flatten(module), flat)
    assert module.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert flat[1] == module.conv.weight[0, 1, 0, 0]  # the input channel runs fastest


def test_views_tile_the_vector():
    layout = ParameterLayout(Tied())
    flat = torch.zeros(layout.size)
    for view in layout.views(flat):
        view += 1
    assert torch.equal(flat, torch.ones(layout.size))


@pytest.mark.parametrize("module", [nn.ReLU(), nn.Linear(2, 2).double()])
def test_modules_without_float32_parameters_are_refused(module):
    with pytest.raises(UserError, match="model"):
        ParameterLayout(module)


def in_two_places(kind: str) -> nn.Module:
    module = nn.Linear(3, 3)
    if kind == "buffer w":
        module.register_buffer("w", module.weight.data)
    elif kind == "w":
        module.w = nn.Parameter(module.weight.data.t())
    elif kind == "attribute w":
        module.w = {"of": module.weight.t()}
    else:
        module.w = nn.Parameter(module.weight.data[:1], requires_grad=False)
    return module


@pytest.mark.parametrize("kind", ["buffer w", "w", "attribute w", "frozen w"])
def test_a_parameter_in_the_memory_of_another_tensor_is_refused(kind):
    """Each would be trained apart from the other, and be one again in the loaded network."""
    with pytest.raises(UserError, match=r"^model: parameter weight and .*w lie in the same memory.*: use one nn\.Parameter"):
        ParameterLayout(in_two_places(kind))


def test_tensors_in_one_storage_without_a_number_in_common_pass():
    module, table = nn.Linear(3, 3), torch.arange(12.0).view(3, 4)
    module.left, module.right = (nn.Parameter(part) for part in table.chunk(2, 1))
    module.register_buffer("rest", module.weight.data.clone())
    assert ParameterLayout(module).size == 12 + 12
    assert ParameterLayout(nn.utils.spectral_norm(nn.GRU(3, 3), "weight_hh_l0")).size == 9 * 3 + 9 * 3 + 9 + 9


def test_a_lazy_buffer_is_refused():
    module = nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d(affine=False))
    with pytest.raises(UserError, match=r"^model: buffer 1\.running_mean has no size yet \(a lazy layer\): call"):
        ParameterLayout(module)


def test_a_sharded_module_is_refused():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import distribute_module

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        module = distribute_module(nn.Sequential(nn.Linear(2, 2)), init_device_mesh("cpu", (1,)))
        with pytest.raises(UserError, match=r"^model: parameter 0\.weight is a DTensor; .*complete on every rank$"):
            ParameterLayout(module)
        assert ParameterLayout(nn.Linear(2, 2)).size == 6
    finally:
        dist.destroy_process_group()


def test_a_module_of_fsdp_is_refused_after_a_pass_too():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        module = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        fully_shard(module, mesh=init_device_mesh("cpu", (1,)))
        for part in (nn.Sequential(nn.Linear(2, 2), module), module):
            with pytest.raises(UserError, match=r"^model: module \w+ is sharded by FSDP; .*complete on every rank$"):
                ParameterLayout(part)
            with torch.no_grad():
                module(torch.ones(1, 2))
            assert type(next(module.parameters()).data) is torch.Tensor  # plain by now, and a copy
    finally:
        dist.destroy_process_group()


class Spectrum(nn.Module):
    """Complex weights as pairs of numbers, behind an odd number of others."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.weight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.randn(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = torch.fft.rfft(x) * torch.view_as_complex(self.weight)
        return torch.fft.irfft(waves, n=x.shape[-1])[:, :3] * self.gain


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
@pytest.mark.parametrize("alone", [False, True], ids=["in one pass", "one by one"])
@pytest.mark.parametrize("joins", [False, True], ids=["small", "joined"])
def test_pairs_of_numbers_at_an_odd_place_are_complex_weights(sampler, alone, joins, monkeypatch):
    def fitness(member: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -(member(x) - y).square().mean(1)

    torch.manual_seed(0)
    x, y, module = torch.randn(8, 6), torch.randn(8, 3), Spectrum()
    if joins:
        for place in (layouts, passes):
            monkeypatch.setattr(place, "LARGE", 1)
    with neuro.Evolution(module, sampler=sampler, population=4, sigma=0.1, threads=2) as es:
        for _ in range(2):
            before = copy.deepcopy(module)
            layout, generation = ParameterLayout(module), es.generation
            report = es.step(lambda member: fitness(member, x, y)) if alone else es.step(fitness, x, y)
            wanted = []
            for member in range(4):
                step = es._sampler.explicit(generation, member // 2) * (1 - 2 * (member % 2))
                one = copy.deepcopy(before)
                layout.load(one, layout.flatten(before) + 0.1 * step)
                with torch.no_grad():
                    wanted.append(float(fitness(one, x, y).double().mean()))
            assert report.fitness_best == pytest.approx(max(wanted), rel=1e-4)
            assert report.fitness_mean == pytest.approx(sum(wanted) / 4, rel=1e-4)
    assert (ParameterLayout(module).joined(module) is not None) == joins


def test_an_array_in_a_parameters_memory_is_refused():
    module = nn.Linear(4, 2)
    module.constants = np.zeros((2, 4), np.float32)
    ParameterLayout(module)
    module.rows = [module.weight.detach().numpy()[1:]]
    with pytest.raises(UserError, match=r"^model: attribute rows is an array in a parameter's memory"):
        ParameterLayout(module)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_a_sparse_parameter_is_refused_in_one_line(layout):
    module = nn.Linear(3, 3)
    module.links = nn.Parameter(getattr(torch.eye(3), layout)())
    with pytest.raises(UserError, match=r"^model: parameter links is torch\.sparse_c\w+; evolved parameters must be dense"):
        neuro.Evolution(module, population=4)
