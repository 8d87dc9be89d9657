"""MNIST: handwritten digits, 28x28 grey, 60,000 for training and 10,000 for test.

Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".
"""

import torchvision

from neuro_cli.task.torchvision_task import TorchvisionTask

IDX_FILES = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


class MNIST(TorchvisionTask):
    name = "mnist"
    source = torchvision.datasets.MNIST
    folder = "MNIST/raw"
    files = IDX_FILES
    kind = "IDX files"
    input_shape = (1, 28, 28)
    mean = (0.1307,)
    std = (0.3081,)
