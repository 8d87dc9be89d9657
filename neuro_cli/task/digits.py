"""The 1,797 handwritten digits bundled with scikit-learn, 8x8 grey: needs no download.

E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from neuro_cli.task.classification import Classification, Data, Split
from neuro_cli.task.images import pixel_statistics, resizable_shape

TEST_EXAMPLES = 360


class Digits(Classification):
    """1,437 training and 360 test examples, resized to the shape that the model declares (1x8x8 if none)."""

    name = "digits"
    input_shape = (1, 8, 8)
    output_size = 10

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        channels, height, width = resizable_shape(self.name, input_shape or (1, 8, 8))
        digits = load_digits()
        images = torch.from_numpy(digits.images).float()[:, None]
        if (height, width) != (8, 8):
            images = F.interpolate(images, (height, width), mode="bilinear", antialias=True)
        # grey levels are 0 to 16
        images = (images * (255 / 16)).round().clamp(0, 255).byte().expand(-1, channels, -1, -1)
        targets = torch.from_numpy(digits.target.astype(np.int64))
        train, test = train_test_split(np.arange(len(targets)), test_size=TEST_EXAMPLES, random_state=0, stratify=digits.target)
        splits = [Split(images[rows], targets[rows]) for rows in map(torch.from_numpy, (train, test))]
        mean, std = pixel_statistics(splits[0].images)
        return Data(splits[0], splits[1], mean, std, classes=10)
