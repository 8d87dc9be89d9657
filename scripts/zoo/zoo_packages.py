"""Networks of small packages, one or more of each, as their own examples make them: layers that the great zoos have not.

Each row imports its own package; one that is not installed is "not run". packages.txt has them.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from subjects import Call, Subject, images, plain, tokens
from torch import Tensor, nn

WIDE, WORDS, LONG = 32, 48, 8
IMAGE = (3, 16, 16)
PLAIN = {"dim": WIDE, "depth": 2, "heads": 4, "mlp_dim": 48}
VIT = {**PLAIN, "image_size": 16, "patch_size": 4, "num_classes": 10}


def named(module: str, name: str) -> Any:
    """A class of a package."""
    return getattr(import_module(module), name)


class Wrapped(nn.Module):
    """Parts called by ``function(self, x)``."""

    def __init__(self, function: Callable[[Any, Tensor], Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Weights(nn.Module):
    """Tensors to be trained."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))


# ---- differential equations


class Slope(nn.Module):
    """Right side of an equation: a function of time and state."""

    def __init__(self, wide: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(wide, 16), nn.Tanh(), nn.Linear(16, wide))

    def forward(self, time: Tensor, state: Tensor) -> Tensor:
        return self.layers(state)


def neural_ode(method: str) -> nn.Module:
    odeint = named("torchdiffeq", "odeint")

    def solve(self: Any, x: Tensor) -> Tensor:
        times = torch.linspace(0, 1, 3, dtype=x.dtype)
        return self.last(odeint(self.slope, x, times, method=method)[-1])

    return Wrapped(solve, slope=Slope(), last=nn.Linear(8, 3))


def neural_cde() -> nn.Module:
    torchcde = import_module("torchcde")

    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 16)

        def forward(self, time: Tensor, state: Tensor) -> Tensor:
            return self.layer(state).tanh().view(*state.shape[:-1], 8, 2)

    def solve(self: Any, x: Tensor) -> Tensor:
        path = torchcde.CubicSpline(torchcde.hermite_cubic_coefficients_with_backward_differences(x))
        start = self.first(path.evaluate(path.interval[0]))
        states = torchcde.cdeint(path, self.field, start, path.interval, method="rk4", options={"step_size": 1.0}, adjoint=False)
        return self.last(states[:, -1])

    return Wrapped(solve, first=nn.Linear(2, 8), field=Field(), last=nn.Linear(8, 3))


# ---- spikes, quantised layers


def snn_leaky() -> nn.Module:
    snn = import_module("snntorch")

    def steps(self: Any, x: Tensor) -> Tensor:
        state, total = self.leaky.init_leaky(), 0.0
        for _ in range(4):
            spikes, state = self.leaky(self.first(x), state)
            total = total + self.last(spikes) + state.mean(1, keepdim=True)
        return total

    return Wrapped(steps, first=nn.Linear(8, 16), leaky=snn.Leaky(beta=0.9, learn_beta=True), last=nn.Linear(16, 3))


def spikingjelly_net() -> nn.Module:
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    network = nn.Sequential(layer.Linear(8, 16), neuron.LIFNode(surrogate_function=surrogate.ATan()), layer.Linear(16, 3))
    functional.set_step_mode(network, "m")

    def steps(self: Any, x: Tensor) -> Tensor:
        functional.reset_net(self.network)
        return self.network(x.unsqueeze(0).repeat(4, 1, 1)).mean(0)

    return Wrapped(steps, network=network)


def brevitas_net() -> nn.Module:
    from brevitas import nn as qnn

    return nn.Sequential(
        qnn.QuantConv2d(3, 8, 3, weight_bit_width=4),
        qnn.QuantReLU(bit_width=4),
        nn.Flatten(),
        qnn.QuantLinear(8 * 36, 10, True, weight_bit_width=4),
    )


# ---- flows, graphs, groups


def flow_of(make: Callable[[], nn.Module]) -> nn.Module:
    return Wrapped(lambda self, x: self.flow.log_prob(x).unsqueeze(1), flow=make())


def nflows_maf() -> nn.Module:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    parts = [ReversePermutation(4), MaskedAffineAutoregressiveTransform(4, 16), MaskedAffineAutoregressiveTransform(4, 16)]
    return flow_of(lambda: Flow(CompositeTransform(parts), StandardNormal([4])))


