"""Convolutions of images that have weights of their own, some lines of an image at a time: a core's caches hold what they read.

Arrays are float32. What a pixel of the outcome reads lies in the order of a weight's (C, kh, kw).
"""

import numba as nb
import numpy as np

from neuro_cli.core.kernels.blas import own_product

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)


@_compiled
def own_convolutions(x, weights, bias, examples, stride, padding, dilation, kernel, lines, out):
    """Convolve images x (n, C, H, W) in any order of memory with weights[direction] (D, O, C kh kw) to ``out`` (n, H', W', O).

    ``bias`` (D or 1, O), of no columns: none. Numbers for two dimensions: ``stride``, ``padding``, ``dilation``, ``kernel``.
    """
    count, channels, height, width = x.shape
    pixels, outputs = out.shape[2], out.shape[3]
    assert out.shape[0] == count and weights.shape[1:] == (outputs, channels * kernel[0] * kernel[1]) and lines > 0
    # the last line and column that an outcome reads are in the padded image
    assert (out.shape[1] - 1) * stride[0] + (kernel[0] - 1) * dilation[0] < height + 2 * padding[0]
    assert (pixels - 1) * stride[1] + (kernel[1] - 1) * dilation[1] < width + 2 * padding[1]
    assert bias.shape[1] == 0 or (bias.shape[1] == outputs and bias.shape[0] > 0)
    # the border stays zero for all rows, as only the inside is written
    image = np.zeros((channels, height + 2 * padding[0], width + 2 * padding[1]), np.float32)
    read = np.empty((channels * kernel[0] * kernel[1], lines, pixels), np.float32)
    for row in range(count):
        for c in range(channels):
            for i in range(height):
                for j in range(width):
                    image[c, i + padding[0], j + padding[1]] = x[row, c, i, j]
        direction = row // examples % weights.shape[0]
        for first in range(0, out.shape[1], lines):
            some = min(lines, out.shape[1] - first)
            place = 0
            for c in range(channels):
                for a in range(kernel[0]):
                    for b in range(kernel[1]):
                        for line in range(some):
                            source, target = image[c, (first + line) * stride[0] + a * dilation[0]], read[place, line]
                            begin = nb.uintp(b * dilation[1])
                            # neighbours in memory are copied by vectors; a stride would make LLVM gather
                            if stride[1] == 1:
                                for j in range(nb.uintp(pixels)):
                                    target[j] = source[begin + j]
                            else:
                                for j in range(nb.uintp(pixels)):
                                    target[j] = source[begin + j * nb.uintp(stride[1])]
                        place += 1
            # channels lie last in the outcome, so the product writes it in place
            result = out[row, first : first + some].reshape(some * pixels, outputs)
            own_product(read.reshape(len(read), lines * pixels), weights[direction], result)
            if bias.shape[1]:
                for pixel in range(result.shape[0]):
                    for c in range(outputs):
                        result[pixel, c] += bias[direction % bias.shape[0], c]
