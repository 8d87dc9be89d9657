"""Random rounding to bfloat16: exact on average, a function of the address alone."""

import pytest
import torch

from neuro_cli.core.kernels.compiled import noise_kernels
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rounding import TILE, Rounding, rounded

CPU = torch.device("cpu")


def rounding(seed: int = 1, threads: int = 1) -> Rounding:
    return Rounding(Noise(seed, 1, CPU, Threads(threads)))


def stored(values: torch.Tensor, generation: int = 0, start: int = 0, **options: int) -> torch.Tensor:
    out = torch.zeros(start + len(values), dtype=torch.bfloat16)
    rounding(**options).store(values, generation, start, out)
    return out[start:]


def test_a_number_becomes_one_of_its_neighbours_with_an_exact_mean():
    for value in (1.001, -0.3, 3e-39, 65504.1):  # a subnormal one too
        values = torch.full((200_000,), value)
        mean, deviation = (stored(values).double().mean(), stored(values).double().std())
        neighbours = stored(values).unique()
        assert len(neighbours) == 2
        assert neighbours[0].float() < values[0] < neighbours[1].float()
        assert abs(mean - values[0].double()) < 5 * deviation / len(values) ** 0.5


def test_what_bfloat16_holds_stays():
    kept = torch.tensor([0.0, -0.0, 1.5, -3e38, torch.inf, -torch.inf]).bfloat16().float()
    for generation in range(20):
        assert torch.equal(stored(kept, generation).float(), kept)
    lost = torch.tensor([0x7FFFFFFF, 0x7F800001, -1], dtype=torch.int32).view(torch.float32)  # NaN of other bits than the usual
    assert rounded(lost, torch.full((3,), 0xFFFF, dtype=torch.int32)).isnan().all()
    assert stored(lost).isnan().all()


def test_the_compiled_loop_gives_the_bits_of_its_definition():
    generator = torch.Generator().manual_seed(0)
    values, bits = (torch.randint(-(2**31), 2**31, (2**16,), generator=generator, dtype=torch.int32) for _ in range(2))
    bits = bits & 0xFFFF
    made = torch.empty(len(values), dtype=torch.bfloat16)
    numbers = values.view(torch.uint32).numpy(), bits.to(torch.uint16).numpy(), made.view(torch.uint16).numpy()
    noise_kernels.rounded(*numbers)
    wanted = rounded(values.view(torch.float32), bits)
    assert torch.equal(made.isnan(), wanted.isnan())
    assert torch.equal(made[~made.isnan()], wanted[~made.isnan()])


@pytest.mark.parametrize("start", [0, 1, 777, TILE - 1])
def test_a_column_has_the_same_bits_in_any_slice_and_by_any_threads(start):
    values = torch.randn(2 * TILE + 5, generator=torch.Generator().manual_seed(0))
    whole = stored(values, 3, threads=2)
    assert torch.equal(stored(values[start : start + 999], 3, start), whole[start : start + 999])
    for other in (stored(values, 4), stored(values, 3, seed=2), stored(values, 3, 1)):
        assert not torch.equal(other, whole)


def test_the_definition_gives_the_bits_of_the_compiled_loops(monkeypatch):
    values = torch.randn(3000, generator=torch.Generator().manual_seed(0))
    both = []
    for compiled in (False, True):
        monkeypatch.setattr(Noise, "_compiled", lambda *_, compiled=compiled, **__: compiled)
        both.append(stored(values))
    assert torch.equal(*both)
