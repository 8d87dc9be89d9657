"""A generation of evosax (Open_ES) on a network of networks.py for every line on standard input.

python network_evosax.py SETTING_AS_JSON; prints one JSON object a generation. Compiled as one function that reuses the old
state's memory; members one after another (``lax.map``) or side by side (``"vmap": true``), activations channels last.
"""

import json
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import optax
from evosax_worker import serve
from jax import Array, lax
from networks import NETWORKS, Layer, Network

Weights = list[dict[str, Array]]


def drawn(key: Array, shape: tuple[int, ...]) -> Array:
    """Return weights uniform within one over the square root of a unit's inputs."""
    bound = 1 / math.sqrt(math.prod(shape[:-1]))
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def shape_of(kind: str, *sizes: int) -> tuple[int, ...] | None:
    """Return the shape of a layer's weight, None without weights."""
    if kind == "conv":
        inputs, outputs, kernel, _, groups = sizes
        return kernel, kernel, inputs // groups, outputs
    if kind == "conv1d":
        inputs, outputs, kernel = sizes
        return kernel, inputs, outputs
    if kind == "gru":
        return sizes[0], 3 * sizes[1]
    return sizes if kind in ("linear", "norm") else None


def initial(key: Array, layers: list[Layer]) -> Weights:
    """Return weights and biases of the layers that have any."""
    shapes = [shape for shape in (shape_of(*parts) for parts in layers) if shape is not None]
    keys = jax.random.split(key, len(shapes))
    weights = [{"weight": drawn(k, shape), "bias": jnp.zeros(shape[-1])} for k, shape in zip(keys, shapes, strict=True)]
    kinds = [parts[0] for parts in layers if shape_of(*parts) is not None]
    for kind, layer, shape in zip(kinds, weights, shapes, strict=True):
        if kind == "gru":
            layer |= {"state": drawn(key, (shape[1] // 3, shape[1])), "state_bias": jnp.zeros(shape[1])}
    return weights


def last_state(layer: dict[str, Array], x: Array) -> Array:
    """Return the last state of a GRU (torch's form: reset, update, new) on (B, T, inputs)."""
    given = x @ layer["weight"] + layer["bias"]

    def step(state: Array, given: Array) -> tuple[Array, None]:
        moved = state @ layer["state"] + layer["state_bias"]
        reset, update, new = jnp.split(given, 3, -1)
        own_reset, own_update, own_new = jnp.split(moved, 3, -1)
        update = jax.nn.sigmoid(update + own_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + own_reset) * own_new)
        return new + update * (state - new), None

    return lax.scan(step, jnp.zeros((len(x), layer["state"].shape[0])), given.swapaxes(0, 1))[0]


def apply(weights: Weights, layers: list[Layer], x: Array) -> Array:
    """Return the outputs for inputs (B, H, W, C) or (B, N)."""
    left = iter(weights)
    for kind, *sizes in layers:
        if kind == "linear":
            layer = next(left)
            x = x @ layer["weight"] + layer["bias"]
        elif kind == "norm":
            x = layer_norm(x, next(left))
        elif kind == "gru":
            x = last_state(next(left), x)
        elif kind == "conv1d":
            layer, half = next(left), sizes[2] // 2
            x = lax.conv_general_dilated(x, layer["weight"], (1,), ((half, half),), dimension_numbers=("NWC", "WIO", "NWC"))
            x = x + layer["bias"]
        elif kind == "conv":
            layer = next(left)
            _, _, kernel, stride, groups = sizes
            half, form = kernel // 2, ("NHWC", "HWIO", "NHWC")
            pads = ((half, half), (half, half))
            x = lax.conv_general_dilated(
                x, layer["weight"], (stride, stride), pads, dimension_numbers=form, feature_group_count=groups
            )
            x = x + layer["bias"]
        elif kind == "pool":
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        else:
            simple = {"relu": jax.nn.relu, "tanh": jnp.tanh, "flatten": lambda x: x.reshape(len(x), -1)}
            x = x.mean((1, 2)) if kind == "mean" else simple[kind](x)
    return x


def initial_gpt(key: Array, sizes: dict[str, int], context: int) -> dict[str, Any]:
    """Return the weights of the GPT of neuro_cli.model.char_gpt."""
    width, keys = sizes["width"], iter(jax.random.split(key, 2 + 4 * sizes["depth"]))

    def normal(*shape: int) -> Array:
        return 0.02 * jax.random.normal(next(keys), shape)

    def norm() -> dict[str, Array]:
        return {"weight": jnp.ones(width), "bias": jnp.zeros(width)}

    blocks = [
        {
            "first": norm(), "second": norm(), "mixed": normal(width, 3 * width), "attended": normal(width, width),
            "widened": normal(width, 4 * width), "narrowed": normal(4 * width, width),
        }
        for _ in range(sizes["depth"])
    ]  # fmt: skip
    return {"tokens": normal(sizes["vocabulary"], width), "positions": normal(context, width), "blocks": blocks, "last": norm()}


def layer_norm(x: Array, norm: dict[str, Array]) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * norm["weight"] + norm["bias"]


def apply_gpt(weights: dict[str, Any], sizes: dict[str, int], tokens: Array) -> Array:
    """Return logits (B, T, vocabulary) of tokens (B, T)."""
    x = weights["tokens"][tokens] + weights["positions"]
    batch, length, width = x.shape
    for block in weights["blocks"]:
        parts = (layer_norm(x, block["first"]) @ block["mixed"]).reshape(batch, length, 3, sizes["heads"], -1)
        query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
        mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.reshape(batch, length, width) @ block["attended"]
        inner = jax.nn.gelu(layer_norm(x, block["second"]) @ block["widened"], approximate=False)
        x = x + inner @ block["narrowed"]
    return layer_norm(x, weights["last"]) @ weights["tokens"].T


def problem(network: Network, key: Array) -> tuple[Any, Array, Array, Any]:
    """Return initial weights, inputs, targets and the function of weights and inputs that gives logits."""
    for_weights, for_inputs, for_targets = jax.random.split(key, 3)
    if network.gpt is not None:
        sizes, shape = network.gpt, (network.batch, *network.shape)
        tokens, targets = (jax.random.randint(k, shape, 0, sizes["vocabulary"]) for k in (for_inputs, for_targets))
        return initial_gpt(for_weights, sizes, network.shape[0]), tokens, targets, lambda w, x: apply_gpt(w, sizes, x)
    recurrent = network.layers[0][0] == "gru"  # steps come first
    channels_last = network.shape if recurrent else (*network.shape[1:], network.shape[0])
    inputs = jax.random.normal(for_inputs, (network.batch, *channels_last))
    targets = jax.random.randint(for_targets, (network.batch,), 0, network.classes)
    return initial(for_weights, network.layers), inputs, targets, lambda w, x: apply(w, network.layers, x)


def main() -> None:
    setting = json.loads(sys.argv[1])
    network = NETWORKS[setting["network"]]
    weights, inputs, targets, logits = problem(network, jax.random.key(1))

    def loss(member: Any, inputs: Array, targets: Array) -> Array:
        return optax.softmax_cross_entropy_with_integer_labels(logits(member, inputs), targets).mean()

    given = {"population": network.population, "vmap": setting["vmap"], "pairs": setting.get("pairs", True), "seed": 1}
    serve(loss, weights, inputs, targets, given, network.rounds)


if __name__ == "__main__":
    main()
