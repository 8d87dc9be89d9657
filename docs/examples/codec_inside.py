"""A JPEG codec inside a model, trained by forward passes alone: python codec_inside.py STEPS.

An encoder of torch draws an image of 8x8 for each dim digit. Pillow stores that as a JPEG of low quality and reads it
again, and a linear layer tells the class from what is left. The codec is a library of C that rounds: it has no gradient.
"""

import io
import sys

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

import neuro_cli as neuro


def through_jpeg(images: np.ndarray) -> np.ndarray:
    """Return images (B, 8, 8) of bytes as they come out of JPEG files."""
    read = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=20)
        read.append(np.asarray(Image.open(file)))
    return np.stack(read)


class Coded(nn.Module):
    """An encoder that leaves images as they are at first, the codec, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.classifier = nn.Linear(64, 64), nn.Linear(64, 10)
        nn.init.eye_(self.encoder.weight)
        nn.init.zeros_(self.encoder.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        drawn = (self.encoder(x).clamp(0, 1) * 255).to(torch.uint8)
        read = through_jpeg(drawn.numpy().reshape(-1, 8, 8))
        return self.classifier(torch.from_numpy(read.reshape(-1, 64)).float() / 255)


pixels, classes = load_digits(return_X_y=True)
inputs, targets = torch.from_numpy(pixels).float() / 256, torch.from_numpy(classes)
losses = nn.CrossEntropyLoss(reduction="none")


def trained(encoder_learns: bool) -> float:
    """Return the share of the test digits that are right after training, with the encoder or without."""
    torch.manual_seed(1)
    model = Coded()
    model.encoder.requires_grad_(encoder_learns)
    estimate = neuro.ForwardGradient(model, draws=4, sigma=0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for step in range(int(sys.argv[1])):
        rows = torch.arange(step * 100, step * 100 + 100) % 1000
        optimizer.zero_grad()
        estimate.backward(losses, inputs[rows], targets[rows])
        optimizer.step()
    with torch.no_grad():
        return float((model(inputs[1000:]).argmax(1) == targets[1000:]).float().mean())


print(f"classifier alone: {trained(False):.1%} of the test digits are right")
print(f"with the encoder: {trained(True):.1%}")
