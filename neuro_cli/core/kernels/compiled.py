"""The compiled loops (numba), each module loaded when the first of its loops runs: that takes a second of the processor."""

from neuro_cli.core.lazy import LazyModule

attention_kernels = LazyModule("neuro_cli.core.kernels.attention")
blas_kernels = LazyModule("neuro_cli.core.kernels.blas")
block_kernels = LazyModule("neuro_cli.core.kernels.blocks")
own_chain_kernels = LazyModule("neuro_cli.core.kernels.own_chain")
linear_kernels = LazyModule("neuro_cli.core.kernels.linear")
noise_kernels = LazyModule("neuro_cli.core.kernels.noise")
own_layer_kernels = LazyModule("neuro_cli.core.kernels.own_layer")
product_kernels = LazyModule("neuro_cli.core.kernels.products")
rounding_kernels = LazyModule("neuro_cli.core.kernels.rounding")
row_kernels = LazyModule("neuro_cli.core.kernels.rows")
sum_kernels = LazyModule("neuro_cli.core.kernels.sums")
winograd_kernels = LazyModule("neuro_cli.core.kernels.winograd")
