"""The compiled loops (numba), each module loaded when the first of its loops runs: that takes a second of the processor."""

from neuro_cli.core.lazy import LazyModule

attention_kernels = LazyModule("neuro_cli.core.kernels.attention")
blas_kernels = LazyModule("neuro_cli.core.kernels.blas")
block_kernels = LazyModule("neuro_cli.core.kernels.numba_blocks")
linear_kernels = LazyModule("neuro_cli.core.kernels.numba_linear")
noise_kernels = LazyModule("neuro_cli.core.kernels.numba_noise")
own_chain_kernels = LazyModule("neuro_cli.core.kernels.own_chain")
own_layer_kernels = LazyModule("neuro_cli.core.kernels.own_layer")
own_recurrence_kernels = LazyModule("neuro_cli.core.kernels.own_recurrence")
product_kernels = LazyModule("neuro_cli.core.kernels.numba_products")
row_kernels = LazyModule("neuro_cli.core.kernels.numba_rows")
sum_kernels = LazyModule("neuro_cli.core.kernels.numba_sums")
tile_kernels = LazyModule("neuro_cli.core.kernels.tiles")
winograd_kernels = LazyModule("neuro_cli.core.kernels.winograd")
