"""Classification on made-up data: addressing of batches, scores against plain arithmetic, errors."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from support.made_data import load
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.noise import random_permutation
from neuro_cli.task.base import Batch
from neuro_cli.task.classification import Classification, Data, Split

N, TEST, CLASSES, SHAPE = 10, 23, 3, (2, 3, 4)
MEAN, STD = (0.25, 0.5), (0.3, 0.2)


class Made(Classification):
    """Every training image is filled with its own index, so a batch tells which examples it holds."""

    name = "made"

    def __init__(self, fitness="negative_cross_entropy", evaluation_batch=5, **change):
        super().__init__(fitness, evaluation_batch)
        self.change = change

    def read(self, input_shape):
        train = torch.arange(N, dtype=torch.uint8).view(N, 1, 1, 1).expand(N, *SHAPE)
        test = torch.randint(0, 256, (TEST, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
        parts = {
            "train": Split(train, torch.arange(N) % CLASSES),
            "test": Split(test, torch.arange(TEST) % CLASSES),
            "mean": MEAN,
            "std": STD,
            "classes": CLASSES,
        }
        return Data(**{**parts, **self.change})


def which(batch: Batch) -> list[int]:
    levels = (batch.inputs[:, 0, 0, 0].double() * STD[0] + MEAN[0]) * 255
    return levels.round().int().tolist()


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, CLASSES))


def plain(network, images, targets):
    """Correct examples and summed cross-entropy, in float64 all the way."""
    mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (MEAN, STD))
    with torch.no_grad():
        logits = network.double()((images.double() / 255 - mean) / std)
    network.float()
    loss = logits.logsumexp(1) - logits[torch.arange(len(targets)), targets]
    return (logits.argmax(1) == targets).sum().item(), loss.sum().item()


def test_inputs_are_normalised_float32_in_channels_last_memory():
    batch = load(Made()).batch(0, 0, 4)
    assert batch.inputs.shape == (4, *SHAPE)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.stride()[1] == 1
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    index = torch.tensor(which(batch)).view(4, 1, 1, 1)
    expected = (index / 255 - torch.tensor(MEAN).view(2, 1, 1)) / torch.tensor(STD).view(2, 1, 1)
    torch.testing.assert_close(batch.inputs, expected.expand(4, *SHAPE))
    assert batch.targets.dtype == torch.int64
    assert (batch.targets == index.flatten() % CLASSES).all()


@pytest.mark.parametrize("cuts", [(0, 7), (0, 3, 7), (0, 1, 1, 6, 7), tuple(range(8))])
@pytest.mark.parametrize("generation", [0, 1, 12])
def test_a_batch_is_the_same_whatever_the_split(generation, cuts):
    whole = load(Made(), batch_size=7).batch(generation, 0, 7)
    task = load(Made(), batch_size=7)
    pieces = [task.batch(generation, a, b) for a, b in pairwise(cuts)]
    assert torch.equal(torch.cat([piece.inputs for piece in pieces]), whole.inputs)
    assert torch.equal(torch.cat([piece.targets for piece in pieces]), whole.targets)


@pytest.mark.parametrize("batch_size", [1, 3, 5, 7, N])
def test_each_epoch_is_the_addressed_permutation(batch_size):
    task = load(Made(), batch_size=batch_size, seed=9)
    generations = -(-3 * N // batch_size)
    order = [index for g in range(generations) for index in which(task.batch(g, 0, batch_size))]
    for epoch in range(3):
        part = order[epoch * N : (epoch + 1) * N]
        assert sorted(part) == list(range(N))
        assert part == random_permutation(9, epoch, N).tolist()


def test_the_order_depends_on_the_seed_alone():
    torch.manual_seed(1)
    first = which(load(Made(), batch_size=N, seed=5).batch(4, 0, N))
    state = torch.get_rng_state()
    task = load(Made(), batch_size=N, seed=5)
    task.batch(90, 0, N)
    assert which(task.batch(4, 0, N)) == first
    assert which(load(Made(), batch_size=N, seed=6).batch(4, 0, N)) != first
    assert torch.equal(torch.get_rng_state(), state)


def test_threads_get_the_same_batches():
    task, alone = load(Made(), batch_size=7), load(Made(), batch_size=7)
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda generation: task.batch(generation, 0, 7), range(60)))
    assert all(torch.equal(batch.inputs, alone.batch(g, 0, 7).inputs) for g, batch in enumerate(batches))


def test_score_equals_plain_float64(network):
    task = load(Made(), batch_size=7)
    batch = task.batch(2, 0, 7)
    images = torch.tensor(which(batch)).view(-1, 1, 1, 1).expand(-1, *SHAPE)
    correct, loss = plain(network, images, batch.targets)
    assert task.score_names == ("fitness",)
    scores = task.score(network, batch)
    assert scores.dtype == np.float64
    assert scores == pytest.approx([-loss], rel=1e-6)

    by_accuracy = load(Made("accuracy"), batch_size=7)
    assert by_accuracy.score_names == ("fitness", "loss")
    assert by_accuracy.score(network, batch) == pytest.approx([correct, loss], rel=1e-6)


def test_scores_of_pieces_add_up_and_an_empty_piece_is_nothing(network):
    task = load(Made("accuracy"), batch_size=7)
    whole = task.score(network, task.batch(0, 0, 7))
    pieces = sum(task.score(network, task.batch(0, a, b)) for a, b in ((0, 3), (3, 3), (3, 7)))
    assert pieces == pytest.approx(whole, rel=1e-6)


def test_bfloat16_logits_are_scored_in_float32(network):
    task = load(Made())
    batch = task.batch(0, 0, 4)
    logits = network.to(torch.bfloat16)(batch.to(torch.bfloat16).inputs)
    assert logits.dtype == torch.bfloat16
    expected = -nn.functional.cross_entropy(logits.double(), batch.targets, reduction="sum").item()
    assert task.score(network, batch.to(torch.bfloat16)) == pytest.approx([expected], rel=1e-6)


def test_score_records_no_gradient_and_loss_does(network):
    task = load(Made())
    batch = task.batch(0, 0, 4)
    task.score(network, batch)
    task.loss(network, batch).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    assert task.loss(network, batch).item() == pytest.approx(-task.score(network, batch)[0] / 4, rel=1e-6)


def test_a_candidate_that_gives_no_numbers_guesses_nothing_right():
    batch = Batch(torch.zeros(3, *SHAPE), torch.zeros(3, dtype=torch.int64))
    correct, loss = load(Made("accuracy")).score(lambda images: torch.full((3, CLASSES), torch.nan), batch)
    assert correct == 0
    assert np.isnan(loss)


@pytest.mark.parametrize("evaluation_batch", [1, 5, TEST, 500])
def test_evaluation_chunks_sum_to_the_whole_test_set(network, evaluation_batch):
    task = load(Made(evaluation_batch=evaluation_batch))
    assert task.evaluation_chunks == -(-TEST // evaluation_batch)
    sums = sum(task.evaluate_chunk(network, chunk) for chunk in range(task.evaluation_chunks))
    correct, loss = plain(network, task.read(None).test.images, task.read(None).test.targets)
    expected = {"test_accuracy": correct / TEST, "test_loss": loss / TEST}
    assert task.summarise(sums) == pytest.approx(expected, rel=1e-6)


def test_more_logits_than_classes_are_allowed_and_fewer_are_not():
    task = load(Made())
    batch = task.batch(0, 0, 4)
    task.score(nn.Sequential(nn.Flatten(), nn.Linear(24, 9)), batch)
    for module, got in ((nn.Linear(24, 2), "4x2"), (nn.Unflatten(1, (4, 6)), "4x4x6")):
        with pytest.raises(UserError, match=rf"^model: .* is {got}, task=made needs 4x3 logits$"):
            task.score(nn.Sequential(nn.Flatten(), module), batch)
    with pytest.raises(UserError, match="is tuple, task=made"):
        task.score(lambda images: (images,), batch)


BLANK = torch.zeros(4, *SHAPE, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("change", "arguments", "text"),
    [
        ({}, {"input_shape": (1, 28, 28)}, "model expects 1x28x28, task=made gives 2x3x4"),
        ({}, {"input_shape": (24,)}, "model expects 24, task=made gives 2x3x4"),
        ({}, {"batch_size": N + 1}, "batch_size=11: task=made has 10 training examples"),
        ({}, {"batch_size": 0}, "batch_size=0: must be an integer >= 1"),
        ({"classes": 2}, {}, "task=made: training target 2 is none of the classes 0 to 1"),
        ({"test": Split(BLANK, torch.tensor([0, 1, -1, 2]))}, {}, "task=made: test target -1 is none of the classes 0 to 2"),
        ({"test": Split(BLANK, torch.zeros(3).long())}, {}, "task=made: 4 test images with 3 targets"),
        ({"train": Split(BLANK[:0], torch.zeros(0).long())}, {}, "task=made: 0 training images with 0 targets"),
        ({"test": Split(BLANK[:, :1], torch.zeros(4).long())}, {}, "task=made: test images are 1x3x4"),
    ],
)
def test_bad_data_and_shapes_are_named(change, arguments, text):
    with pytest.raises(UserError, match="^" + re.escape(text)):
        load(Made(**change), **arguments)
