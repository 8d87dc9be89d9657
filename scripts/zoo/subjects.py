"""Networks that nobody here wrote, one for each family, as small as their factories make them: for ``scripts/module_zoo.py``.

``make()`` makes a subject again, ``inputs(n)`` gives n examples, and ``call(module, x)`` calls the module as its library's own
examples do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Call = Callable[[nn.Module, Tensor], Any]
# package, name of its network, what makes it, its examples, how it is called
Row = tuple[str, str, Callable[[], nn.Module], Callable[[int], Tensor], Call]


class TooLargeError(ValueError):
    """A network that no argument of its factory makes small; its row of the table says so."""


def plain(module: nn.Module, x: Tensor) -> Any:
    """Call with the examples alone."""
    return module(x)


@dataclass(frozen=True)
class Subject:
    """Network of a ``family`` that stands for so many ``names`` of its zoo.

    ``model``: its name, empty: that of its class. ``shrunk``: what differs from the factory's own.
    """

    zoo: str
    family: str
    names: int
    model: str
    shrunk: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    call: Call = plain
    exact: torch.dtype = torch.float64  # type of the reference; float32 where the network takes no other


def images(*shape: int) -> Callable[[int], Tensor]:
    """Examples of normal numbers."""
    return lambda count: torch.randn(count, *shape, generator=torch.Generator().manual_seed(7))


def tokens(length: int, vocabulary: int) -> Callable[[int], Tensor]:
    """Examples of token numbers from 3 on: below stand the marks of padding and of ends."""
    return lambda count: torch.randint(3, vocabulary, (count, length), generator=torch.Generator().manual_seed(7))


def numbers(count: int) -> Tensor:
    return torch.arange(count).view(-1, 1)


def folder(package: str) -> Path:
    """The folder of an installed package."""
    return Path(str(import_module("importlib.util").find_spec(package).origin)).parent


class Through(nn.Module):
    """A package's network, called by ``function(network, x)`` where it does not take one tensor of examples."""

    def __init__(self, network: nn.Module, function: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.network, self.function = network, function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.network, x)


def zoos() -> dict[str, Callable[[], list[Subject]]]:
    """Functions that list a zoo's subjects, each of which imports its library."""
    from zoo_packages import subjects as of_packages
    from zoo_pretrained import subjects as of_pretrained
    from zoo_timm import subjects as of_timm
    from zoo_torchvision import subjects as of_torchvision
    from zoo_transformers import subjects as of_transformers

    return {
        "timm": of_timm,
        "torchvision": of_torchvision,
        "transformers": of_transformers,
        "packages": of_packages,
        "pretrained": of_pretrained,
    }
