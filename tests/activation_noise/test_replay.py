"""Passes that replay recorded calls give the bits of passes that run the module, and step aside where Python reads numbers."""

import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise.recording import clean_pass
from neuro_cli.activation_noise.recording.calls import Call
from neuro_cli.activation_noise.recording.replay import replay

cross_entropy = partial(F.cross_entropy, reduction="none")


class Branches(nn.Module):
    """Answers by a number of its examples, read in Python: ``how``."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.last, self.how = nn.Linear(6, 6), nn.Linear(6, 3), how

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.how == "bool":
            scale = 2.0 if hidden.sum() > 0 else 0.5
        elif self.how == "item":
            scale = hidden.abs().max().item()
        elif self.how == "numpy":
            scale = float(hidden.detach().numpy().std())
        else:
            scale = len(hidden.nonzero()) / hidden.numel()
        return self.last(torch.tanh(hidden * scale))


class Shapes(nn.Module):
    """Reads sizes, writes into a view, splits and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.first(x).view(len(x), 2, -1).unbind(1)
        assert left.shape == right.shape
        return self.last(torch.cat([left.relu(), right.sigmoid()], -1) / x.size(-1))


MODELS = {
    "chain": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    "norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
    "shapes": Shapes,
    **{how: partial(Branches, how) for how in ("bool", "item", "numpy", "count")},
}


@pytest.mark.parametrize("control_variates", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_replayed_and_complete_passes_have_the_same_gradients(name, control_variates, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    inputs, targets = torch.randn(12, 6, generator=generator), torch.randint(3, (12,), generator=generator)

    def gradients() -> Tensor:
        torch.manual_seed(5)
        model = MODELS[name]()
        estimate = neuro.ForwardGradient(model, draws=2, seed=4, control_variates=control_variates, threads=1)
        for _ in range(2):
            estimate.backward(cross_entropy, inputs, targets)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    replayed = gradients()
    monkeypatch.setattr(clean_pass, "replayable", lambda calls: False)
    assert torch.equal(replayed, gradients())


class Returned(nn.Module):
    """Writes in place and goes on with what the calls return, as torchvision's ResNets do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.inner, self.last = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.first(x)), inplace=True)
        out = self.inner(hidden)
        out += hidden
        return self.last(F.dropout(F.hardswish(out.mul_(2.0).clamp_(-3, 3), inplace=True), 0.2, self.training, inplace=True))


class Kept(Returned):
    """Reads the overwritten tensor itself."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        made = torch.relu_(hidden)
        return self.last(self.inner(made) + hidden)


class Viewed(Returned):
    """Reads a view of the overwritten tensor."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        half = hidden[:, :3]
        return self.last(self.inner(hidden.tanh_())) + half


class Promoted(Returned):
    """Adds float64 to float32 in place, which stays float32."""

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        hidden += torch.ones(6, dtype=torch.float64) / 3
        return self.last(self.inner(hidden))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Returned, "each pass begins at its noisy layer, 2 passes side by side"),
        (Kept, "each pass is complete"),
        (Viewed, "each pass is complete"),
    ],
)
def test_calls_in_place_are_replayed_unless_their_tensor_is_read(make, words, caplog, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    inputs, targets = torch.randn(12, 6, generator=generator), torch.randint(3, (12,), generator=generator)

    def gradients() -> Tensor:
        torch.manual_seed(5)
        model = make()
        estimate = neuro.ForwardGradient(model, draws=2, seed=4, control_variates=False, threads=1)
        estimate.backward(cross_entropy, inputs, targets)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])

    with caplog.at_level("INFO"):
        made = gradients()
    assert words in caplog.text
    monkeypatch.setattr(clean_pass, "_new_tensor", lambda name: None)
    monkeypatch.setattr(clean_pass, "_overwrites", lambda func, kwargs: False)
    caplog.clear()
    with caplog.at_level("INFO"):
        complete = gradients()
    assert "each pass is complete" in caplog.text
    assert torch.allclose(made, complete, rtol=1e-3, atol=1e-4 * float(complete.abs().max()))


def test_a_sum_of_two_types_in_place_is_not_replayed(caplog):
    """The trial, in float64, cannot see that the run's float32 tensor keeps its type."""
    torch.manual_seed(5)
    model, inputs = Promoted(), torch.randn(12, 6)
    neuro.ForwardGradient(model, threads=1).backward(cross_entropy, inputs, torch.randint(3, (12,)))
    assert "linear is overwritten: each pass is complete" in caplog.text


def test_a_deep_network_starts_with_few_passes():
    """One pass for each of its 33 layers and ways would be more than 66."""
    passes = 0

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(32)), nn.Linear(6, 3))

        def forward(self, x: Tensor) -> Tensor:
            nonlocal passes
            passes += 1
            return self.layers(x)

    model, inputs, targets = Deep(), torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    neuro.ForwardGradient(model, threads=1).backward(cross_entropy, inputs, targets)
    assert passes < 40


def test_a_list_that_grows_after_a_call_is_replayed_as_it_was():
    """Dense blocks append to the list that an earlier call joined."""
    passes = 0

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(12, 6), nn.Linear(18, 3)])

        def forward(self, x: Tensor) -> Tensor:
            nonlocal passes
            passes += 1
            made = [x]
            for layer in self.layers:
                made.append(layer(torch.cat(tensors=made, dim=1) if len(made) == 2 else torch.cat(made, 1)))
            return made[-1]

    estimate = neuro.ForwardGradient(Dense(), draws=2, control_variates=False, threads=1)
    inputs, targets = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    for _ in range(2):
        before = passes
        estimate.backward(cross_entropy, inputs, targets)
    assert passes == before + 1  # the clean pass; those with noise run the recorded calls


def test_a_new_result_is_dropped_behind_its_last_use():
    alive: list[int] = []
    made: list[weakref.ref[Tensor]] = []

    def step(*given: Tensor) -> Tensor:
        result = sum(given) + 1
        made.append(weakref.ref(result))
        alive.append(sum(each() is not None for each in made))
        return result

    results = [torch.full((2,), float(place)) for place in range(9)]
    before = [[0], [1], [2], [3], [4, 1], [5], [6], [7]]  # the second result is used again later
    calls = [Call(torch.zeros, results[0], layer=0)]
    for result, places in zip(results[1:], before, strict=True):
        given = [results[place] for place in places]
        calls.append(Call(step, result, args=given, given=[id(each) for each in given]))
    assert replay(calls, results[-1], {0: torch.ones(2)}).tolist() == [11.0, 11.0]
    assert max(alive) == 3
    assert replay(calls, results[4], {0: torch.ones(2)}).tolist() == [5.0, 5.0]  # one that later calls use