def normflows_nvp() -> nn.Module:
    nf = import_module("normflows")
    parts = []
    for _ in range(2):
        parts += [nf.flows.AffineCouplingBlock(nf.nets.MLP([2, 16, 4], init_zeros=False)), nf.flows.Permute(4, "swap")]
    return flow_of(lambda: nf.NormalizingFlow(nf.distributions.DiagGaussian(4), parts))


def zuko_flow(name: str) -> nn.Module:
    zuko = import_module("zuko")
    flow = getattr(zuko.flows, name)(4, 0, hidden_features=(16, 16), transforms=2)
    return Wrapped(lambda self, x: self.flow().log_prob(x).unsqueeze(1), flow=flow)


def graph_net(name: str, **options: Any) -> nn.Module:
    from torch_geometric import nn as gnn

    dense = getattr(gnn, name)
    near = torch.tensor([[0.0, 1, 1, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [0, 0, 1, 0, 1], [0, 0, 0, 1, 0]])

    def forward(self: Any, x: Tensor) -> Tensor:
        adjacency = near.to(x.dtype).expand(len(x), -1, -1)
        return self.last(self.two(self.one(x, adjacency).relu(), adjacency).mean(1))

    return Wrapped(forward, one=dense(4, 16, **options), two=dense(16, 16, **options), last=nn.Linear(16, 3))


def sparse_graph_net(name: str, **options: Any) -> nn.Module:
    from torch_geometric import nn as gnn

    convolution = getattr(gnn, name)
    edges = torch.tensor([[0, 1, 1, 2, 0, 2, 2, 3, 3, 4], [1, 0, 2, 1, 2, 0, 3, 2, 4, 3]])

    def forward(self: Any, x: Tensor) -> Tensor:
        count = len(x)
        shift = 5 * torch.arange(count).repeat_interleave(edges.shape[1])
        links = edges.repeat(1, count) + shift
        nodes = self.two(self.one(x.flatten(0, 1), links).relu(), links)
        return self.last(gnn.global_mean_pool(nodes, torch.arange(count).repeat_interleave(5), count))

    return Wrapped(forward, one=convolution(4, 16, **options), two=convolution(16, 16, **options), last=nn.Linear(16, 3))


def egnn_net() -> nn.Module:
    layer = named("egnn_pytorch", "EGNN")(dim=8)
    return Wrapped(lambda self, x: self.last(self.layer(x[..., :8], x[..., 8:])[0].mean(1)), layer=layer, last=nn.Linear(8, 3))


def e3nn_net() -> nn.Module:
    o3 = import_module("e3nn.o3")
    first = o3.Linear("2x0e + 2x1o", "4x0e + 4x1o")
    product = o3.FullyConnectedTensorProduct("4x0e + 4x1o", "2x0e + 2x1o", "3x0e + 2x1o")
    return Wrapped(lambda self, x: self.product(self.first(x), x), first=first, product=product)


# ---- rows of a table, functions of a number


def tabnet() -> nn.Module:
    network = named("pytorch_tabnet.tab_network", "TabNet")(
        input_dim=6, output_dim=3, n_d=4, n_a=4, n_steps=2, virtual_batch_size=64, group_attention_matrix=torch.eye(6)
    )
    return Wrapped(lambda self, x: self.network(x)[0], network=network)


def numbers_embedded() -> nn.Module:
    rtdl = import_module("rtdl_num_embeddings")
    periodic = rtdl.PeriodicEmbeddings(6, 8, lite=False)
    return nn.Sequential(periodic, nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 3))


def ft_transformer() -> nn.Module:
    network = named("tab_transformer_pytorch", "FTTransformer")(
        categories=(4, 5), num_continuous=4, dim=16, dim_out=3, depth=2, heads=4, attn_dropout=0.0, ff_dropout=0.0
    )
    return Wrapped(lambda self, x: self.network(torch.zeros(len(x), 2, dtype=torch.long), x), network=network)


def liquid(name: str) -> nn.Module:
    network = getattr(import_module("ncps.torch"), name)(4, 8)
    return Wrapped(lambda self, x: self.last(self.network(x)[0][:, -1]), network=network, last=nn.Linear(8, 3))


# ---- layers in the place of usual ones


def around(
    layer: nn.Module, before: nn.Module, after: nn.Module, call: Callable[[nn.Module, Tensor], Tensor] = plain
) -> nn.Module:
    return Wrapped(lambda self, x: self.after(call(self.layer, self.before(x))), before=before, layer=layer, after=after)


