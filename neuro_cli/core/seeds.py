"""Numbers derived from a run's seed: every place that needs random numbers has an address, and none a stream with a position.

    key_of          the noise of a run, its examples and its episodes: Philox addresses (``core.noise``)
    number_seed     what is addressed by numbers and drawn by torch: members of an ensemble, their dropout
    numbers_of      what is addressed by numbers and drawn by numpy: broods of a search
    text_seed       what is addressed by a text and drawn by torch: candidates of a search
    text_address    what is addressed by a text and no seed: members of a peer, in the ledger of `neuro evolve`
    model_seed      the weights of a run's model: the seed itself below 2**32

One law would do for all of them. They differ because saved runs, searches and ledgers hold numbers drawn with each: with another
law a config gives another run. tests/core/test_seeds.py holds the bits.
"""

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

ELSEWHERE = 0x9E3779B97F4A7C15  # a seed that no script uses
GENERATORS = threading.RLock()  # all threads share torch's, numpy's and Python's: what seeds them must have them alone


def key_of(seed: int) -> tuple[int, int]:
    """Return the two 32-bit halves of a seed in [0, 2**64): the key of Philox."""
    return seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF


def number_seed(seed: int, *address: int) -> int:
    """Return a seed in [0, 2**63) for ``address``, integers >= 0, by numpy's SeedSequence.

    That takes an address and the same with zeros behind it for one: addresses of one purpose have one length.
    """
    return int(np.random.SeedSequence([seed, *address]).generate_state(1, np.uint64)[0] >> 1)


def numbers_of(seed: int, *address: int) -> np.random.Generator:
    """Return the generator of ``address``, integers >= 0, by numpy's SeedSequence."""
    return np.random.default_rng([seed, *address])


def text_seed(text: str) -> int:
    """Return a seed in [0, 2**63) for a text by SHA-256: the same in every process and on every machine, unlike ``hash``."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def text_address(text: str) -> int:
    """Return a number in [0, 2**32) for a text, by SHA-256. Little-endian, as the ledgers of earlier clusters have it."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def model_seed(seed: int) -> int:
    """Return a seed in [0, 2**63) for a run's own in [0, 2**64).

    Below 2**32 it is the seed itself. From there on it is mixed, since torch's generator of a CPU reads the lower 32 bits only.
    """
    return seed if seed < 2**32 else number_seed(seed)


def _seed(seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # networks choose streams, masks and orders by it and by Python's
    random.seed(seed)


@contextmanager
def seeded(seed: int, gpus: bool = False) -> Iterator[None]:
    """Let torch, numpy and Python draw from ``seed`` inside, and restore their generators afterwards.

    ``gpus``: for draws on GPUs too, which starts their runtime. One thread at a time.
    """
    import torch

    threads = torch.get_num_threads()
    if threads != 1:  # initial weights by a decomposition (orthogonal_) have other bits on another count of threads
        torch.set_num_threads(1)
    try:
        with GENERATORS, torch.random.fork_rng(devices=None if gpus else []):
            before = Generators()
            _seed(seed)
            try:
                yield
            finally:
                before.restore()
    finally:
        if threads != 1:
            torch.set_num_threads(threads)


class Generators:
    """State of the random generators that all threads of a process share."""

    def __init__(self) -> None:
        self._states = self._read()

    def _read(self) -> dict[str, Any]:
        import torch

        states = {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "Python": random.getstate()}
        if torch.cuda.is_initialized():
            states["CUDA"] = torch.cuda.get_rng_state()
        return states

    def moved(self) -> list[str]:
        """Return the names of the generators that were drawn from since."""
        now = self._read()
        return [name for name, state in self._states.items() if _plain(state) != _plain(now[name])]

    def drawn(self, again: Callable[[], object]) -> list[str]:
        """Return the names of the generators that ``again`` draws from; where there are any, all get back their state.

        What moved alone may be the draws of another thread. ``again`` begins in another state, as what seeds a generator itself
        leaves it each time alike.
        """
        if not self.moved():
            return []
        with seeded(ELSEWHERE):
            alone = Generators()
            again()
            names = alone.moved()
        if names:
            self.restore()
        return names

    def restore(self) -> None:
        """Set the generators back."""
        import torch

        setters: dict[str, Callable[[Any], object]] = {
            "torch": torch.set_rng_state,
            "numpy": np.random.set_state,
            "Python": random.setstate,
            "CUDA": torch.cuda.set_rng_state,
        }
        for name, state in self._states.items():
            setters[name](state)


@contextmanager
def elsewhere() -> Iterator[Generators]:
    """Return a context in which the generators begin in a state that no script leaves, and are restored in the end.

    Other threads may draw meanwhile: a script's function may wait for one that runs an Evolution.
    """

    with GENERATORS:
        before = Generators()
        _seed(ELSEWHERE)
        began = Generators()
    try:
        yield began
    finally:
        with GENERATORS:
            before.restore()


def _plain(state: Any) -> Any:
    """Return the state of a generator as values that compare fast."""
    if not isinstance(state, tuple):
        return state.numpy().tobytes()
    _, *rest = state
    return (rest[0].tobytes(), *rest[1:]) if isinstance(rest[0], np.ndarray) else state
