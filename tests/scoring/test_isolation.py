"""Members do not touch each other: what a pass leaves behind in the module, in its input, in random generators."""

import copy
import io
import itertools
import logging
import random
import threading
import time
import types
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor

import neuro_cli as neuro
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.pages import Pages
from neuro_cli.core.module.copies import copied, in_pages
from neuro_cli.core.seeds import Generators
from neuro_cli.scoring import members
from neuro_cli.scoring.isolation import difference, drawing, same
from neuro_cli.scoring.modes import refuse_computed_by_modes
from neuro_cli.scoring.outside_state import OutsideState

POPULATION = 12
INPUTS, TARGETS = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1, 2])


class Net(nn.Module):
    """Network of one layer that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.start()

    def start(self) -> None:
        """Set what a subclass keeps."""

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Membrane(Net):
    def start(self) -> None:
        self.potential = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        self.potential = 0.5 * self.potential + self.layer(x).mean(0)
        return self.layer(x) + self.potential


class Counter(Net):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


class CachedWeight(Net):
    def start(self) -> None:
        self.cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        weight = self.cache.setdefault("weight", F.normalize(self.layer.weight))
        return F.linear(x, weight)


class MovingBuffer(Net):
    def start(self) -> None:
        self.register_buffer("total", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.total.data += self.layer(x).mean(0)  # behind autograd's back
        return self.layer(x) + self.total


class MovingFrozenParameter(Net):
    def start(self) -> None:
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        self.scale.mul_(1.1)
        return self.layer(x) * self.scale


class Tape:
    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = deque([0.0], maxlen=2)


class KeptObject(Net):
    def start(self) -> None:
        self.tape = Tape()

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) * (1 + sum(self.tape.steps))
        self.tape.steps.append(float(made.mean()))
        return made


class FirstCall(Net):
    """Answers otherwise the first time, and is in the same state after each call."""

    def start(self) -> None:
        self.seen = False

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) * (1.0 if self.seen else 2.0)
        self.seen = True
        return made


class UnseenCall(Net):
    """The same in an object whose parts no comparison reads."""

    def start(self) -> None:
        self.seen = array("b", [0])

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) * (1.0 if self.seen[0] else 2.0)
        self.seen[0] = 1
        return made


STATES = [Membrane, Counter, CachedWeight, MovingBuffer, MovingFrozenParameter, KeptObject, FirstCall, UnseenCall]


class Dropout(Net):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.layer(x), 0.3)


class NumpyNoise(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * float(np.random.normal())


class PythonNoise(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * random.random()


DRAWS = [Dropout, NumpyNoise, PythonNoise]


class InPlace(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mul_(0.5))


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(outputs, targets, reduction="none")


def evolution(kind: Callable[[], nn.Module], threads: int = 1, **options: object) -> neuro.Evolution:
    torch.manual_seed(3)
    return neuro.Evolution(kind(), population=POPULATION, sigma=0.3, seed=4, threads=threads, **options)


def own_scores(kind: Callable[[], nn.Module]) -> np.ndarray:
    """Scores of the first generation by fresh copies of the module."""
    return np.array([float(losses(member(INPUTS.clone()), TARGETS).double().mean()) for member in evolution(kind).ask()])


def step(es: neuro.Evolution, form: str) -> tuple[float, float]:
    """Mean and best fitness of a generation."""
    if form == "batch":
        report = es.step(lambda member, x, y: losses(member(x), y), INPUTS.clone(), TARGETS)
    else:
        given = INPUTS.clone()
        report = es.step(lambda member: losses(member(given), TARGETS).double().mean())
    return report.fitness_mean, report.fitness_best


def train(module: nn.Module, **options: Any) -> nn.Module:
    """The module after a run of the command line's kind."""
    data = [(x, int(y)) for x, y in zip(INPUTS, TARGETS, strict=True)]
    return neuro.train(model=module, task=neuro.task.Dataset(train=data, test=data), batch_size=6, **options).module


FORMS = ("batch", "closure")


