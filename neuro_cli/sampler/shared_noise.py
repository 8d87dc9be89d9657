"""Noise reuse: directions share one draw of noise, and each changes it by its own factors."""

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
    """Noise of one address for all its directions: drawn once and cached while in use. Thread-safe."""

    def __init__(self, noise: Noise) -> None:
        self._noise, self._lock = noise, threading.Lock()
        self._kept: OrderedDict[Address, tuple[Tensor, dict[Any, Tensor]]] = OrderedDict()

    def prepare(self, address: Address) -> None:
        """Draw the noise by all threads. A task of the pool must not call this, or it would wait for itself."""
        if address not in self._kept:
            self._keep(address, self._noise.draw_whole(address.generation, address.period, SHARED_STREAM))

    def flat(self, address: Address) -> Tensor:
        """Return the shared noise (M,) float32."""
        return self._entry(address)[0]

    def part(self, address: Address, start: int, stop: int) -> Tensor:
        """Return columns [start, stop) of :meth:`flat`, drawn alone where the rest is not in use."""
        with self._lock:
            entry = self._kept.get(address)
        if entry is not None:
            return entry[0][start:stop]
        return self._noise.draw(address.generation, [address.period], start, stop, SHARED_STREAM)[0]

    def weight(self, address: Address, name: Any, make: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``make`` of the noise (M,), computed once for each ``name``."""
        flat, results = self._entry(address)
        if name not in results:
            results[name] = make(flat)  # two threads may both compute it, with the same numbers
        return results[name]

    def _entry(self, address: Address) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            entry = self._kept.get(address)
        if entry is not None:
            return entry
        # outside the lock, so that other threads do not wait for noise that they do not use
        return self._keep(address, self._noise.draw(address.generation, [address.period], stream=SHARED_STREAM)[0])

    def _keep(self, address: Address, flat: Tensor) -> tuple[Tensor, dict[Any, Tensor]]:
        with self._lock:
            kept = self._kept.setdefault(address, (flat, {}))
            while len(self._kept) > self._noise.threads.count:  # one period a thread at most
                self._kept.popitem(last=False)
            return kept


class NoiseReusing(Structured):
    """Structured sampler with shared noise, for all directions of a generation or for each ``directions_per_noise`` of them."""

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

    @property
    def in_parts(self) -> bool:
        """Return whether shared noise is drawn where it is used, some rows at a time: all of it would be another centre."""
        return False

    def prepare(self, generation: int, directions: range) -> None:
        if self.in_parts:
            return
        period = self.period_of(directions[0])
        # each thread draws the noise of several periods as it needs it: the cache might not have room for all at once
        if period == self.period_of(directions[-1]):
            self.shared.prepare(Address(generation, period))
