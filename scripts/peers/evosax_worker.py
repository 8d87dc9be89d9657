"""W1 on evosax (Open_ES), in a process and an environment of its own: a generation for every line on standard input.

python evosax_worker.py SETTING_AS_JSON; prints one JSON object a generation, as neuro_worker.py does.

Its fastest way on a CPU: sampling, evaluation and update compiled as one function that reuses the old state's memory,
members evaluated one after another (``lax.map``; ``"vmap": true`` for side by side), activations channels last.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from evosax.algorithms import Open_ES
from jax import Array, lax

Network = dict[str, dict[str, Array]]
SIGMA, LEARNING_RATE = 0.05, 0.02  # neuro's defaults; no timing depends on them


def initial(key: Array, setting: dict[str, Any]) -> Network:
    """Return weights as torch draws them: uniform, within one over the square root of a unit's inputs."""
    (first, second), hidden = setting["channels"], setting["hidden"]
    shapes = {"conv1": (5, 5, 1, first), "conv2": (5, 5, first, second)}
    if hidden is None:
        shapes |= {"out": (second * 49, 10)}
    else:
        shapes |= {"hidden": (second * 49, hidden), "out": (hidden, 10)}
    network = {}
    for name, shape in shapes.items():
        key, for_weight, for_bias = jax.random.split(key, 3)
        bound = 1 / math.sqrt(math.prod(shape[:-1]))
        draw = {"weight": (for_weight, shape), "bias": (for_bias, shape[-1:])}
        network[name] = {part: jax.random.uniform(k, s, minval=-bound, maxval=bound) for part, (k, s) in draw.items()}
    return network


def block(images: Array, layer: dict[str, Array]) -> Array:
    """Apply convolution 5x5, ReLU and max-pool 2x2 to images (B, H, W, C).

    ReLU and pool commute; in this order XLA's program is a tenth faster (the ReLU joins the bias in one pass).
    """
    out = lax.conv_general_dilated(images, layer["weight"], (1, 1), ((2, 2), (2, 2)), dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.reduce_window(jax.nn.relu(out + layer["bias"]), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def loss(network: Network, images: Array, labels: Array) -> Array:
    """Return the mean cross-entropy of one member on images (B, 28, 28, 1)."""
    out = block(block(images, network["conv1"]), network["conv2"])
    out = out.reshape(len(out), -1)
    if "hidden" in network:
        out = jax.nn.relu(out @ network["hidden"]["weight"] + network["hidden"]["bias"])
    logits = out @ network["out"]["weight"] + network["out"]["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def peak_memory_bytes() -> float:
    """Return the peak memory of this program: ``ru_maxrss`` would begin at the peak of the process that started it."""
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def serve(
    loss: Callable[[Any, Array, Array], Array],
    network: Any,
    inputs: Array,
    targets: Array,
    setting: dict[str, Any],
    rounds: int = 1,
) -> None:
    """Run ``rounds`` generations for every line on standard input, each with all members on one batch.

    ``loss`` of a member's weights, inputs and targets; ``network``: the initial ones; ``setting``: population, vmap, seed, and
    ``pairs``: whether members are mirrored ones.
    """
    key, for_state = jax.random.split(jax.random.key(setting["seed"] + 1))
    constant = optax.constant_schedule(SIGMA)
    strategy = Open_ES(
        setting["population"], network, optimizer=optax.adam(LEARNING_RATE), std_schedule=constant,
        use_antithetic_sampling=setting.get("pairs", True),
    )  # fmt: skip
    params = strategy.default_params

    def generation(key: Array, state: Any, inputs: Array, targets: Array) -> tuple[Any, Array]:
        for_ask, for_tell = jax.random.split(key)
        members, state = strategy.ask(for_ask, state, params)
        if setting["vmap"]:
            losses = jax.vmap(loss, (0, None, None))(members, inputs, targets)
        else:
            losses = lax.map(lambda member: loss(member, inputs, targets), members)
        state, _ = strategy.tell(for_tell, members, losses, state, params)
        return state, losses

    step = jax.jit(generation, donate_argnums=1)
    state = strategy.init(for_state, network, params)
    for number, _ in enumerate(sys.stdin):
        start, used = time.perf_counter(), time.process_time()
        for repeat in range(rounds):
            state, losses = step(jax.random.fold_in(key, number * rounds + repeat), state, inputs, targets)
        jax.block_until_ready((state, losses))
        row = {"seconds": (time.perf_counter() - start) / rounds, "processor_seconds": (time.process_time() - used) / rounds}
        assert jnp.isfinite(losses).all()
        print(json.dumps(row | {"peak_memory_bytes": peak_memory_bytes()}), flush=True)


def main() -> None:
    setting = json.loads(sys.argv[1])
    for_network, for_images, for_labels = jax.random.split(jax.random.key(setting["seed"]), 3)
    network = initial(for_network, setting)
    count = sum(leaf.size for leaf in jax.tree.leaves(network))
    assert count == setting["parameters"], f"{count} parameters, not {setting['parameters']}"
    images = jax.random.normal(for_images, (setting["batch_size"], 28, 28, 1))
    labels = jax.random.randint(for_labels, (setting["batch_size"],), 0, 10)
    serve(loss, network, images, labels, setting)


if __name__ == "__main__":
    main()