@pytest.mark.parametrize(
    ("kind", "form"), [(kind, FORMS[place % 2]) for place, kind in enumerate([Net, InPlace, *STATES, InPlace, Membrane])]
)
def test_a_member_has_the_score_of_a_module_of_its_own(kind, form):
    own = own_scores(kind)
    for threads in (1, 2):
        assert step(evolution(kind, threads), form) == pytest.approx((own.mean(), own.max()), rel=1e-6)


@pytest.mark.parametrize("kind", [InPlace, *STATES, *DRAWS])
def test_a_run_has_the_same_bits_on_any_number_of_threads(kind):
    centres = []
    for threads in (1, 3):
        es = evolution(kind, threads)
        for form in ("closure", "batch", "batch"):
            step(es, form)
        centres.append(es.centre)
    assert torch.equal(*centres)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Membrane, "model: potential of Membrane changes in a forward pass: every member gets a fresh copy"),
        (CachedWeight, "model: cache of CachedWeight changes"),
        (FirstCall, "model: seen of FirstCall changes in a forward pass: every member gets a fresh copy"),
        (UnseenCall, "model: scores depend on the members scored before: every member gets a fresh copy"),
        (Dropout, "scoring draws random numbers (torch): members are scored in turn"),
        (NumpyNoise, "(numpy)"),
        (PythonNoise, "(Python)"),
        (InPlace, "model: a forward pass changes its input in place: every member gets a copy"),
    ],
)
def test_the_reason_is_said_once(kind, said, caplog):
    es = evolution(kind, 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            step(es, "closure")  # members one by one
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said in line


class SeedsItself(Net):
    """Draws the same numbers in every pass, from torch's generator, which all threads share."""

    def forward(self, x: Tensor) -> Tensor:
        torch.manual_seed(7)
        time.sleep(0.001)  # another thread seeds and draws meanwhile
        return self.layer(x) + torch.rand(len(x), 1)


@pytest.mark.parametrize("form", ["closure", "batch"])
@pytest.mark.parametrize("left", [False, True])
def test_passes_that_seed_the_generator_themselves_take_turns(form, left, caplog):
    es = evolution(SeedsItself, 2)
    if left:
        torch.manual_seed(7), torch.rand(len(INPUTS), 1)  # the state that each pass leaves
    step(es, form)
    assert "draws random numbers (torch)" in caplog.text


def _inner(member: nn.Module) -> float:
    own = copy.deepcopy(member).requires_grad_(True)
    es = neuro.Evolution(own, population=2)
    return es.step(lambda each: float(each(INPUTS).sum()) + random.random()).fitness_best


def test_members_on_threads_that_run_evolutions_which_draw_do_not_wait_for_each_other():
    es = evolution(Net, 2)
    done = []
    thread = threading.Thread(target=lambda: done.append(es.step(_inner)), daemon=True)
    thread.start()
    thread.join(120)
    assert done


def test_draws_of_both_sides_of_a_pair_are_the_same_and_others_are_not():
    scores = {}

    class Drawn(Net):
        def forward(self, x: Tensor) -> Tensor:
            scores[float(self.layer.weight.sum())] = float(torch.rand(()))
            return self.layer(x)

    step(evolution(Drawn, 2), "batch")
    first, *others = list(scores.values())[-POPULATION:]
    assert len({first, *others}) == POPULATION // 2


def test_what_the_scorer_draws_is_not_taken_from_the_script():
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    before = Generators()
    for kind in DRAWS:
        es = evolution(kind, 2)
        torch.manual_seed(5)
        for _ in range(2):
            step(es, "batch")
    assert before.moved() == []


class Rotary(Net):
    """Keeps a table that depends on no member."""

    def start(self) -> None:
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.arange(x.shape[1]).float().cos()
        return self.layer(x * self.table)


def test_a_cache_that_is_the_same_for_all_members_costs_nothing(caplog):
    own = own_scores(Rotary)
    es = evolution(Rotary, 2)
    with caplog.at_level(logging.WARNING):
        assert step(es, "batch")[0] == pytest.approx(own.mean(), rel=1e-6)
        step(es, "batch")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


CALLS = itertools.count()


class Global(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * next(CALLS)


def test_what_cannot_be_kept_from_members_is_said_of_a_function_and_refused_of_a_task(caplog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        step(evolution(Global), "closure")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("fitness: the same member scored twice has ")
    with pytest.raises(UserError, match=r"^model=Global: the same member scored twice has .* outside of the module"):
        train(Global(), population=4, generations=1, threads=1)


@pytest.mark.parametrize(("population", "draws"), [(POPULATION, False), (2, False), (2, True)])  # draws: all are scored twice
def test_a_simulator_that_remembers_one_member_is_told_from_a_module_that_does(caplog, population, draws):
    left = [0.0]

    def simulated(member: nn.Module) -> float:
        before, left[0] = left[0], float(member(INPUTS).square().mean())
        return left[0] + before + draws * 0 * torch.rand(()).item()

    es = neuro.Evolution(Net(), population=population, threads=1)
    with caplog.at_level(logging.WARNING):
        es.step(simulated)
    *_, line = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith("fitness: the same member scored twice has ")


def test_functions_with_a_text_of_their_own_for_every_generation_are_not_tried_forever():
    calls: list[str] = []

    def step(shard: str) -> None:
        def scored(member: nn.Module) -> float:
            calls.append(shard)
            return float(member(INPUTS).square().mean())

        es.step(scored)

    es = neuro.Evolution(Net(), population=POPULATION, threads=1)
    for generation in range(members.MOST_TRIED + 2):
        step(f"shard {generation}")
    assert calls.count("shard 1") > POPULATION
    assert calls.count(f"shard {generation}") == POPULATION


def test_the_trial_leaves_the_inputs_of_a_script_as_they_are():
    given = INPUTS.clone()
    for form in ("batch", "closure"):
        es = evolution(InPlace, 2)
        for _ in range(2):
            if form == "batch":
                es.step(lambda member, x, y: losses(member(x), y), given, TARGETS)
            else:
                es.step(lambda member: losses(member(given), TARGETS).mean())
    assert torch.equal(given, INPUTS)


def norms() -> nn.Module:
    """A frozen norm, one in evaluation mode, one that is trained."""
    frozen, kept, moving = (nn.BatchNorm1d(8) for _ in range(3))
    for norm in (frozen, kept, moving):
        norm.running_mean.fill_(0.25)
        norm.running_var.fill_(4.0)
    return nn.Sequential(frozen.requires_grad_(False), kept.eval(), moving, nn.Linear(8, 3))


def test_frozen_norms_and_norms_in_evaluation_mode_keep_their_statistics(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = train(norms(), population=4, generations=2, threads=1)
    assert [bool((norm.running_mean == 0.25).all()) for norm in trained[:3]] == [True, True, False]
    es = neuro.Evolution(norms(), population=2, threads=1)
    es.module.eval()  # a script that evaluates the module first
    modes = []
    es.step(lambda member: modes.append([norm.training for norm in member[:3]]) or 0.0)
    assert modes[0] == [False, False, True]


def test_members_in_training_mode_update_no_running_statistics():
    seen = []
    es = neuro.Evolution(norms(), population=2, threads=1)
    es.step(lambda member: (member(INPUTS), seen.append(member[2].running_mean.clone()))[0].mean())
    assert all((mean == 0.25).all() for mean in seen)


@pytest.mark.parametrize("wrap", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_state_that_moves_in_training_mode_alone_is_said(wrap, caplog):
    with caplog.at_level(logging.WARNING):
        neuro.Evolution(nn.Sequential(wrap(nn.Linear(8, 3))), population=2).step(lambda member: member(INPUTS).mean())
    assert "it stays as given, since it moves in training mode alone: the power iteration of spectral_norm" in caplog.text


class CodeBook(Net):
    def start(self) -> None:
        self.register_buffer("codes", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.codes.add_(self.layer(x).mean(0))
        return self.layer(x) + self.codes


def test_a_buffer_that_moves_in_training_mode_alone_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        step(evolution(CodeBook), "batch")
    assert "it stays as given, since it moves in training mode alone: codes of CodeBook" in caplog.text


@pytest.mark.parametrize("evolves", [True, False])
def test_a_padding_row_that_evolves_is_said(evolves, caplog):
    words = nn.Embedding(5, 3, padding_idx=2)
    words.weight.requires_grad_(evolves)
    with caplog.at_level(logging.WARNING):
        es = neuro.Evolution(nn.Sequential(words, nn.Linear(3, 1)), population=4)
        es.step(lambda member: member(torch.tensor([2])).mean())
    assert (bool(words.weight[2].any()), "mask padded places: row 2 of 0" in caplog.text) == (evolves, evolves)


class Grows(TwoTensor):
    """A tensor of tensors that has its second part where that is not zero, as a pass may add a part."""

    def __tensor_flatten__(self):
        return ["a"] + ["b"] * bool(self.b.any()), None


class Lengthless(tuple):
    """Tuple of named parts, as e3nn has it."""

    def __len__(self) -> int:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": [torch.ones(2), None]}, {"a": [torch.ones(2), None]}, True),
        ({"a": [torch.ones(2), None]}, {"a": [torch.zeros(2), None]}, False),
        (torch.tensor([np.nan]), torch.tensor([np.nan]), True),
        (torch.ones(2), torch.ones(2).double(), False),
        (np.array([np.nan, 1]), np.array([np.nan, 2]), False),
        ({1, 2}, {1, 3}, False),
        (len, len, True),
        (float("nan"), float("nan"), True),
        (random.Random(1), random.Random(2), False),
        (np.random.default_rng(1), np.random.default_rng(1), True),
        (torch.Generator().manual_seed(1), torch.Generator().manual_seed(2), False),
        (Tape(), Tape(), True),
        (1, 1.0, False),
        (torch.ones(2), None, False),
        ({"a": [1]}, {"a": None}, False),
        (Lengthless((1, 2)), Lengthless((1, 2)), True),
        (torch.eye(3).to_sparse(), torch.eye(3).to_sparse(), True),
        (torch.eye(3).to_sparse(), (2 * torch.eye(3)).to_sparse(), False),
        (torch.eye(3).to_sparse_csc(), torch.eye(3).to_sparse_csc(), True),
        (torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse(), False),
        (Lengthless((1, 2)), Lengthless((1, 3)), False),
        (TwoTensor(torch.ones(2), torch.ones(2)), TwoTensor(torch.ones(2), torch.ones(2)), True),
        (TwoTensor(torch.ones(2), torch.ones(2)), TwoTensor(torch.ones(2), torch.zeros(2)), False),
        (Grows(torch.ones(2), torch.ones(2)), Grows(torch.ones(2), torch.zeros(2)), False),
    ],
)
def test_values_are_compared_down_to_their_parts(one, other, equal):
    assert same(one, other, {}) is equal


def test_a_copy_of_a_traced_module_is_the_same():
    """Each has a class and a graph of its own."""
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    assert difference(traced, copy.deepcopy(traced)) is None


def test_values_that_hold_themselves_are_compared():
    one, other = [1.0], [1.0]
    one.append(one), other.append(other)
    assert same(one, other, {})
    other.append(2)
    assert not same(one, other, {})


def test_drawing_is_addressed_and_leaves_no_trace():
    before, drawn = Generators(), []
    for address in ((1, 2), (1, 2), (1, 3)):
        with drawing(7, *address):
            drawn.append((float(torch.rand(())), np.random.rand(), random.random()))
    assert before.moved() == []
    assert drawn[0] == drawn[1]
    assert all(a != b for a, b in zip(drawn[0], drawn[2], strict=True))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Membrane, "changes potential of Membrane"),
        (CachedWeight, "changes cache of CachedWeight"),
        (Counter, "changes calls of Counter"),
        (InPlace, "changes its input in place"),
        (Dropout, r"draws random numbers \(torch\)"),
    ],
)
def test_noise_on_activations_needs_passes_that_are_alike(kind, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^sampler=activation: all passes of a generation must be alike, and one of .* {reason}"):
        train(kind(), sampler="activation", generations=1)


class Counting(Net):
    def start(self) -> None:
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


class Remembering(Net):
    """Keeps a tensor in an attribute that is no buffer, as voice detectors keep the state of their last window."""

    last: Tensor

    def start(self) -> None:
        self.last = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) + self.last
        self.last = made.detach().mean()
        return made


@pytest.mark.parametrize("form", ["batch", "closure"])
@pytest.mark.parametrize("kind", [Counting, Remembering])
def test_a_scripted_module_is_kept_apart_too(kind, form):
    def scripted() -> nn.Module:
        return torch.jit.script(kind())

    own = own_scores(scripted)
    for threads in (1, 2):
        assert step(evolution(scripted, threads), form) == pytest.approx((own.mean(), own.max()), rel=1e-6)


def test_a_scripted_module_without_state_gets_no_copies(caplog):
    for make in (lambda: torch.jit.script(nn.Linear(8, 3)), lambda: torch.jit.trace(nn.Linear(8, 3), INPUTS)):
        step(evolution(make), "closure")
    assert "changes in a forward pass" not in caplog.text


def test_random_numbers_and_shares_of_a_batch_do_not_go_together():
    es = evolution(Dropout, distribution="data_parallel")
    with pytest.raises(UserError, match=r"^distribution=data_parallel: scoring draws random numbers"):
        step(es, "batch")


class KeptDeeply(Net):
    """Keeps what a pass for many members does not put back."""

    def start(self) -> None:
        self.tape = Tape()

    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x) * (1 + self.tape.steps[-1])
        self.tape.steps.append(self.tape.steps[-1] + 1.0)
        return made


