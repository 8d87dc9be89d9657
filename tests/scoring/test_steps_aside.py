"""Scores of modules that go by the numbers of all members, keep caches, replace layers or give more than a tensor."""

import copy
import logging
from collections import namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.scoring.passes.member_dimension import quiet, unfused

POPULATION = 16
Pair = namedtuple("Pair", "logits extra")


class Store:
    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.o = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)


class EarlyExit(Base):
    """Both of a trial's members take one side of its branch, some of a population the other."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        return self.o(torch.tanh(self.b(h)) if h.abs().mean() > 0.55 else h)


class Selects(Base):
    """The same without a branch."""

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        return self.o(torch.where(h.abs().mean() > 0.55, torch.tanh(self.b(h)), h))


class ReadsInput(Base):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x * 0.01 if float(x.abs().max()) > 2.5 else x)
        return self.o(torch.tanh(h))


class ReadsGate(Base):
    """The sign of a parameter, which the noise of a trial does not turn."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.tensor([0.4]))

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.tanh(self.a(x))) * (1.0 if self.gate.item() > 0 else 2.0)


class Caches(Base):
    """Keeps a table of biases that it made of parameters, in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.biases, self.tables = nn.Parameter(torch.randn(4, 3)), {}

    def forward(self, x: Tensor) -> Tensor:
        if "table" not in self.tables:
            self.tables["table"] = self.biases[torch.tensor([0, 0, 2])].sum(0)
        return self.o(torch.tanh(self.a(x))) + self.tables["table"]


class Centred(Base):
    """What an example gets depends on the others of its member, before any parameter."""

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.tanh(self.a(x - x.mean(0))))


class Adapter(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2.0 + 1.0


class Encoder(nn.Module):
    """Padded words through torch's encoder, with an adapted layer, whose fused operation would pass over it."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)
        layer.linear1 = Adapter(8, 12)
        self.inner, self.o = nn.TransformerEncoder(layer, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        words = torch.stack([x, x.flip(1), x * 2], 1)
        padded = torch.zeros(len(x), 3, dtype=torch.bool)
        padded[:, 2] = True
        return self.o(self.inner(words, src_key_padding_mask=padded).mean(1))


class Gives(Base):
    """A tuple of a tensor, None, a number, and an object that is no tensor."""

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Pair:
        h = torch.tanh(self.a(x))
        return Pair(self.o(h) * scale, {"hidden": (h, None), "count": 3, "store": Store(h)})


def logits_of(made: Any) -> Tensor:
    return made.logits if isinstance(made, Pair) else made


def fitness(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return -F.cross_entropy(logits_of(member(x)), y, reduction="none")


ONE_PASS = (Selects, Caches, Centred, Encoder, Gives)
ALONE = (EarlyExit, ReadsInput, ReadsGate)


@pytest.mark.parametrize("layout", ["shared_batch", "per_example"])
@pytest.mark.parametrize("kind", [*ONE_PASS, *ALONE])
def test_scores_are_those_of_candidates_alone(kind, layout, caplog):
    torch.manual_seed(0)
    net = kind()
    count = 4 if layout == "shared_batch" else 4 * POPULATION // 2
    x, y = torch.randn(count, 8) * 1.5, torch.randint(0, 3, (count,))
    options: dict[str, Any] = {"sampler": "low_rank", "population": POPULATION, "sigma": 0.3, "seed": 0, "threads": 1}
    with neuro.Evolution(copy.deepcopy(net), **options) as es:  # the members are the same, whatever the layout
        own, candidates = [], es.ask()
        with torch.no_grad(), unfused():
            for member in range(POPULATION):
                part = slice(0, 4) if layout == "shared_batch" else slice(member // 2 * 4, member // 2 * 4 + 4)
                module = candidates[member]
                getattr(module, "tables", {}).clear()
                own.append(float(fitness(module, x[part], y[part]).mean()))
    with neuro.Evolution(net, layout=layout, **options) as es, caplog.at_level(logging.INFO):
        report = es.step(fitness, x, y)
    assert report.fitness_mean == pytest.approx(sum(own) / POPULATION, abs=1e-5)
    assert report.fitness_best == pytest.approx(max(own), abs=1e-5)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    if kind in ONE_PASS:
        assert "members in one forward pass" in caplog.text
        assert not said
    else:
        assert len(said) == 1
        assert said[0].startswith(f"members are scored one by one, slower: {kind.__name__}: ")


def test_a_closure_on_other_outputs_shares_a_pass_by_the_name_of_its_input(caplog):
    torch.manual_seed(0)
    x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))

    def centre(shared_pass: bool) -> Tensor:
        torch.manual_seed(0)
        with neuro.Evolution(Gives(), sampler="low_rank", population=8, threads=1, shared_pass=shared_pass) as es:
            for _ in range(2):
                es.step(lambda member: -F.cross_entropy(member(x=x).logits, y).item())
            return es.centre

    torch.testing.assert_close(centre(True), centre(False), rtol=1e-3, atol=1e-5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda made: made.extra["store"].keys.sum(), "an output that is a Store is not there"),
        (lambda made: {}[len(made.logits)], "4"),
        (lambda made: made.logits[9].sum(), "index 9 is out of bounds"),
    ],
    ids=["store", "key", "index"],
)
def test_any_error_of_a_shared_pass_leads_to_single_members(use, reason, caplog):
    """Where single members raise it too, it is the user's."""
    x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))

    def closure(member: nn.Module) -> float:
        made = member(x)
        return float(-F.cross_entropy(made.logits, y)) + 0.0 * float(use(made))

    with neuro.Evolution(Gives(), sampler="low_rank", population=8, threads=1, shared_pass=True) as es:
        if reason.startswith("an output"):
            es.step(closure)
        else:
            with pytest.raises(LookupError):
                es.step(closure)
    assert [
        record.getMessage() for record in caplog.records if "one by one" in record.getMessage() and reason in record.getMessage()
    ]


