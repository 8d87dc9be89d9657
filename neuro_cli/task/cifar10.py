"""CIFAR-10: ten kinds of things, 32x32 colour, 50,000 for training and 10,000 for test.

A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
"""

import torchvision

from neuro_cli.task.torchvision_download import TorchvisionTask


class CIFAR10(TorchvisionTask):
    name = "cifar10"
    source = torchvision.datasets.CIFAR10
    folder = "cifar-10-batches-py"
    files = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
    kind = "the Python batches"
    input_shape = (3, 32, 32)
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2470, 0.2435, 0.2616)