@pytest.mark.parametrize("kind", [InPlace, Membrane, CachedWeight, KeptDeeply, Dropout])
def test_members_of_one_pass_are_kept_apart(kind):
    """With a sampler that scores many members in one pass, where the module allows it."""
    inputs, targets = INPUTS.repeat(2, 1), TARGETS.repeat(2)
    candidates, own = evolution(kind, sampler="low_rank").ask(), []
    for i in range(POPULATION):
        part = slice(i // 2 * 2, i // 2 * 2 + 2)
        own.append(float(losses(candidates[i](inputs[part].clone()), targets[part]).double().mean()))
    seen = []
    for threads in (1, 3):
        given = inputs.clone()
        es = evolution(kind, threads, sampler="low_rank", layout="per_example")
        reports = [es.step(lambda member, x, y: losses(member(x), y), given, targets) for _ in range(2)]
        assert torch.equal(given, inputs)
        if kind is not Dropout:
            assert (reports[0].fitness_mean, reports[0].fitness_best) == pytest.approx((np.mean(own), max(own)), rel=1e-5)
        seen.append([report.fitness_mean for report in reports])
    assert seen[0] == seen[1]


class CachedInEvaluation(Net):
    """Keeps a computed weight in evaluation mode and drops it in training mode, as timm's LeViT does."""

    def start(self) -> None:
        self.cache: dict[str, Tensor] = {}

    def train(self, mode: bool = True) -> nn.Module:
        if mode:
            self.cache = {}
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.cache.setdefault("weight", self.layer.weight * 2.0))