def test_a_chunk_whose_pass_fails_in_a_later_generation_is_scored_one_by_one(caplog):
    """Beyond the trial a module may do what it did not do there."""

    class Later(Base):
        def forward(self, x: Tensor) -> Tensor:
            h = torch.tanh(self.a(x))
            if getattr(Later, "late", False):
                float(h.mean())
            return self.o(h)

    x, y = torch.randn(4, 8), torch.randint(0, 3, (4,))
    centres = []
    for late in (False, True):
        torch.manual_seed(0)
        Later.late = False
        with neuro.Evolution(Later(), sampler="low_rank", population=8, threads=1) as es:
            es.step(fitness, x, y)
            Later.late = late
            es.step(fitness, x, y)
            es.step(fitness, x, y)
            centres.append(es.centre)
    torch.testing.assert_close(*centres, rtol=1e-4, atol=1e-6)
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == "members are scored one by one, slower: Later: mean makes one tensor () of the rows of all members"


def reversed_rows(x: Tensor) -> list[int]:
    return list(range(len(x)))[::-1]


class Mirrors(Base):
    """Adds the examples in reverse order, before any parameter: it shows only where examples differ."""

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.tanh(self.a(x) + x[reversed_rows(x)].repeat(1, 2)))


class ByLength(Base):
    """Treats many examples in another way than the few of a trial."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        return self.o(torch.tanh(h if len(x) < 10 else h[reversed_rows(h)]))


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
@pytest.mark.parametrize(("kind", "layout"), [(Mirrors, "per_example"), (ByLength, "shared_batch")])
def test_a_pass_counts_once_it_is_proven_on_a_complete_batch_of_unequal_examples(kind, layout, sampler, caplog):
    class Alone(kind):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 0.0 * self.o.bias[0].item()  # no pass of many members reads a parameter's number

    equal, unequal, y = torch.zeros(64, 8), torch.randn(64, 8), torch.randint(0, 3, (64,))
    centres, said = [], []
    for one in (kind, Alone):
        torch.manual_seed(0)
        caplog.clear()
        with (
            neuro.Evolution(one(), sampler=sampler, layout=layout, population=POPULATION, threads=1) as es,
            caplog.at_level(logging.INFO),
        ):
            for x in (equal, unequal, unequal):
                es.step(fitness, x, y)
            centres.append(es.centre)
        said.append(caplog.text)
    torch.testing.assert_close(*centres, rtol=1e-4, atol=1e-6)
    assert "members in one forward pass" in said[0]
    assert "do not give what single members give" in said[0]


class Leader(Base):
    """Looks up the largest of an example's numbers, each moved a little by the mean of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        leader = (x - 0.01 * x.mean(0)).argmax(-1, keepdim=True)
        return self.o(torch.tanh(self.a(self.words(leader)[:, 0])))


