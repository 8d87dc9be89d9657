"""Trains generations of 8 members of a network of LAYERS x SIZE x SIZE bfloat16 numbers; prints its peak memory in bytes.

python large_program.py LAYERS SIZE
"""

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli
from neuro_cli.run_folder.summary import peak_memory_bytes

layers, size = map(int, sys.argv[1:])


class Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, size, bias=False) for _ in range(layers))
        self.head = nn.Linear(size, 2)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.head(x)


def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(module(inputs).float(), targets, reduction="none")


with torch.device("meta"):
    module = Deep().bfloat16()
module = module.to_empty(device="cpu")
generator = torch.Generator().manual_seed(0)
with torch.no_grad():
    for parameter in module.parameters():
        parameter.normal_(0.0, size**-0.5, generator=generator)  # in place: a view left over would keep the memory from moving
inputs = torch.randn(8, size, generator=generator)
targets = (inputs[:, 0] > 0).long()
before = module.layers[0].weight[0].clone()
sgd = {"optimizer": torch.optim.SGD, "lr": 1e-3, "sigma": 1e-3}
with neuro_cli.Evolution(module, sampler="low_rank", population=8, threads=2, **sgd) as evolution:
    for _ in range(2):
        evolution.step(fitness, inputs, targets)
assert module.layers[0].weight.dtype == torch.bfloat16
assert not torch.equal(module.layers[0].weight[0], before)
print(peak_memory_bytes())
