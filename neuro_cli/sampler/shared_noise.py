"""Noise reuse: directions that share one draw of noise, which each of them changes by factors of its own."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.noise import SHARED_STREAM, Noise
from neuro_cli.sampler.blocks import Address
from neuro_cli.sampler.structured import Structured


class SharedNoise:
    """Noise of one address for all its directions: drawn once, kept while in use. Thread-safe."""

    def __init__(self, noise: Noise) -> None:
        self._noise, self._lock = noise, threading.Lock()
        self._kept: OrderedDict[Address, tuple[Tensor, dict[Any, Tensor]]] = OrderedDict()

    def prepare(self, address: Address) -> None:
        """Draw the noise with all threads. Not for a task of the pool, which would wait for itself."""
        if address not in self._kept:
            self._keep(address, self._noise.draw_whole(address.generation, address.period, SHARED_STREAM))

    def flat(self, address: Address) -> Tensor:
        """The noise (M,) float32."""
        return self._entry(address)[0]

    def weight(self, address: Address, name: Any, make: Callable[[Tensor], Tensor]) -> Tensor:
        """The outcome of ``make`` on the noise (M,), worked out once for each ``name``."""
        flat, made = self._entry(address)
        if name not in made:
            made[name] = make(flat)  # two threads may both make it: the same numbers
        return made[name]

    def _entry(self, address: Address) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            found = self._kept.get(address)
        if found is not None:
            return found
        # drawn outside of the lock, which would let other threads wait for noise that is not theirs
        return self._keep(address, self._noise.draw(address.generation, [address.period], stream=SHARED_STREAM)[0])

    def _keep(self, address: Address, flat: Tensor) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            kept = self._kept.setdefault(address, (flat, {}))
            while len(self._kept) > self._noise.threads.count:  # a period for each thread at most
                self._kept.popitem(last=False)
            return kept


class NoiseReusing(Structured):
    """Structured sampler with shared noise: one for all directions of a generation, or for each ``directions_per_noise``."""

    def __init__(self, directions_per_noise: int | None, antithetic: bool) -> None:
        super().__init__(antithetic)
        if directions_per_noise is not None:
            integer("sampler.directions_per_noise", directions_per_noise, 1)
        self._directions_per_noise = directions_per_noise

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        self.shared = SharedNoise(noise)

    @property
    def noise_period(self) -> int | None:
        return self._directions_per_noise

    def prepare(self, generation: int, directions: range) -> None:
        period = self.period_of(directions[0])
        # over several periods each thread draws what it meets: all of them at once might be more than is kept
        if period == self.period_of(directions[-1]):
            self.shared.prepare(Address(generation, period))
