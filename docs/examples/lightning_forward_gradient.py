"""Lightning by forward passes alone: python lightning_forward_gradient.py EPOCHS (needs pip install lightning)."""

import sys

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import neuro_cli as neuro


class Classifier(lightning.LightningModule):
    """A small network that Lightning trains without ``manual_backward``."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.losses = nn.CrossEntropyLoss(reduction="none")
        self.estimate = neuro.ForwardGradient(self.model)
        self.total = 0.0

    def training_step(self, batch: list[torch.Tensor], index: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.total += float(self.estimate.backward(self.losses, *batch))
        optimizer.step()

    def on_train_epoch_end(self) -> None:
        print(f"epoch {self.current_epoch + 1}: loss {self.total / self.trainer.num_training_batches:.3f}")
        self.total = 0.0

    def on_save_checkpoint(self, checkpoint: dict) -> None:
        checkpoint["estimate"] = self.estimate.state_dict()

    def on_load_checkpoint(self, checkpoint: dict) -> None:
        self.estimate.load_state_dict(checkpoint["estimate"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.003)


images, classes = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(classes))
torch.manual_seed(1)
trainer = lightning.Trainer(
    max_epochs=int(sys.argv[1]), accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False
)
trainer.fit(Classifier(), DataLoader(data, 64, shuffle=True))