def test_a_cache_of_the_scripts_own_calls_is_no_members():
    own = own_scores(CachedInEvaluation)
    es = evolution(CachedInEvaluation)
    es.module.eval()(INPUTS)
    assert step(es, "closure") == pytest.approx((own.mean(), own.max()), rel=1e-6)


def late(start: int, change: Callable[[nn.Module], float]) -> Callable[[], nn.Module]:
    """Network of which ``change`` is called in each pass from pass ``start`` on, counted outside of it; a factor comes back."""
    calls = itertools.count()

    class Late(Net):
        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) * (change(self) if next(calls) >= start else 1.0)

    return Late


def test_a_module_that_begins_to_keep_state_is_kept_apart_from_then_on():
    """Passes put nothing back where no pass kept anything; the first that does is seen, and its generation scored again."""

    def add(module: nn.Module) -> float:
        module.total = getattr(module, "total", 1.0) + 1.0  # type: ignore[assignment]
        return module.total

    inputs, targets = INPUTS.repeat(2, 1), TARGETS.repeat(2)
    es = evolution(late(50, add), 2, sampler="low_rank", layout="per_example")
    doubled = evolution(late(0, lambda _: 2.0), 2, sampler="low_rank", layout="per_example")
    seen = []
    for _ in range(60):
        doubled.load_state_dict(es.state_dict())
        pair = [each.step(lambda member, x, y: losses(member(x), y), inputs, targets).fitness_mean for each in (es, doubled)]
        seen.append(pair[0] == pair[1])
    assert not seen[0]
    assert seen[-1]  # a fresh module's first factor, each time
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("draw", "form"), [(np.random.random, "closure"), (random.random, "batch"), (lambda: float(torch.rand(())), "closure")]
)
def test_draws_that_begin_late_are_seen(draw, form, caplog):
    start = 60 if form == "batch" else 30 * POPULATION  # a batch: a pass of many members
    es = evolution(late(start, lambda _: 1.0 + draw()))
    for _ in range(60):
        step(es, form)
    assert "scoring draws random numbers" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.tapes.append(1),
        lambda module: module.tapes[0].steps.append(2.0),
        lambda module: module.count.add_(1),
        lambda module: module.register_buffer("count", torch.ones(3)),
        lambda module: module.register_buffer("more", torch.ones(3)),
        lambda module: setattr(module, "extra", None),
        lambda module: setattr(module.layer, "in_features", 9),
        lambda module: setattr(module, "layer", nn.Linear(8, 3, bias=False)),
        lambda module: module.layer.eval(),
        lambda module: delattr(module, "tapes"),
        lambda module: setattr(module, "array", np.ones(2)),
    ],
)
def test_each_change_of_a_module_is_a_difference(change):
    class Keeping(Net):
        def start(self) -> None:
            self.tapes, self.array = [Tape()], np.zeros(2)
            self.register_buffer("count", torch.zeros(3))

    torch.manual_seed(1)
    reference = Keeping()
    torch.manual_seed(1)
    used = Keeping()
    assert difference(reference, used) is None
    change(used)
    assert difference(reference, used) is not None


