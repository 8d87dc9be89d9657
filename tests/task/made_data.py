"""Loading with small defaults, and files made on the spot."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image


def load(task, input_shape=None, batch_size=4, seed=3):
    task.load(input_shape=input_shape, device=torch.device("cpu"), seed=seed, batch_size=batch_size)
    return task


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim])
    return header + b"".join(size.to_bytes(4, "big") for size in values.shape) + values.tobytes()


def idx_files(train: int = 30, test: int = 10) -> dict[str, bytes]:
    """The four IDX files of a made-up data set, by name."""
    generator = np.random.default_rng(0)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        images = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(images)
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes((np.arange(count) % 10).astype(np.uint8))
    return files


def write_image(path: Path, width: int = 6, height: int = 5, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
