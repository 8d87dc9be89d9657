"""Passes that name places in a parameter's memory: a member's parameter begins its memory, as that of the user's module does."""

import pytest
import torch
from torch import nn

import neuro_cli as neuro


class Toeplitz(nn.Module):
    """Matrix [[w1, w2], [w2, w3]] of a parameter w; another parameter lies before it."""

    def __init__(self):
        super().__init__()
        self.shift, self.w = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(4))

    def matrix(self):
        return self.w.as_strided((2, 2), (1, 1), 1)

    def forward(self, x):
        return x @ self.matrix() + self.shift.sum()


@pytest.mark.parametrize("shared_pass", [False, True])
def test_a_member_has_the_places_of_its_own_parameter(shared_pass):
    x, found = torch.randn(5, 2), []
    es = neuro.Evolution(Toeplitz(), population=4, sampler="iid", sigma=0.1, threads=1, shared_pass=shared_pass)
    vectors = es.ask().vectors
    shift, w = vectors[:, :3], vectors[:, 3:]
    matrices = torch.stack([torch.stack([w[:, 1], w[:, 2]], 1), torch.stack([w[:, 2], w[:, 3]], 1)], 1)
    wanted = (x @ matrices).sum((1, 2)) + 10 * shift.sum(1)
    for candidate in es.ask():
        found.append(candidate(x).sum())
    torch.testing.assert_close(torch.stack(found), wanted)
    report = es.step(lambda member: member(x).sum())
    assert report.fitness_mean == pytest.approx(float(wanted.mean()), abs=1e-4)
    again = neuro.Evolution(Toeplitz(), population=4, sampler="iid", sigma=0.1, threads=1)
    again.module.load_state_dict(es.module.state_dict())
    module = again.module
    expected = x @ torch.stack([torch.stack([module.w[1], module.w[2]]), torch.stack([module.w[2], module.w[3]])])
    torch.testing.assert_close(module(x), expected + module.shift.sum())


class Repeated(nn.Module):
    """As many products by one layer as the numbers need, then one by a layer of other sizes."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(6):
            new = torch.tanh(0.3 * self.inner(z) + x)
            if torch.allclose(new, z, rtol=0, atol=0.02):
                break
            z = new
        return self.head(z)


def test_noise_on_activations_of_as_many_calls_as_the_numbers_need():
    """Another number of calls meets noise of another layer's sizes, or another function: one line instead of torch's error."""
    torch.manual_seed(0)
    module, x, y = Repeated(), 0.5 * torch.randn(8, 4), torch.randint(0, 3, (8,))
    loss = torch.nn.functional.cross_entropy
    estimate = neuro.ForwardGradient(module, seed=1, threads=1, sigma=3.0)
    with pytest.raises(neuro.ConfigError, match="sampler=activation: Repeated: its calls of torch differ from pass to pass"):
        estimate.backward(lambda out, target: loss(out, target, reduction="none"), x, y)
    estimate = neuro.ForwardGradient(module, seed=1, threads=1, sigma=0.01)
    estimate.backward(lambda out, target: loss(out, target, reduction="none"), x, y)
    assert all(parameter.grad.isfinite().all() for parameter in module.head.parameters())