def sequence(layer: nn.Module, call: Callable[[nn.Module, Tensor], Any] = plain) -> nn.Module:
    """Words, their vectors, the layer, scores of words."""
    return around(layer, nn.Embedding(WORDS, WIDE), nn.Linear(WIDE, WORDS), call)


def factorized(kind: str) -> nn.Module:
    FactorizedLinear = named("tltorch", "FactorizedLinear")
    layer = FactorizedLinear((4, 4), (4, 4), rank=4, factorization=kind)
    layer.weight.normal_(std=0.2)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), layer, nn.ReLU(), nn.Linear(16, 3))


def deep_equilibrium() -> nn.Module:
    torchdeq = import_module("torchdeq")
    solver = torchdeq.get_deq(f_solver="fixed_point_iter", f_max_iter=12, f_tol=1e-30)

    def forward(self: Any, x: Tensor) -> Tensor:
        given = self.first(x)
        return self.last(self.solver(lambda z: (self.inner(z) + given).tanh(), torch.zeros_like(given))[0][-1])

    return Wrapped(forward, first=nn.Linear(8, 16), inner=nn.Linear(16, 16), last=nn.Linear(16, 3), solver=solver)


def hyperbolic() -> nn.Module:
    geoopt = import_module("geoopt")
    ball = geoopt.PoincareBall()

    class Distances(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.points = geoopt.ManifoldParameter(0.1 * torch.randn(3, 4), manifold=ball)

        def forward(self, x: Tensor) -> Tensor:
            return -ball.dist(ball.expmap0(x).unsqueeze(1), self.points)

    return nn.Sequential(nn.Linear(8, 4), Distances())


def complex_net() -> nn.Module:
    layers = import_module("complexPyTorch.complexLayers")
    functions = import_module("complexPyTorch.complexFunctions")

    def forward(self: Any, x: Tensor) -> Tensor:
        return self.two(functions.complex_relu(self.one(torch.complex(x[:, :4], x[:, 4:])))).abs()

    return Wrapped(forward, one=layers.ComplexLinear(4, 8), two=layers.ComplexLinear(8, 3))


def entmax_net(name: str) -> nn.Module:
    function = named("entmax", name)
    return around(Wrapped(lambda self, x: function(x, dim=-1)), nn.Linear(8, 16), nn.Linear(16, 3))


def quantised_codes() -> nn.Module:
    layer = named("vector_quantize_pytorch", "FSQ")(levels=[5, 5, 5, 5])
    return around(layer, nn.Linear(8, 4), nn.Linear(4, 3), lambda part, x: part(x.unsqueeze(1))[0].squeeze(1))


def vector_quantised() -> nn.Module:
    layer = named("vector_quantize_pytorch", "VectorQuantize")(dim=8, codebook_size=16, decay=0.8)
    return around(layer, nn.Linear(8, 8), nn.Linear(8, 3), lambda part, x: part(x.unsqueeze(1))[0].squeeze(1))


def unet2d() -> nn.Module:
    network = named("diffusers", "UNet2DModel")(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip
    return Wrapped(lambda self, x: self.network(x, 10).sample, network=network)


def denoiser() -> nn.Module:
    network = named("denoising_diffusion_pytorch", "Unet")(dim=8, dim_mults=(1, 2), flash_attn=False)
    return Wrapped(lambda self, x: self.network(x, torch.full((len(x),), 10)), network=network)


def x_transformer(**options: Any) -> nn.Module:
    x = import_module("x_transformers")
    options = {"dim": WIDE, "depth": 2, "heads": 4, "attn_dim_head": 8, **options}
    return x.TransformerWrapper(num_tokens=WORDS, max_seq_len=16, attn_layers=x.Decoder(**options))


def lucid(package: str, name: str, *args: Any, **options: Any) -> Callable[[], nn.Module]:
    return lambda: named(package, name)(*args, **options)


def vit(module: str, name: str, **options: Any) -> tuple[str, str, Callable[[], nn.Module], Any, Call]:
    return "vit-pytorch", f"{module}.{name}", lambda: named(f"vit_pytorch.{module}", name)(**options), images(*IMAGE), plain


VECTOR, TEXT = images(8), tokens(LONG, WORDS)
# package, network, its maker, examples, how it is called
NETWORKS: list[tuple[str, str, Callable[[], nn.Module], Any, Call]] = [
    ("torchdiffeq", "neural ODE, rk4", lambda: neural_ode("rk4"), VECTOR, plain),
    ("torchdiffeq", "neural ODE, dopri5", lambda: neural_ode("dopri5"), VECTOR, plain),
    ("torchcde", "neural CDE", neural_cde, images(5, 2), plain),
    ("snntorch", "Leaky, 4 steps", snn_leaky, VECTOR, plain),
    ("spikingjelly", "LIFNode, 4 steps", spikingjelly_net, VECTOR, plain),
    ("brevitas", "QuantConv2d, QuantLinear", brevitas_net, images(3, 8, 8), plain),
    ("nflows", "masked autoregressive flow", nflows_maf, images(4), plain),
    ("normflows", "affine couplings", normflows_nvp, images(4), plain),
    ("zuko", "NSF", lambda: zuko_flow("NSF"), images(4), plain),
    ("zuko", "MAF", lambda: zuko_flow("MAF"), images(4), plain),
    ("torch_geometric", "DenseGCNConv", lambda: graph_net("DenseGCNConv"), images(5, 4), plain),
    ("torch_geometric", "DenseGATConv", lambda: graph_net("DenseGATConv"), images(5, 4), plain),
    ("torch_geometric", "GCNConv", lambda: sparse_graph_net("GCNConv"), images(5, 4), plain),
    ("torch_geometric", "GATv2Conv", lambda: sparse_graph_net("GATv2Conv"), images(5, 4), plain),
    ("torch_geometric", "TransformerConv", lambda: sparse_graph_net("TransformerConv"), images(5, 4), plain),
    ("egnn-pytorch", "EGNN", egnn_net, images(5, 11), plain),
    ("e3nn", "tensor product", e3nn_net, images(8), plain),
    (
        "monai",
        "UNet",
        lambda: named("monai.networks.nets", "UNet")(2, 1, 2, (4, 8), (2,), num_res_units=1),
        images(1, 16, 16),
        plain,
    ),
    (
        "monai",
        "SegResNet",
        lambda: named("monai.networks.nets", "SegResNet")(
            2, init_filters=8, in_channels=1, out_channels=2, blocks_down=(1, 1), blocks_up=(1,)
        ),
        images(1, 16, 16),
        plain,
    ),
    (
        "monai",
        "DenseNet, volumes",
        lambda: named("monai.networks.nets", "DenseNet")(3, 1, 3, init_features=8, growth_rate=4, block_config=(2, 2)),
        images(1, 16, 16, 16),
        plain,
    ),
    (
        "monai",
        "UNETR",
        lambda: named("monai.networks.nets", "UNETR")(
            1, 2, (16, 16), feature_size=4, hidden_size=16, mlp_dim=32, num_heads=4, spatial_dims=2
        ),
        images(1, 16, 16),
        plain,
    ),
    ("pytorch-tabnet", "TabNet", tabnet, images(6), plain),
    ("rtdl-num-embeddings", "PeriodicEmbeddings", numbers_embedded, images(6), plain),
    ("tab-transformer-pytorch", "FTTransformer", ft_transformer, images(4), plain),
    ("ncps", "CfC", lambda: liquid("CfC"), images(5, 4), plain),
    ("ncps", "LTC", lambda: liquid("LTC"), images(5, 4), plain),
    (
        "mambapy",
        "Mamba",
        lambda: sequence(
            named("mambapy.mamba", "Mamba")(
                named("mambapy.mamba", "MambaConfig")(d_model=WIDE, n_layers=2, d_state=4, pscan=False)
            )
        ),
        TEXT,
        plain,
    ),
    ("minGRU-pytorch", "minGRU", lambda: sequence(named("minGRU_pytorch", "minGRU")(WIDE)), TEXT, plain),
    (
        "pykan",
        "KAN",
        lambda: named("kan", "KAN")(width=[4, 5, 3], grid=3, k=3, auto_save=False, symbolic_enabled=False),
        images(4),
        plain,
    ),
    ("torchdeq", "equilibrium of 12 steps", deep_equilibrium, VECTOR, plain),
    ("tensorly-torch", "FactorizedLinear, CP", lambda: factorized("cp"), VECTOR, plain),
    ("tensorly-torch", "FactorizedLinear, Tucker", lambda: factorized("tucker"), VECTOR, plain),
    ("geoopt", "distances on a Poincare ball", hyperbolic, VECTOR, plain),
    ("complexPyTorch", "ComplexLinear", complex_net, VECTOR, plain),
    ("entmax", "sparsemax", lambda: entmax_net("sparsemax"), VECTOR, plain),
    ("entmax", "entmax15", lambda: entmax_net("entmax15"), VECTOR, plain),
    ("vector-quantize-pytorch", "FSQ", quantised_codes, VECTOR, plain),
    ("vector-quantize-pytorch", "VectorQuantize", vector_quantised, VECTOR, plain),
    ("diffusers", "UNet2DModel", unet2d, images(*IMAGE), plain),
    ("denoising-diffusion-pytorch", "Unet", denoiser, images(*IMAGE), plain),
    ("siren-pytorch", "SirenNet", lucid("siren_pytorch", "SirenNet", 2, 16, 3, 2), images(2), plain),
    (
        "performer-pytorch",
        "PerformerLM",
        lucid("performer_pytorch", "PerformerLM", num_tokens=WORDS, max_seq_len=16, dim=WIDE, depth=2, heads=4, causal=False),
        TEXT,
        plain,
    ),
    (
        "perceiver-pytorch",
        "Perceiver",
        lucid(
            "perceiver_pytorch",
            "Perceiver",
            input_channels=3,
            input_axis=1,
            num_freq_bands=2,
            max_freq=4.0,
            depth=2,
            num_latents=4,
            latent_dim=16,
            cross_heads=1,
            latent_heads=2,
            num_classes=5,
        ),
        images(8, 3),
        plain,
    ),
    (
        "conformer",
        "Conformer",
        lucid(
            "conformer",
            "Conformer",
            dim=WIDE,
            depth=2,
            dim_head=8,
            heads=4,
            ff_mult=2,
            conv_expansion_factor=2,
            conv_kernel_size=5,
        ),
        images(LONG, WIDE),
        plain,
    ),
    (
        "linformer",
        "Linformer",
        lambda: sequence(named("linformer", "Linformer")(dim=WIDE, seq_len=LONG, depth=2, heads=4, k=4)),
        TEXT,
        plain,
    ),
    (
        "nystrom-attention",
        "Nystromformer",
        lambda: sequence(named("nystrom_attention", "Nystromformer")(dim=WIDE, dim_head=8, heads=4, depth=1, num_landmarks=4)),
        TEXT,
        plain,
    ),
    (
        "soft-moe-pytorch",
        "SoftMoE",
        lambda: sequence(named("soft_moe_pytorch", "SoftMoE")(dim=WIDE, seq_len=LONG, num_experts=4)),
        TEXT,
        plain,
    ),
    (
        "product-key-memory",
        "PKM",
        lambda: sequence(named("product_key_memory", "PKM")(dim=WIDE, heads=2, num_keys=8, topk=4, dim_head=8)),
        TEXT,
        plain,
    ),
    ("g-mlp-pytorch", "gMLP", lucid("g_mlp_pytorch", "gMLP", num_tokens=WORDS, dim=WIDE, depth=2, seq_len=LONG), TEXT, plain),
    (
        "axial-attention",
        "AxialAttention",
        lambda: around(
            named("axial_attention", "AxialAttention")(dim=8, dim_index=1, heads=2, num_dimensions=2),
            nn.Conv2d(3, 8, 1),
            nn.Conv2d(8, 3, 1),
        ),
        images(3, 8, 8),
        plain,
    ),
    (
        "local-attention",
        "LocalTransformer",
        lucid(
            "local_attention",
            "LocalTransformer",
            num_tokens=WORDS,
            max_seq_len=16,
            dim=WIDE,
            depth=2,
            local_attn_window_size=4,
            heads=4,
            dim_head=8,
            causal=True,
        ),
        TEXT,
        plain,
    ),
    (
        "mega-pytorch",
        "Mega",
        lucid(
            "mega_pytorch",
            "Mega",
            dim=WIDE,
            num_tokens=WORDS,
            depth=1,
            ema_heads=4,
            attn_dim_qk=8,
            attn_dim_value=16,
            laplacian_attn_fn=True,
        ),
        TEXT,
        plain,
    ),
    (
        "segmentation-models-pytorch",
        "Unet, resnet18",
        lucid(
            "segmentation_models_pytorch",
            "Unet",
            "resnet18",
            encoder_weights=None,
            encoder_depth=3,
            decoder_channels=(16, 8, 8),
            classes=2,
        ),
        images(3, 32, 32),
        plain,
    ),
    ("x-transformers", "Decoder", x_transformer, TEXT, plain),
    (
        "x-transformers",
        "rotary, GLU, RMSNorm",
        lambda: x_transformer(rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True, attn_qk_norm=True),
        TEXT,
        plain,
    ),
    (
        "x-transformers",
        "ALiBi, talking heads",
        lambda: x_transformer(alibi_pos_bias=True, attn_pre_talking_heads=True),
        TEXT,
        plain,
    ),
    (
        "x-transformers",
        "top-k attention, shifted tokens",
        lambda: x_transformer(attn_sparse_topk=3, shift_tokens=1, rel_pos_bias=True),
        TEXT,
        plain,
    ),
    (
        "x-transformers",
        "gated residuals, one key head",
        lambda: x_transformer(gate_residual=True, attn_one_kv_head=True, macaron=True),
        TEXT,
        plain,
    ),
    (
        "x-transformers",
        "value residuals, gated values",
        lambda: x_transformer(attn_gate_values=True, attn_num_mem_kv=4, add_value_residual=True),
        TEXT,
        plain,
    ),
    vit("vit", "ViT", **VIT),
    vit("simple_vit", "SimpleViT", **VIT),
    vit("deepvit", "DeepViT", **VIT),
    vit("cait", "CaiT", **VIT, cls_depth=1),
    vit("vit_for_small_dataset", "ViT", **VIT),
    vit("parallel_vit", "ViT", **VIT, num_parallel_branches=2),
    vit("learnable_memory_vit", "ViT", **VIT),
    vit("simple_vit_with_qk_norm", "SimpleViT", **VIT),
    vit("simple_vit_with_fft", "SimpleViT", **VIT, freq_patch_size=4),
    vit("normalized_vit", "nViT", **VIT),
    vit("simple_vit_with_hyper_connections", "SimpleViT", **VIT, num_residual_streams=2),
    vit("simple_vit_with_value_residual", "SimpleViT", **VIT),
    vit(
        "cct",
        "CCT",
        img_size=16,
        embedding_dim=32,
        n_conv_layers=1,
        num_layers=2,
        num_heads=4,
        mlp_ratio=2.0,
        num_classes=10,
        positional_embedding="learnable",
    ),
    vit("rvt", "RvT", **VIT),
    vit("xcit", "XCiT", **VIT, cls_depth=1),
    vit(
        "twins_svt",
        "TwinsSVT",
        num_classes=10,
        s1_emb_dim=8,
        s1_patch_size=2,
        s1_local_patch_size=2,
        s1_global_k=2,
        s1_depth=1,
        s2_emb_dim=8,
        s2_patch_size=2,
        s2_local_patch_size=2,
        s2_global_k=2,
        s2_depth=1,
        s3_emb_dim=8,
        s3_patch_size=1,
        s3_local_patch_size=2,
        s3_global_k=2,
        s3_depth=1,
        s4_emb_dim=8,
        s4_patch_size=1,
        s4_local_patch_size=2,
        s4_global_k=2,
        s4_depth=1,
    ),
    vit(
        "cvt",
        "CvT",
        num_classes=10,
        s1_emb_dim=8,
        s1_emb_kernel=3,
        s1_emb_stride=2,
        s1_depth=1,
        s2_emb_dim=8,
        s2_emb_kernel=3,
        s2_emb_stride=2,
        s2_heads=2,
        s2_depth=1,
        s3_emb_dim=16,
        s3_emb_kernel=3,
        s3_emb_stride=2,
        s3_heads=2,
        s3_depth=1,
    ),
]


FLOAT32 = ("snntorch", "pytorch-tabnet", "complexPyTorch", "denoising-diffusion-pytorch")  # they make float32 themselves


def subjects() -> list[Subject]:
    """The networks, each named by its package and version."""
    found: list[Subject] = []
    for package, network, make, examples, call in NETWORKS:
        try:
            known = version(package)
        except PackageNotFoundError:
            known = "not installed"
        exact = torch.float32 if package in FLOAT32 else torch.float64
        found.append(Subject("packages", f"{package}: {network}", 1, f"{package} {known}", "tiny", make, examples, call, exact))
    return found
