"""Sizes of chunks: how many members share a forward pass. Functions of model and settings, never of ranks or clocks."""

import torch

# values of the largest activation of a chunk: what a CPU's caches take without loss, and what keeps a GPU busy
ACTIVATION = {"cpu": 2**22, "cuda": 2**28}
ROWS = {"cpu": (32, 4096), "cuda": (256, 2**17)}  # least and most rows of a chunk of members
# the same of passes with noise on activations, which make their noise while an activation is near
NEAR = {"cpu": 2**21, "cuda": 2**28}
PASSES = {"cpu": (32, 512), "cuda": (256, 2**17)}
CHUNKS = {"cpu": 2, "cuda": 1}  # least number, so that two threads can share the work
NOISE = {"cpu": 2**26, "cuda": 2**30}  # values of noise that a sampler without reuse may hold for a chunk


def pass_rows(largest: int, device: torch.device, total: int) -> int:
    """:func:`chunk_rows` for passes with noise on activations; a rank has any number of them."""
    low, high = PASSES[device.type]
    return max(low, min(NEAR[device.type] // largest, high, -(-total // CHUNKS[device.type])))


def chunk_rows(largest: int, device: torch.device, total: int) -> int:
    """Return the number of rows of a chunk, of ``total`` rows; ``largest``: values of a row in the module's largest activation.

    At least CHUNKS of them where the rows suffice, and a multiple of that, of one length: no thread waits for another one's.
    """
    (low, high), some = ROWS[device.type], CHUNKS[device.type]
    count = -(-total // max(low, min(ACTIVATION[device.type] // largest, high)))
    return max(low, -(-total // (-(-count // some) * some)))


def dense_directions(size: int, device: torch.device) -> int:
    """Return the number of directions of ``size`` numbers each that a chunk may hold."""
    return max(1, NOISE[device.type] // size)
