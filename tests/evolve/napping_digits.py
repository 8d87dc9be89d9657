"""MNIST_10K that naps before each forward pass: peers that train for long leave the processor to those that start."""

import time

import torch

from neuro_cli.model.mnist import MNIST_10K


class NappingDigits(MNIST_10K):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return super().forward(images)
