"""An encoder in front of a black box, trained by forward passes alone: python black_box_inside.py STEPS.

A network of scikit-learn knows the digits upright. Ours arrive turned by a quarter. An encoder of torch learns to prepare them
for that network, which is numpy to torch and has no gradient.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from torch import nn

import neuro_cli as neuro

steps = int(sys.argv[1])
images, classes = load_digits(return_X_y=True)
images = images.astype(np.float32) / 16
box = MLPClassifier((100,), random_state=1, max_iter=400).fit(images[:1000], classes[:1000])


class Turned(nn.Module):
    """An encoder of turned digits, and behind it the black box."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        prepared = self.encoder(x)
        return torch.from_numpy(box.predict_proba(prepared.numpy())).float()


def losses(probabilities: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood of each example."""
    return -probabilities.gather(1, targets[:, None])[:, 0].clamp(min=1e-6).log()


turned = torch.from_numpy(np.rot90(images.reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64).copy())
targets = torch.from_numpy(classes)
torch.manual_seed(1)
model = Turned()
estimate = neuro.ForwardGradient(model, draws=8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def accuracy() -> float:
    """Return the share of the test digits that the box classifies right behind the encoder."""
    with torch.no_grad():
        return float((model(turned[1000:]).argmax(1) == targets[1000:]).float().mean())


print(f"before: {accuracy():.1%} of the test digits are right")
for step in range(steps):
    rows = torch.arange(step * 100, step * 100 + 100) % 1000
    optimizer.zero_grad()
    estimate.backward(losses, turned[rows], targets[rows])
    optimizer.step()
print(f"after {steps} steps: {accuracy():.1%}")