def test_frozen_parameters_in_the_same_pages_are_read_where_they_were_written_to(monkeypatch):
    reference = nn.Sequential(nn.Linear(50, 50).requires_grad_(False), nn.Linear(50, 2))
    frozen = [reference[0].weight, reference[0].bias]
    in_pages(frozen, Pages.of(frozen))
    used = copied(reference)
    read = list[Any]()
    equal = torch.equal
    monkeypatch.setattr(torch, "equal", lambda one, other: read.append(one) or equal(one, other))
    assert difference(reference, used) is None
    assert read == []
    used[0].weight.data[0, 0] += 0.0  # a page of its own with the same numbers
    assert difference(reference, used) is None
    assert len(read) == 1
    used[0].weight.data[0, 0] += 1.0
    assert difference(reference, used) == "0.weight of Linear"
    used[0].weight.data = reference[0].weight.data.clone()  # memory of its own
    assert difference(reference, used) is None
    used[0].weight.data[1, 1] += 1.0
    assert difference(reference, used) == "0.weight of Linear"


class Largest(Net):
    """Keeps the largest number that it met, which depends on no member."""

    def start(self) -> None:
        self.largest = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.largest = max(self.largest, float(x.abs().max()))
        return self.layer(x) / (1 + self.largest)


@pytest.mark.parametrize("kind", [Largest, Rotary])
@pytest.mark.parametrize("form", FORMS)
def test_what_all_members_keep_of_a_batch_has_no_part_in_the_next_generation(kind, form, caplog):
    es = evolution(kind, 2)
    es.step(lambda member: losses(member(3 * INPUTS), TARGETS).double().mean())
    with torch.no_grad():
        wanted = np.mean([float(losses(member(INPUTS), TARGETS).double().mean()) for member in es.ask()])
    assert step(es, form)[0] == pytest.approx(wanted, rel=1e-6)
    assert ("largest of Largest changes in a forward pass" in caplog.text) == (kind is Largest)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_of_the_first_members_weights_is_no_cache_on_one_thread_and_without_pairs(form, caplog):
    es = evolution(CachedWeight, 1, sampler="iid")
    wanted = np.mean([float(losses(member(INPUTS), TARGETS).double().mean()) for member in es.ask()])
    assert step(es, form)[0] == pytest.approx(wanted, rel=1e-6)
    if form == "closure":  # in one pass a cache is put back
        assert "cache of CachedWeight changes in a forward pass" in caplog.text


