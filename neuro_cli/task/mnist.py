"""MNIST: handwritten digits, 28x28 grey, 60,000 for training and 10,000 for test.

Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".
"""

import torchvision

from neuro_cli.task.torchvision_download import TorchvisionTask


class MNIST(TorchvisionTask):
    name = "mnist"
    source = torchvision.datasets.MNIST
    folder = "MNIST/raw"
    files = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    kind = "IDX files"
    input_shape = (1, 28, 28)
    mean = (0.1307,)
    std = (0.3081,)
