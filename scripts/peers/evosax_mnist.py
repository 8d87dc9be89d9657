"""MNIST by evosax's own example (its notebook 03_vision): accuracy on the test images over the seconds since the start.

    python scripts/bench_peers.py --systems evosax                      # makes its environment
    outputs/peers/evosax/bin/python scripts/peers/evosax_mnist.py --root data --seconds 460

Network, batches (1,024 images), population (256), Open_ES and both schedules are the example's. What differs: members are scored
one after another (``lax.map``), for side by side the outputs of the second layer alone are 13 GB; the images come from files in
ROOT/MNIST/raw; a look, every ``--every`` generations, is at all test images instead of 1,024. Prints a line of JSON for each.
"""

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from evosax.algorithms import Open_ES
from evosax.problems import CNN, TorchVisionProblem, identity_output_fn
from jax import Array, lax

GENERATIONS = 512  # length of the example and of its schedules
MEAN, DEVIATION = 0.1307, 0.3081  # statistics of the pixels in the example


def idx(folder: Path, name: str) -> np.ndarray:
    """Bytes of an IDX file, packed or not, without its header: labels (N,) or images (N, 784)."""
    path = folder / name
    content = path.read_bytes() if path.is_file() else gzip.decompress(path.with_name(f"{name}.gz").read_bytes())
    dimensions = content[3]
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions)
    return values.reshape(-1, 784) if dimensions == 3 else values


class Mnist(TorchVisionProblem):
    """evosax's problem on images of ``folder``, members one after another on one batch, as its ``eval`` takes it for all."""

    def __init__(self, folder: Path, network: CNN, batch_size: int) -> None:
        self.task_name, self.network, self.batch_size = "MNIST", network, batch_size
        self.image_train, self.image_test = (self._images(folder, part) for part in ("train", "t10k"))
        self.target_train, self.target_test = (
            jnp.asarray(idx(folder, f"{part}-labels-idx1-ubyte"), jnp.int32) for part in ("train", "t10k")
        )
        self._logits = jax.jit(network.apply)

    @staticmethod
    def _images(folder: Path, part: str) -> Array:
        pixels = idx(folder, f"{part}-images-idx3-ubyte").reshape(-1, 28, 28, 1)
        return (jnp.asarray(pixels, jnp.float32) / 255 - MEAN) / DEVIATION

    def losses(self, key: Array, members: Any, images: Array, labels: Array) -> Array:
        """Mean cross-entropy (P,) of all members on one batch of the images given."""
        for_batch, for_network = jax.random.split(key)
        images, labels = self._sample_batch(for_batch, images, labels)

        def loss(member: Any) -> Array:
            logits = self.network.apply(member, images, for_network)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        return lax.map(loss, members)

    def accuracy(self, solution: Any) -> float:
        """Share of all test images."""
        batches = zip(jnp.split(self.image_test, 10), jnp.split(self.target_test, 10), strict=True)
        return float(jnp.mean(jnp.array([(self._logits(solution, x, None).argmax(-1) == y).mean() for x, y in batches])))


def main() -> None:
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with MNIST/raw")
    parser.add_argument("--seconds", type=float, default=460, help="no generation begins later (460)")
    parser.add_argument("--every", type=int, default=32, help="generations between looks (32, the example's)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--population", type=int, default=256, help="members of a generation (256, the example's)")
    parser.add_argument("--batch-size", type=int, default=1024, help="images that they are scored on (1,024, the example's)")
    typed = parser.parse_args()
    network = CNN([8, 16], [(5, 5), (5, 5)], [(1, 1), (1, 1)], [10], output_fn=identity_output_fn)
    problem = Mnist(typed.root / "MNIST" / "raw", network, typed.batch_size)
    key, for_network, for_state = jax.random.split(jax.random.key(typed.seed), 3)
    solution = problem.sample(for_network)
    rate = optax.exponential_decay(init_value=0.01, transition_steps=GENERATIONS, decay_rate=0.1)
    deviation = optax.exponential_decay(init_value=0.05, transition_steps=GENERATIONS, decay_rate=0.2)
    strategy = Open_ES(typed.population, solution, optimizer=optax.adam(learning_rate=rate), std_schedule=deviation)
    params = strategy.default_params
    state = strategy.init(for_state, solution, params)

    def step(state: Any, key: Array, images: Array, labels: Array) -> Any:
        for_ask, for_losses, for_tell = jax.random.split(key, 3)
        members, state = strategy.ask(for_ask, state, params)
        losses = problem.losses(for_losses, members, images, labels)
        return strategy.tell(for_tell, members, losses, state, params)[0]

    data = problem.image_train, problem.target_train  # arguments, for what a compiled function closes over is folded
    compiled = jax.jit(step, donate_argnums=0)
    for generation in range(1, GENERATIONS + 1):
        state = jax.block_until_ready(compiled(state, jax.random.fold_in(key, generation), *data))
        seconds = time.perf_counter() - began
        if generation % typed.every == 0 or seconds > typed.seconds or generation == GENERATIONS:
            row = {"seconds": round(seconds, 1), "generation": generation, "accuracy": problem.accuracy(strategy.get_mean(state))}
            print(json.dumps(row), flush=True)
        if seconds > typed.seconds:
            break


if __name__ == "__main__":
    main()