class Flat(Net):
    """A convolution behind inputs that are no images."""

    def start(self) -> None:
        self.tap = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.tap(x.view(-1, 1, 2, 4)).flatten(1))


@pytest.mark.parametrize("form", FORMS)
def test_a_convolution_behind_flat_inputs_has_its_own_scores(form):
    own = own_scores(Flat)
    assert step(evolution(Flat, 2), form) == pytest.approx((own.mean(), own.max()), rel=1e-5)


class Slope(Net):
    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x)
        return torch.func.jvp(torch.tanh, (made,), (made.cos(),))[1]


def test_forward_derivatives_have_the_scores_of_one_thread():
    own = own_scores(Slope)
    for threads in (1, 2, 3):
        assert step(evolution(Slope, threads), "closure") == pytest.approx((own.mean(), own.max()), rel=1e-6)


FEATURES: dict[str, Tensor] = {}


class Tapped(Net):
    """A hook fills a table of the script, which a fitness reads."""

    def start(self) -> None:
        self.layer.register_forward_hook(lambda _, __, made: FEATURES.update(made=made))

    def forward(self, x: Tensor) -> Tensor:
        made = super().forward(x)
        return made if float(made.sum()) < 1e9 else -made  # no shared pass


@pytest.mark.parametrize("form", ["closure", "batch"])
def test_what_a_hook_leaves_outside_of_a_member_is_its_own(form, caplog):
    def fitness(member, inputs=INPUTS, targets=TARGETS):
        values = member(inputs)[:, 0]
        time.sleep(0.001)  # another thread's member goes by
        return values + FEATURES["made"].square().mean()

    def centre(threads):
        torch.manual_seed(0)
        with neuro.Evolution(Tapped(), population=8, threads=threads) as es:
            for _ in range(2):
                es.step(*((fitness,) if form == "closure" else (fitness, INPUTS, TARGETS)))
            return es.centre

    assert torch.equal(centre(2), centre(1))
    assert "outside of its member, which threads have in common (dict of " in caplog.text


