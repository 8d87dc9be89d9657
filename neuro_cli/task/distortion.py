"""Random smooth distortion of training images.

P. Simard, D. Steinkraus, J. Platt, "Best Practices for Convolutional Neural Networks Applied to Visual Document Analysis",
2003, section 2. Displacements here are cubic curves between few points; theirs are filtered noise of single pixels.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.noise import DISTORTION_STREAM, words_between

POINTS = 4  # points along each side whose displacements are drawn
NUMBERS = 2 * POINTS**2  # random numbers of an image


def distorted(images: Tensor, pixels: float, seed: int, batch: int, start: int) -> Tensor:
    """Distort images (B, H, W, C), numbers start, start + 1, ... of batch ``batch``; return them in float32.

    Each point of a grid of 4 x 4 over an image moves by up to ``pixels`` along both axes, uniformly, and black comes in from
    outside. An image's numbers depend on (``seed``, ``batch``, its number), whatever part of the batch is asked for.
    """
    count, height, width, _ = images.shape
    words = words_between(seed, batch, DISTORTION_STREAM, NUMBERS * start, NUMBERS * (start + count))
    shares = (words.astype(np.float64) / 2**31 - 1).astype(np.float32)
    moves = torch.from_numpy(shares).view(count, 2, POINTS, POINTS).to(images.device)
    field = F.interpolate(moves, (height, width), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)
    columns, rows = ((torch.arange(side, device=images.device) * 2 + 1) / side - 1 for side in (width, height))
    places = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), 2)
    grid = places + field * torch.tensor([2 * pixels / width, 2 * pixels / height], device=images.device)
    return F.grid_sample(images.permute(0, 3, 1, 2).float(), grid, align_corners=False).permute(0, 2, 3, 1)
