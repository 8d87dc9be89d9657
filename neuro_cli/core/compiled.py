"""The compiled loops (numba), each module loaded when the first of its loops runs: that takes a second of the processor."""

from neuro_cli.core.lazy import LazyModule

block_kernels = LazyModule("neuro_cli.core.block_kernels")
noise_kernels = LazyModule("neuro_cli.core.noise_kernels")
row_kernels = LazyModule("neuro_cli.core.row_kernels")
