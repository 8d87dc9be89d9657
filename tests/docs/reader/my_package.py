"""What a reader has in the current folder."""

import torch
from torch import nn
from torch.utils.data import TensorDataset


class Net(nn.Sequential):
    def __init__(self, width=10):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))


class Examples(TensorDataset):
    def __init__(self, train=True, seed=1):
        super().__init__(torch.rand(64, 1, 28, 28), torch.arange(64) % 10)


Mine = Rings = Examples


def table():
    return torch.rand(64, 5), torch.rand(64, 2)
