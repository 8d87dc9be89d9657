"""Predictions of a trained network for image files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.export.network import Network

BATCH = 64  # images in memory at the same time


@dataclass(frozen=True)
class Prediction:
    """Classes of an image with their probabilities, the most probable first."""

    image: Path
    classes: list[tuple[str, float]]

    def plain(self) -> dict[str, Any]:
        """Return the prediction as JSON has it."""
        classes = [{"class": name, "probability": chance} for name, chance in self.classes]
        return {"image": str(self.image), "classes": classes}


def predict(network: Network, images: Sequence[Path], top: int) -> list[Prediction]:
    """Return the ``top`` most probable classes of each image. Raises UserError for a file that is no image."""
    predictions = []
    for first in range(0, len(images), BATCH):
        batch = images[first : first + BATCH]
        for image, chances in zip(batch, _chances(network, batch), strict=True):
            order = chances.argsort(descending=True, stable=True)[:top].tolist()
            predictions.append(Prediction(image, [(_name(network, number), float(chances[number])) for number in order]))
    return predictions


def _chances(network: Network, images: Sequence[Path]) -> Tensor:
    """Return the probabilities (B, K) float64 of the K classes; a network may have more outputs than classes."""
    inputs = network.inputs.of_images(images)
    parameter = next((each for each in network.module.parameters() if each.is_floating_point()), inputs)
    with torch.no_grad():
        outputs = network.module(inputs.to(parameter.dtype))
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(images):
        raise UserError("the network gives no logits for each image: there is no class to predict")
    count = len(network.inputs.classes) or outputs.shape[1]
    return outputs[:, :count].double().softmax(1)


def _name(network: Network, number: int) -> str:
    return network.inputs.classes[number] if network.inputs.classes else str(number)
