"""A small network on MNIST, trained by forward passes alone: python mnist_forward_gradient.py DATA EPOCHS."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
from torchvision.transforms import Compose, Normalize, ToTensor

import neuro_cli as neuro

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
losses = nn.CrossEntropyLoss(reduction="none")
estimate = neuro.ForwardGradient(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(epochs):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = estimate.backward(losses, inputs, targets)
        optimizer.step()
    with torch.no_grad():
        correct = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in test)
    print(f"epoch {epoch + 1}: {correct / len(test.dataset):.2%} of the test images are right")
torch.save(model.state_dict(), "mnist.pt")
