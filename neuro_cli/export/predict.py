"""Predictions of a trained network for files: images, and rows of .npy, .csv and .parquet."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.export.network import Network
from neuro_cli.task.adapters import Columns, Table, encoded
from neuro_cli.task.images import shape_text
from neuro_cli.task.inputs import TYPES

BATCH = 64  # inputs of a pass
TABLES = (".csv", ".parquet")
ROWS = (".npy", *TABLES)


@dataclass(frozen=True)
class Prediction:
    """Classes of an image, or of a row of a file, with their probabilities, the most probable first."""

    image: str
    classes: list[tuple[str, float]]

    def plain(self) -> dict[str, Any]:
        """Return the prediction as JSON has it."""
        classes = [{"class": name, "probability": chance} for name, chance in self.classes]
        return {"image": self.image, "classes": classes}


def predict(network: Network, images: Sequence[Path], top: int) -> list[Prediction]:
    """Return the ``top`` most probable classes of each image, and of each row of other files, in order.

    Raises UserError for a file of another kind.
    """
    predictions = []
    for names, inputs in _batches(network, images):
        for name, chances in zip(names, _chances(network, inputs), strict=True):
            order = chances.argsort(descending=True, stable=True)[:top].tolist()
            predictions.append(Prediction(name, [(_name(network, number), float(chances[number])) for number in order]))
    return predictions


def _batches(network: Network, files: Sequence[Path]) -> Iterator[tuple[list[str], Tensor]]:
    """Yield names and inputs (B, ..) of some images, or of some rows of a file."""
    for of_rows, group in groupby(files, lambda path: path.suffix in ROWS):
        chosen = list(group)
        if not of_rows:
            for first in range(0, len(chosen), BATCH):
                batch = chosen[first : first + BATCH]
                yield list(map(str, batch)), network.inputs.of_images(batch)
            continue
        for path in chosen:
            rows = _rows(network, path)
            for first in range(0, len(rows), BATCH):
                part = rows[first : first + BATCH]
                yield [f"{path}:{first + number}" for number in range(len(part))], part


def _rows(network: Network, path: Path) -> Tensor:
    """Return the inputs (N, ..) of a file; a .csv has an input a line, perhaps below a line of names, which then must fit.

    Raises UserError.
    """
    shape, wanted = network.inputs.shape, TYPES[network.inputs.dtype]
    try:
        values = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _numbers(path, network.inputs.columns)
        rows = torch.from_numpy(np.ascontiguousarray(values))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: cannot be read as numbers: {' '.join(str(error).split())[:150]}") from error
    if not rows.numel():
        raise UserError(f"{path}: it has no row")
    if rows.shape == shape:
        rows = rows[None]
    if path.suffix in TABLES and math.prod(rows.shape[1:]) == math.prod(shape):
        rows = rows.reshape(-1, *shape)
    if rows.shape[1:] != shape:
        raise UserError(f"{path}: its numbers are {shape_text(tuple(rows.shape))}: the network takes rows of {shape_text(shape)}")
    if network.inputs.images and rows.dtype == torch.uint8:
        return network.inputs.normalised(rows)
    return rows.to(wanted)


def _numbers(path: Path, columns: Columns) -> np.ndarray:
    """Return the inputs of a table: by the names of the ``columns`` that the network was trained with, else by their order."""
    if path.suffix == ".parquet":
        return _by_name(path, columns) if columns else np.array(Table(str(path)).frame, np.float64)
    lines = path.read_text().splitlines()
    named = next(csv.reader(lines[:1]), [])
    known = {name for name, _ in columns}
    try:
        list(map(float, named))
        numeric = bool(lines)
    except ValueError:
        numeric = False  # the first line has names
    if columns and lines and (known <= set(named) or not numeric):
        return _by_name(path, columns)
    return np.loadtxt(lines if numeric else lines[1:], delimiter=",", ndmin=2) if lines[not numeric :] else np.empty(0)


def _by_name(path: Path, columns: Columns) -> np.ndarray:
    try:
        return encoded(Table(str(path)).frame, columns)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error


def _chances(network: Network, inputs: Tensor) -> Tensor:
    """Return the probabilities (B, K) float64 of the K classes; a network may have more outputs than classes."""
    parameter = next((each for each in network.module.parameters() if each.is_floating_point()), inputs)
    with torch.no_grad():
        outputs = network.module(inputs.to(parameter.dtype) if inputs.is_floating_point() else inputs)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(inputs):
        raise UserError("the network gives no logits for each image: there is no class to predict")
    count = len(network.inputs.classes) or outputs.shape[1]
    return outputs[:, :count].double().softmax(1)


def _name(network: Network, number: int) -> str:
    return network.inputs.classes[number] if network.inputs.classes else str(number)
