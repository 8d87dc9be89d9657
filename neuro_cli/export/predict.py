"""Predictions of a run's trained network for image files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.export.network import Network

BATCH = 64  # images in memory together


@dataclass(frozen=True)
class Prediction:
    """Classes of an image with their probabilities, the most probable first."""

    image: Path
    classes: list[tuple[str, float]]

    def plain(self) -> dict[str, Any]:
        """The prediction as JSON holds it."""
        classes = [{"class": name, "probability": chance} for name, chance in self.classes]
        return {"image": str(self.image), "classes": classes}


def predict(network: Network, images: Sequence[Path], top: int) -> list[Prediction]:
    """The ``top`` most probable classes of each image. Raises UserError for a file that is no image."""
    found = []
    for first in range(0, len(images), BATCH):
        batch = images[first : first + BATCH]
        for image, chances in zip(batch, _chances(network, batch), strict=True):
            order = chances.argsort(descending=True, stable=True)[:top].tolist()
            found.append(Prediction(image, [(_name(network, number), float(chances[number])) for number in order]))
    return found


def _chances(network: Network, images: Sequence[Path]) -> Tensor:
    """Probabilities (B, K) float64 of the classes that there are: a network may have more outputs."""
    inputs = network.inputs.of_images(images)
    parameter = next((each for each in network.module.parameters() if each.is_floating_point()), inputs)
    with torch.no_grad():
        outputs = network.module(inputs.to(parameter.dtype))
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(images):
        raise UserError("the network gives no logits for each image: there is no class to predict")
    known = len(network.inputs.classes) or outputs.shape[1]
    return outputs[:, :known].double().softmax(1)


def _name(network: Network, number: int) -> str:
    return network.inputs.classes[number] if network.inputs.classes else str(number)
