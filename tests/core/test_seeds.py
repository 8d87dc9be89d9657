"""Numbers derived from a seed: saved runs, searches and ledgers depend on these bits."""

import random
import threading

import numpy as np
import pytest
import torch

from neuro_cli.core.seeds import key_of, model_seed, number_seed, numbers_of, seeded, text_address, text_seed

LARGEST = 2**64 - 1


@pytest.mark.parametrize(
    ("derived", "value"),
    [
        (key_of(LARGEST - 1), (0xFFFFFFFE, 0xFFFFFFFF)),
        (number_seed(7, 3), 2530781778362038830),
        (number_seed(LARGEST, 3, 5, 1), 1058127677640774785),
        (numbers_of(7, 3, 0).integers(0, 2**32, 2).tolist(), [3126384070, 4187737225]),
        (text_seed("7: 3x3 1x1"), 7692342187236987818),
        (text_address("peer 12"), 446903334),
        (model_seed(5), 5),
        (model_seed(2**32 - 1), 2**32 - 1),
        (model_seed(LARGEST), number_seed(LARGEST)),
    ],
)
def test_derived_numbers_are_those_of_saved_runs(derived, value):
    assert derived == value


def test_torch_draws_from_the_seed_inside_and_goes_on_outside():
    torch.manual_seed(1)
    first, second = torch.rand(2).tolist()
    torch.manual_seed(1)
    assert torch.rand(1).item() == first
    with seeded(5):
        assert torch.rand(2).tolist() == [0.8302518725395203, 0.12611091136932373]
    assert torch.rand(1).item() == second


def test_numpy_and_python_draw_from_the_seed_inside_and_continue_outside():
    """Networks choose streams, masks and orders by them, so that a run, its resume and each rank must draw the same."""
    np.random.seed(1)
    random.seed(1)
    outside = np.random.rand(), random.random()
    np.random.seed(1)
    random.seed(1)
    inside = []
    for _ in range(2):
        with seeded(2**40 + 5):
            inside.append((np.random.rand(), random.random()))
    assert inside[0] == inside[1] != outside
    assert (np.random.rand(), random.random()) == outside


def test_seeds_that_differ_above_32_bits_give_other_weights():
    """The engine of a CPU reads the lower 32 bits: without mixing the two would be one stream."""
    assert torch.equal(drawn(5), drawn(5 + 2**32))
    assert not torch.equal(drawn(model_seed(5)), drawn(model_seed(5 + 2**32)))


def test_weights_by_a_decomposition_have_the_same_bits_on_any_thread_count():
    weights, threads = [], torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            with seeded(1):
                weights.append(torch.nn.init.orthogonal_(torch.empty(300, 300)))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*weights)


def drawn(seed: int) -> torch.Tensor:
    """Return numbers that torch draws from ``seed``."""
    with seeded(seed):
        return torch.rand(8)


def test_threads_draw_from_their_own_seeds():
    """torch has one generator for all of them."""
    found: dict[int, list[float]] = {}

    def draw(seed: int) -> None:
        with seeded(seed):
            found[seed] = [torch.rand(1).item() for _ in range(2000)]

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, numbers in found.items():
        with seeded(seed):
            assert [torch.rand(1).item() for _ in range(2000)] == numbers