def test_a_fitness_that_writes_nothing_outside_is_scored_by_threads(caplog):
    table, config = {"rate": torch.ones(3)}, types.SimpleNamespace(scale=2.0)
    with neuro.Evolution(Net(), population=8, threads=2) as es:
        es.step(lambda member: config.scale * (member(INPUTS) * table["rate"]).mean() * (1 + es.generation))
    assert "in turn" not in caplog.text


NAMED = {
    "list of 1",
    "types.SimpleNamespace",
    "ndarray of shape (3,)",
    "Tensor of shape (3,)",
    f"{__name__}.Slots",
    "bytearray",
    f"{__name__}.Net",
    "dict of 1",
    "array.array",
    f"class {__name__}.Own",
    "dict of 11",
    "cell",
}


@pytest.mark.parametrize(
    "write",
    [
        lambda state: state["list"].append(1), lambda state: state["space"].__dict__.update(best=1.0),
        lambda state: state["array"].__setitem__(0, 1.0), lambda state: state["tensor"].add_(1.0),
        lambda state: setattr(state["slots"], "value", 1),
        lambda state: state["bytes"].__setitem__(0, 1), lambda state: setattr(state["module"], "count", 1),
        lambda state: setattr(state["cell"], "best", 1), lambda state: state["numbers"].__setitem__(0, 1.0),
        lambda state: setattr(state["class"], "shared", 2), lambda state: state.update(new=1), lambda state: state["cell"](),
    ],
)  # fmt: skip
def test_writes_to_state_of_a_script_are_seen(write):
    count = 0

    def counts():
        nonlocal count
        count += 1

    state = {"list": [], "space": types.SimpleNamespace(), "array": np.zeros(3), "tensor": torch.zeros(3), "cell": counts}
    state |= {"class": type("Own", (), {"shared": 1}), "slots": type("Slots", (), {"__slots__": "value"})()}
    state |= {"bytes": bytearray(3), "numbers": array("d", [0.0]), "module": Net()}
    state["module"].count = 0
    outside = OutsideState([Net(), Net()], [lambda: state])
    assert not outside.changed()
    write(state)
    assert outside.changed() in NAMED


