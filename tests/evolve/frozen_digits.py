"""Classifier of the digits whose first layer is a base that stays as it is."""

from torch import Tensor, nn


class FrozenDigits(nn.Module):
    def __init__(self, hidden: int = 6) -> None:
        super().__init__()
        self.base, self.head = nn.Linear(64, hidden), nn.Linear(hidden, 10)
        self.base.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        made: Tensor = self.head(self.base(images.flatten(1)).relu())
        return made
