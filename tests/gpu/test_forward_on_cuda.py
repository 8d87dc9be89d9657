"""The passes for many members on a CUDA device, in every precision, against a loop in float64 over single members."""

import copy

import pytest
import torch
from support.configs import composed
from support.pairwise import each_pair
from torch import Tensor, nn

from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.factory.instantiate import make
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.perturbed import PerturbedForward

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

SIGMA, DIRECTIONS, CUDA = 0.3, 3, torch.device("cuda")
# shares of the largest output; a member's noise changes outputs by more than a tenth of it
TOLERANCE = {torch.float32: 1e-4, torch.float16: 0.01, torch.bfloat16: 0.05}


class Recurrent(nn.Module):
    """Outputs of a recurrent network."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.inner = kind(8, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.inner(x)[0]
        return made


class Words(nn.Module):
    """An embedding, an encoder layer and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, words: Tensor) -> Tensor:
        made: Tensor = self.head(self.layer(self.words(words)))
        return made


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


MAPPED = {
    "linear": (nn.Linear(8, 5), drawn(6, 5, 8)),
    "words": (Words(), torch.randint(0, 11, (6, 5), generator=torch.Generator().manual_seed(1))),
    "gru": (Recurrent(nn.GRU), drawn(6, 5, 8)),
    "lstm": (Recurrent(nn.LSTM), drawn(6, 5, 8)),
    "conv1d": (nn.Conv1d(6, 4, 3, padding=1), drawn(6, 6, 9)),
    "transposed": (nn.ConvTranspose2d(6, 4, 3, stride=2), drawn(6, 6, 7, 5)),
}
NETWORK = nn.Sequential(
    nn.Conv2d(3, 40, 3, padding=1), nn.ReLU(), nn.Conv2d(40, 20, 3, 2), nn.Flatten(), nn.Linear(20 * 16, 33), nn.Linear(33, 70)
)


def check(
    kind: type[MappedForward] | type[PerturbedForward], name: str, module: nn.Module, own: Tensor, examples: int,
    dtype: torch.dtype, pairs: bool, shared: bool = False,
) -> None:  # fmt: skip
    """Pass of ``kind`` on CUDA in ``dtype`` is the loop; ``own``: inputs of one side; ``shared``: it is given those alone."""
    sampler: Sampler = make(composed(f"sampler={name}"), "sampler", Sampler)
    sampler.antithetic = pairs
    layout = ParameterLayout(module)
    gpu.keep_float32(CUDA, dtype)
    rows = MemberBatch([SIGMA, -SIGMA][: 1 + pairs], DIRECTIONS, examples)
    sides = 1 if shared or kind is MappedForward else len(rows.scales)
    centre, exact = layout.flatten(module).double(), scoring_mode(copy.deepcopy(module)).double()
    sampler.bind(Noise(7, layout.size, CUDA, Threads(1)), 40, layout)
    there = scoring_mode(copy.deepcopy(module)).to(CUDA, dtype)
    inputs = own.to(CUDA, dtype) if own.is_floating_point() else own.to(CUDA)
    with torch.no_grad():
        with kind(there, layout, sampler.perturbation(3, 2, rows, dtype)):
            made = there(torch.cat([inputs] * sides)).double().cpu()
        inputs, wanted = inputs.cpu(), []
        inputs = inputs.double() if inputs.is_floating_point() else inputs
        for scale in rows.scales:
            for direction, batch in enumerate(inputs.split(examples)):
                eps = sampler.explicit(3, 2 + direction).double().cpu()
                views = layout.views(centre + scale * eps)
                parameters = {place.name: view for place, view in zip(layout.places, views, strict=True)}
                wanted.append(torch.func.functional_call(copy.deepcopy(exact), parameters, (batch,)))
        expected, plain = torch.cat(wanted), torch.cat([exact(inputs)] * len(rows.scales))
    largest = float(expected.abs().max())
    assert float((made - expected).abs().max()) <= TOLERANCE[dtype] * largest
    assert float((plain - expected).abs().max()) > 0.1 * largest  # the noise matters


@each_pair(name=["iid", "sign_flip", "permutation", "low_rank"], case=list(MAPPED), dtype=list(TOLERANCE))
def test_the_mapped_pass_on_cuda_is_the_loop_over_members(name, case, dtype):
    if dtype != torch.float32 and case in ("gru", "lstm"):
        pytest.skip("errors of half precision add up over the steps")
    check(MappedForward, name, *MAPPED[case], 2, dtype, pairs=True)


@each_pair(name=["iid", "sign_flip", "permutation", "low_rank"], examples=[1, 40], dtype=list(TOLERANCE), pairs=[False, True])
def test_a_network_of_many_members_on_cuda_is_the_loop_over_members(name, examples, dtype, pairs):
    for shared in (False, True):
        check(PerturbedForward, name, NETWORK, drawn(DIRECTIONS * examples, 3, 10, 10), examples, dtype, pairs, shared)