def test_a_progress_bar_that_begins_is_no_write(monkeypatch):
    tqdm = pytest.importorskip("tqdm").tqdm
    monkeypatch.setattr(tqdm, "monitor", None)
    outside = OutsideState([Net(), Net()], [lambda: tqdm])
    with tqdm(range(1), disable=False, file=io.StringIO()):  # its class gets a thread
        assert tqdm.monitor is not None
        assert outside.changed() is None


class Merged(Net):
    """An adapter that evaluation mode merges into a frozen weight."""

    def start(self) -> None:
        self.layer.requires_grad_(False)
        self.adapter, self.is_merged = nn.Parameter(torch.zeros(3, 8)), False  # as adapters begin

    def train(self, mode: bool = True) -> nn.Module:
        if mode is self.is_merged:
            self.layer.weight.data += self.adapter.data * (-1 if mode else 1)
            self.is_merged = not mode
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if self.is_merged else self.layer(x) + x @ self.adapter.T


class Frozen(Net):
    """A norm that stays in evaluation mode, and counts the changes of mode."""

    def start(self) -> None:
        self.norm, self.changes = nn.BatchNorm1d(8), 0

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.norm.eval()
        self.changes += 1
        return self


@pytest.mark.parametrize(
    "use",
    [
        lambda module: neuro.Evolution(module, population=8).step(lambda member: member(INPUTS).mean()), neuro.ForwardGradient,
        lambda module: neuro.perturbed(module, "low_rank", 8),
    ],
)  # fmt: skip
def test_numbers_that_evaluation_mode_computes_from_parameters_are_refused(use):
    with pytest.raises(UserError, match=r"eval\(\) of Merged computes layer.weight of Linear from its parameters"):
        use(Merged())
    use(Frozen())


class Drawn(Frozen):
    """A mask that each change of mode draws."""

    def train(self, mode: bool = True) -> nn.Module:
        self.mask = torch.rand(8)
        return super().train(mode)


class Bounded(Frozen):
    """Weights out of range are an error."""

    def train(self, mode: bool = True) -> nn.Module:
        if float(self.layer.weight.detach().max()) > 0.36:
            raise ValueError("out of range")
        return super().train(mode)


class Silent(Frozen):
    """Returns no module, as torch never needs it to."""

    def train(self, mode: bool = True) -> None:
        super().train(mode)


@pytest.mark.parametrize("kind", [Drawn, Bounded, Silent])
def test_modes_that_compute_nothing_from_parameters_are_not_refused(kind, caplog):
    module = kind()
    state = torch.get_rng_state()
    refuse_computed_by_modes(module)
    assert torch.equal(torch.get_rng_state(), state)
    assert ("out of range" in caplog.text) == (kind is Bounded)


class Signs(Net):
    """Keeps the signs of its weights, of which one member in many has another, until a write to them is counted."""

    def start(self) -> None:
        self.version, self.signs = -1, torch.empty(0)
        with torch.no_grad():
            self.layer.weight.fill_(5.0)[0, 7] = 0.4  # one member of 12 turns its sign, not the last

    def forward(self, x: Tensor) -> Tensor:
        if self.layer.weight._version != self.version:
            self.version, self.signs = self.layer.weight._version, self.layer.weight.detach().sign()
        return F.linear(x, self.signs, self.layer.bias)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_cache_that_few_members_would_change_is_their_own(threads):
    own = own_scores(Signs)
    assert step(evolution(Signs, threads), "closure") == pytest.approx((own.mean(), own.max()), rel=1e-5)
