"""A small network on MNIST, trained by back-propagation: python mnist_backprop.py DATA EPOCHS."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
from torchvision.transforms import Compose, Normalize, ToTensor

data, epochs = sys.argv[1], int(sys.argv[2])
images = Compose([ToTensor(), Normalize(0.1307, 0.3081)])
generator = torch.Generator().manual_seed(1)
train = DataLoader(MNIST(data, train=True, transform=images), 256, shuffle=True, generator=generator)
test = DataLoader(MNIST(data, train=False, transform=images), 1000)

torch.manual_seed(1)
model = nn.Sequential(
    *(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU()),
    *(nn.Flatten(), nn.Linear(256, 10)),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(epochs):
    for inputs, targets in train:
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        correct = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in test)
    print(f"epoch {epoch + 1}: {correct / len(test.dataset):.2%} of the test images are right")
torch.save(model.state_dict(), "mnist.pt")
