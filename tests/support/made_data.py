"""Data sets of a few examples, written on the spot, and tasks loaded with small defaults."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image

from neuro_cli.task.cifar10 import CIFAR10


def load(task, input_shape=None, batch_size=4, seed=3):
    task.load(input_shape=input_shape, device=torch.device("cpu"), seed=seed, batch_size=batch_size)
    return task


def idx_bytes(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim])
    return header + b"".join(size.to_bytes(4, "big") for size in values.shape) + values.tobytes()


def idx_files(train: int = 30, test: int = 10) -> dict[str, bytes]:
    """Return the four IDX files of a made-up data set, by name."""
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


def cifar_files(root, monkeypatch):
    """Write five made-up batches of 4 images and a test batch. Returns the first image (3, 32, 32)."""
    generator, sums = np.random.default_rng(0), {}
    folder = root / CIFAR10.folder
    folder.mkdir(parents=True)
    first = None
    for name in CIFAR10.files:
        pixels = generator.integers(0, 256, (4, 3072), dtype=np.uint8)
        first = pixels[0].reshape(3, 32, 32) if first is None else first
        labels = {"label_names": list("abcdefghij")} if name == "batches.meta" else {"data": pixels, "labels": [0, 9, 3, 1]}
        (folder / name).write_bytes(pickle.dumps(labels))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    source = torchvision.datasets.CIFAR10
    monkeypatch.setattr(source, "train_list", [[name, sums[name]] for name in CIFAR10.files[:5]])
    monkeypatch.setattr(source, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(source, "meta", {**source.meta, "md5": sums["batches.meta"]})
    return first
