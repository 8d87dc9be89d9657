"""Member of an ensemble: a network and its optimizer, whose backward pass waits for the other members' logits.

With ``staleness`` s a member runs forward on up to s later minibatches before it learns from one, as in pipelined training:
a minibatch's gradient belongs to the parameters of its forward pass, s updates old. Each pass in flight has a copy of those
parameters for its backward pass (weight stashing: Harlap et al. 2018, "PipeDream", section 3.3).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from neuro_cli.algo.base import State
from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.core.module.copies import copied
from neuro_cli.core.seeds import number_seed, seeded


class Member:
    """Network of an ensemble in training, ``module``, in place. Legend: B examples, K classes. ``staleness`` >= 0."""

    def __init__(self, number: int, kind: str, module: nn.Module, optimizer: ScheduledOptimizer, seed: int, staleness: int = 0):
        self.number, self.kind, self.module = number, kind, module.train()
        self._optimizer, self._seed = optimizer, seed
        self._draws = any(isinstance(part, _DropoutNd) and part.p > 0 for part in module.modules())
        # pass t works in copy t mod (s + 1); without staleness in the module itself
        self._copies = [copied(self.module) for _ in range(staleness + 1)] if staleness else []
        self._logits: dict[tuple[int, int], Tensor] = {}  # key: iteration, and piece of its minibatch
        self._buffers: dict[int, dict[str, Tensor]] = {}  # values before the passes in flight
        self._restored: dict[int, dict[str, Tensor]] = {}  # parameters at the start of passes that were in flight at a checkpoint

    def graph(self, iteration: int, inputs: Tensor, piece: int = 0) -> Tensor:
        """Compute the logits (B, K) of an iteration's minibatch, or a ``piece`` of it, as part of autograd's graph."""
        module = self._workspace(iteration)
        with self._addressed(iteration, piece):
            logits: Tensor = module(inputs)
        if module is not self.module:
            _copy(dict(module.named_buffers()), dict(self.module.named_buffers()))
        return logits

    def forward(self, iteration: int, inputs: Tensor, piece: int = 0) -> Tensor:
        """Compute the same logits (B, K), detached, and keep the graph for the backward pass."""
        logits = self._logits[iteration, piece] = self.graph(iteration, inputs, piece)
        return logits.detach()

    def back(self, iteration: int, gradient: Tensor, piece: int = 0) -> None:
        """Back-propagate dL/df (B, K) of a forward pass; the gradients of several pieces add up."""
        self._logits.pop((iteration, piece)).backward(gradient)
        if self._copies:
            self._buffers.pop(iteration)
            module = self._copies[iteration % len(self._copies)]
            for live, stale in zip(self.module.parameters(), module.parameters(), strict=True):
                live.grad, stale.grad = stale.grad, None

    def step(self, iteration: int) -> None:
        """Step the member's optimizer along the parameters' gradients, with the iteration's learning rate."""
        self._optimizer.step(iteration)

    def learn(self, iteration: int, gradient: Tensor) -> None:
        """Back-propagate the ensemble's gradient through the member, then step its optimizer."""
        self.back(iteration, gradient)
        self.step(iteration)

    def shared(self) -> list[tuple[Tensor, bool]]:
        """Return the tensors that ranks with shares of the minibatch add up: gradients (False), and averaged buffers (True)."""
        gradients = [(parameter.grad, False) for parameter in self.module.parameters() if parameter.grad is not None]
        dense = (buffer for buffer in self.module.buffers() if buffer.layout is torch.strided)
        return gradients + [(buffer, True) for buffer in dense if buffer.is_floating_point()]

    def forget(self) -> None:
        """Drop the member's passes in flight."""
        for passes in (self._logits, self._buffers, self._restored):
            passes.clear()

    def _workspace(self, iteration: int) -> nn.Module:
        if not self._copies:
            return self.module
        module = self._copies[iteration % len(self._copies)]
        restored = iteration in self._restored
        _copy(self._restored.pop(iteration) if restored else numbers_of(self.module), numbers_of(module))
        self._buffers[iteration] = {name: buffer.clone() for name, buffer in module.named_buffers()}
        return module

    @contextmanager
    def _addressed(self, iteration: int, piece: int) -> Iterator[None]:
        """Seed dropout by (seed, member, iteration, piece), independent of the rank that runs the member and of earlier draws."""
        if not self._draws:
            yield
            return
        with seeded(number_seed(self._seed, self.number, iteration, piece), gpus=True):
            yield

    def rate_at(self, iteration: int) -> float:
        """Return the learning rate of the member in an iteration."""
        return self._optimizer.rate_at(iteration)

    def state(self) -> State:
        """Return parameters and buffers (``model.<name>``), optimizer state, passes in flight (``flight.<iteration>.<name>``).

        Most tensors are live: write or copy them before the next step.
        """
        state = self._optimizer.state(live=True)
        state.tensors |= {f"model.{name}": tensor for name, tensor in numbers_of(self.module).items()}
        flights = dict(self._restored)
        for iteration, buffers in self._buffers.items():
            flights[iteration] = numbers_of(self._copies[iteration % len(self._copies)]) | buffers
        for iteration, numbers in flights.items():
            state.tensors |= {f"flight.{iteration}.{name}": tensor for name, tensor in numbers.items()}
        return state

    def restore(self, state: State) -> None:
        """Restore a :meth:`state` of the member, by copies."""
        self.forget()
        _copy(state.part("model"), numbers_of(self.module))
        for key, tensor in state.part("flight").items():
            iteration, name = key.split(".", 1)
            self._restored.setdefault(int(iteration), {})[name] = tensor.clone()
        self._optimizer.restore(state)


def numbers_of(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, without their graphs; sparse ones are constants."""
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: tensor.detach() for name, tensor in named if tensor.layout is torch.strided}


def _copy(source: dict[str, Tensor], target: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(source[name])
