"""MNIST by evosax's own example, examples/03_vision.ipynb: its network, strategy and schedules, by the clock of a CPU.

A CNN of 128,874 parameters, Open_ES with 256 members on 1,024 images, 512 generations. Every few generations the strategy's
mean is scored on all 10,000 test images (the example takes 1,024 of them at random), and a line of CSV says generation,
seconds since this program began (imports, data and compilation count) and accuracy.

    python -m venv outputs/peers/evosax_mnist
    outputs/peers/evosax_mnist/bin/pip install "evosax>=0.3.2" jax flax optax torch torchvision
    outputs/peers/evosax_mnist/bin/python scripts/peers/evosax_mnist.py --root data --minutes 7
"""

import time

BEGUN = time.perf_counter()

import argparse  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

import jax  # noqa: E402
import optax  # noqa: E402
from evosax.algorithms import Open_ES  # noqa: E402
from evosax.problems import CNN, TorchVisionProblem, identity_output_fn  # noqa: E402
from jax import Array  # noqa: E402

GENERATIONS, MEMBERS, IMAGES = 512, 256, 1024


def problem_on(root: Path, network: CNN) -> TorchVisionProblem:
    """The example's problem, which reads its images from ``~/data``: here that is ``root``."""
    with tempfile.TemporaryDirectory() as home:
        Path(home, "data").symlink_to(root.resolve())
        before = os.environ.get("HOME")
        os.environ["HOME"] = home
        try:
            return TorchVisionProblem(task_name="MNIST", network=network, batch_size=IMAGES)
        finally:
            if before is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with torchvision's MNIST/raw")
    parser.add_argument("--minutes", type=float, default=7.0, help="no generation begins later (7)")
    parser.add_argument("--every", type=int, default=2, help="generations from one look at the test images to the next (2)")
    parser.add_argument("--seed", type=int, default=0)
    typed = parser.parse_args()
    layers = {"num_filters": [8, 16], "kernel_sizes": [(5, 5), (5, 5)], "strides": [(1, 1), (1, 1)], "mlp_layer_sizes": [10]}
    network = CNN(**layers, output_fn=identity_output_fn)
    problem = problem_on(typed.root, network)
    key = jax.random.key(typed.seed)
    key, for_problem, for_solution, for_state = jax.random.split(key, 4)
    problem_state, solution = problem.init(for_problem), problem.sample(for_solution)
    strategy = Open_ES(
        population_size=MEMBERS,
        solution=solution,
        optimizer=optax.adam(optax.exponential_decay(0.01, GENERATIONS, 0.1)),
        std_schedule=optax.exponential_decay(0.05, GENERATIONS, 0.2),
    )
    params = strategy.default_params
    state = strategy.init(for_state, solution, params)

    @jax.jit
    def generation(key: Array, state, problem_state):  # type: ignore[no-untyped-def]
        for_ask, for_eval, for_tell = jax.random.split(key, 3)
        population, state = strategy.ask(for_ask, state, params)
        fitness, problem_state, _ = problem.eval(for_eval, population, problem_state)
        state, _ = strategy.tell(for_tell, population, fitness, state, params)
        return state, problem_state

    @jax.jit
    def accuracy(state):  # type: ignore[no-untyped-def]
        logits = network.apply(strategy.get_mean(state), problem.image_test, None)
        return (logits.argmax(-1) == problem.target_test).mean()

    print("generation,seconds,test_accuracy", flush=True)
    for done in range(1, GENERATIONS + 1):
        if time.perf_counter() - BEGUN > 60 * typed.minutes:
            break
        key, for_generation = jax.random.split(key)
        state, problem_state = generation(for_generation, state, problem_state)
        if done % typed.every == 0:
            share = float(accuracy(state))
            print(f"{done},{time.perf_counter() - BEGUN:.1f},{share:.4f}", flush=True)


if __name__ == "__main__":
    main()
