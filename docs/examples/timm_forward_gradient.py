"""A model of timm on a folder of images by forward passes alone: python timm_forward_gradient.py NAME FOLDER EPOCHS.

FOLDER has train/<class>/ and test/<class>/ (needs pip install timm).
"""

import sys
from pathlib import Path

import timm
import torch
from timm.data import create_transform
from torch import nn
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

import neuro_cli as neuro

name, folder, epochs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
SIZE = (3, 32, 32)
train = ImageFolder(folder / "train", create_transform(SIZE, is_training=True, scale=(0.6, 1.0)))
test = ImageFolder(folder / "test", create_transform(SIZE, crop_pct=1.0))
torch.manual_seed(1)
model = timm.create_model(name, num_classes=len(train.classes))
loader = DataLoader(train, 64, shuffle=True, drop_last=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
losses = nn.CrossEntropyLoss(reduction="none")
estimate = neuro.ForwardGradient(model)

for epoch in range(1, epochs + 1):
    total = 0.0
    for images, classes in loader:
        loss = estimate.backward(losses, images, classes)  # in place of losses(model(images), classes).mean() and its backward()
        optimizer.step()
        optimizer.zero_grad()
        total += float(loss)
    print(f"epoch {epoch}: loss {total / len(loader):.3f}")

# batch norm kept no statistics during training
update_bn(loader, model)
model.eval()
with torch.no_grad():
    right = sum(int((model(images).argmax(1) == classes).sum()) for images, classes in DataLoader(test, 256))
print(f"test accuracy {right / len(test):.4f}")
