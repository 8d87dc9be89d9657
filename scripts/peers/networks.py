"""Networks of scripts/bench_networks.py, described once for torch and for jax, which both workers import.

A network is a list of layers: ``["linear", inputs, outputs]``, ``["conv", inputs, outputs, kernel, stride, groups]`` (padded by
half a kernel), ``["conv1d", inputs, outputs, kernel]`` (the same along a line), ``["gru", inputs, outputs]`` (its last state),
``["norm", size]`` (layer norm), ``["pool"]`` (maximum of 2 x 2), ``["mean"]`` (over all places), ``["flatten"]``, ``["relu"]``,
``["tanh"]``; or the sizes of a character GPT.
"""

from typing import Any, NamedTuple

Layer = list[Any]


class Network(NamedTuple):
    """Layers for inputs of ``shape`` (without batch), and the generation's ``population`` and ``batch``.

    ``rounds``: generations that are timed at once, where one takes milliseconds; a library may do more work in its first ones.
    """

    layers: list[Layer]
    shape: tuple[int, ...]
    population: int
    batch: int
    gpt: dict[str, int] | None = None
    rounds: int = 1

    @property
    def classes(self) -> int:
        """Classes of the targets: at most 4, and no more than the last layer's outputs."""
        return min(4, self.layers[-1][2])


def separable(inputs: int, outputs: int, stride: int) -> list[Layer]:
    """Return a depthwise 3x3 and a 1x1 convolution with their ReLU (MobileNet)."""
    return [["conv", inputs, inputs, 3, stride, inputs], ["relu"], ["conv", inputs, outputs, 1, 1, 1], ["relu"]]


def plain(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> list[Layer]:
    """Return a convolution and its ReLU."""
    return [["conv", inputs, outputs, kernel, stride, 1], ["relu"]]


POLICY: list[Layer] = [["linear", 24, 64], ["tanh"], ["linear", 64, 64], ["tanh"], ["linear", 64, 4]]
BLOCKS: list[Layer] = [
    *plain(3, 32), *plain(32, 32), ["pool"], *plain(32, 64), *plain(64, 64), ["pool"],
    ["flatten"], ["linear", 4096, 256], ["relu"], ["linear", 256, 10],
]  # fmt: skip
MOBILE: list[Layer] = [
    *plain(3, 16, 3, 2),
    *separable(16, 32, 1),
    *separable(32, 64, 2),
    *separable(64, 64, 1),
    ["mean"],
    ["linear", 64, 10],
]
STRIDED: list[Layer] = [*plain(3, 64), *plain(64, 64), *plain(64, 128, 3, 2), *plain(128, 128), ["mean"], ["linear", 128, 10]]
FIVES: list[Layer] = [*plain(3, 24, 5), ["pool"], *plain(24, 48, 5), ["pool"], *plain(48, 96, 5), ["mean"], ["linear", 96, 10]]
NORMS: list[Layer] = [
    *[["linear", 16, 64], ["norm", 64], ["relu"]],
    *[["linear", 64, 64], ["norm", 64], ["relu"]],
    ["linear", 64, 4],
]
LINE: list[Layer] = [["conv1d", 4, 16, 3], ["relu"], ["conv1d", 16, 16, 3], ["relu"], ["flatten"], ["linear", 256, 3]]
NETWORKS = {
    "policy_512": Network(POLICY, (24,), 512, 16, rounds=20),
    "policy_4096": Network(POLICY, (24,), 4096, 16, rounds=10),
    # four that no loop was written for
    "relu_10000": Network([["linear", 8, 32], ["relu"], ["linear", 32, 2]], (8,), 10000, 1, rounds=10),
    "gru_1024": Network([["gru", 6, 32], ["linear", 32, 3]], (8, 6), 1024, 4, rounds=5),
    "line_1024": Network(LINE, (4, 16), 1024, 4, rounds=5),
    "norms_512": Network(NORMS, (16,), 512, 16, rounds=10),
    "char_gpt": Network([], (64,), 256, 4, {"vocabulary": 64, "width": 32, "depth": 2, "heads": 4}, rounds=5),
    "blocks_3x3": Network(BLOCKS, (3, 32, 32), 32, 64),
    "conv_96_160": Network([*plain(96, 160), ["mean"], ["linear", 160, 10]], (96, 24, 24), 16, 16),
    "mobile_64x64": Network(MOBILE, (3, 64, 64), 32, 32),
    "strided_32x32": Network(STRIDED, (3, 32, 32), 16, 32),
    "fives_32x32": Network(FIVES, (3, 32, 32), 32, 64),
    "mlp_784": Network([["linear", 784, 320], ["relu"], ["linear", 320, 96], ["relu"], ["linear", 96, 10]], (784,), 256, 128),
    "mlp_2048": Network(
        [["linear", 2048, 2048], ["relu"], ["linear", 2048, 2048], ["relu"], ["linear", 2048, 10]], (2048,), 16, 64
    ),
}