def test_a_mean_over_members_is_seen_where_its_form_is_that_of_their_rows_and_few_members_do_not_show_it(caplog):
    """8 members have an example of 8 numbers each, so a mean over the batch has as many numbers as there are members."""
    x, y = torch.eye(8)[[1] * 8] * 3.0, torch.zeros(8, dtype=torch.int64)
    x[5] = torch.tensor([1.0, 1.001, 0, 0, 0, 0, 0, 0])  # the mean of all would make the first one larger
    torch.manual_seed(0)
    net, scores = Leader(), []
    options: dict[str, Any] = {"sampler": "iid", "population": 8, "sigma": 0.1, "threads": 1}
    with neuro.Evolution(copy.deepcopy(net), **options) as es, torch.no_grad():  # the members are the same
        candidates = es.ask()
        wanted = [float(fitness(candidates[member], x[[member]], y[[member]])) for member in range(8)]
    with neuro.Evolution(net, layout="per_example", **options) as es, caplog.at_level(logging.INFO):
        shaped = es._algo.combination
        es._algo.combination = lambda generation, given: scores.append(given) or shaped(generation, given)
        es.step(fitness, x, y)
    assert "mean goes over the rows of all members" in caplog.text
    assert scores[0].ravel().tolist() == pytest.approx(wanted, abs=1e-5)


def test_switches_of_the_process_are_as_before_whatever_is_nested():
    before = torch.backends.mha.get_fastpath_enabled()
    with unfused():
        with unfused(), quiet():
            assert not torch.backends.mha.get_fastpath_enabled()
        assert not torch.backends.mha.get_fastpath_enabled()
    assert torch.backends.mha.get_fastpath_enabled() == before
    torch.backends.mha.set_fastpath_enabled(False)
    with unfused():
        pass
    assert not torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(before)


class Looked(Base):
    """A table of words, which the mapped pass alone serves, as indices of each example."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.tanh(self.a(x + torch.einsum("bi,ij->bj", x[:, :4], self.words))))


ALONG_ROWS = {
    "roll": lambda rows: rows.roll(1),
    "sort": lambda rows: rows.sort().values,
    "argsort": lambda rows: rows.argsort(descending=True).to(rows.dtype),
    "softmax": lambda rows: F.softmax(rows, dim=None),
    "flip": lambda rows: rows.flip(0),
    "index_select": lambda rows: rows.index_select(0, torch.arange(len(rows) - 1, -1, -1)),
    "if": lambda rows: rows + 1 if rows.mean() > 0 else rows,
}


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("kind", [Base, Looked])
@pytest.mark.parametrize("along", ALONG_ROWS)
def test_a_fitness_that_looks_at_other_rows_is_seen_where_the_first_targets_hide_it(kind, along, caplog):
    class Net(kind):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if kind is Looked else self.o(torch.tanh(self.a(x)))

    def compares(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        rows = member(x)[:, 0]
        return rows - ALONG_ROWS[along](rows) * (y > 0)

    torch.manual_seed(0)
    x, hidden, shown = torch.randn(16, 8), torch.zeros(16), torch.ones(16)
    net = Net()
    with neuro.Evolution(copy.deepcopy(net), sampler="iid", population=8, sigma=0.1, threads=1) as es, torch.no_grad():
        es.step(compares, x, hidden)
        candidates = es.ask()
        wanted = [float(compares(candidates[member], x, shown).double().mean()) for member in range(8)]
    scores: list[Any] = []
    with neuro.Evolution(net, sampler="iid", population=8, sigma=0.1, threads=1) as es, caplog.at_level(logging.INFO):
        es.step(compares, x, hidden)
        shaped = es._algo.combination
        es._algo.combination = lambda generation, given: scores.append(given) or shaped(generation, given)
        es.step(compares, x, shown)
    assert scores[0].ravel().tolist() == pytest.approx(wanted, abs=1e-4)
    assert "of all members" in caplog.text
