"""Fitnesses and complex values that a script gives, and what it writes to its module while members are scored."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
import torch
from torch import nn

import neuro_cli as neuro
from neuro_cli.core import layout as layouts

GIVEN = [1.0, -2.0, 3.0, 0.5]


@pytest.fixture(params=["Evolution", "AskTell"])
def search(request):
    if request.param == "Evolution":
        return neuro.Evolution(torch.zeros(3), population=4, algo="snes", sigma=0.2, sampler="iid")
    return neuro.AskTell(np.zeros(3), population=4, sigma=0.2, stopping=neuro.Stopping(flat=None))


@pytest.mark.parametrize(
    "given",
    [
        np.array(GIVEN, np.float32),
        torch.tensor(GIVEN).bfloat16(),
        [torch.tensor([value]) for value in GIVEN],
        [np.float32(value) for value in GIVEN],
        [Decimal(str(value)) for value in GIVEN],
        np.array(GIVEN, object),
        lambda: (value for value in GIVEN),
    ],
    ids=["array", "bfloat16", "tensors", "scalars", "decimals", "objects", "generator"],
)
def test_numbers_of_every_kind_are_the_same_fitnesses(search, given):
    search.ask()
    search.tell(given() if callable(given) else given)
    assert (search.best.fitness, search.generation) == (3.0, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (dict.fromkeys(range(4), 1.0), "a dict of fitnesses"),
        ({*GIVEN}, "a set of fitnesses"),
        ("1234", "a str of fitnesses"),
        (b"1234", "a bytes of fitnesses"),
        (list("1234"), "must be numbers: a fitness is '1'"),
        (np.array(list("1234")), "must be numbers: they are <U1"),
        (np.array(GIVEN) + 1j, "must be numbers: they are complex128"),
        (torch.tensor(GIVEN) + 1j, "must be numbers: they are complex64"),
        ([1 + 1j] * 4, r"must be numbers: a fitness is \(1\+1j\)"),
        (np.array([1, 2, 3, 4], "datetime64[s]"), "must be numbers: they are datetime64"),
        ([10**400, 1, 2, 3], "must be numbers: int too large"),
        ([1.0, None, 2.0, 3.0], "a fitness is None"),
        (torch.tensor(GIVEN)[:, None], r"fitnesses of shape \(4, 1\) for 4 candidates"),
        (np.ma.array(GIVEN, mask=[False, True, False, False]), "fitness of member 1 in generation 1 is nan"),
        (list(np.ma.array(GIVEN, mask=[False, True, False, False])), "fitness of member 1 in generation 1 is nan"),
    ],
)
def test_what_is_no_number_for_each_candidate_is_one_line(search, given, said):
    search.ask()
    with pytest.raises((neuro.UserError, neuro.CandidateError), match=said):
        search.tell(given)
    search.tell(GIVEN)
    assert (search.best.fitness, search.generation) == (3.0, 1)


@pytest.mark.parametrize("algo", ["openai_es", "ars"])
@pytest.mark.parametrize("way", ["tell", "step"])
def test_a_large_module_that_is_the_centre_is_not_written_while_members_are_scored(algo, way, monkeypatch):
    """A script that scores its own module with each candidate's numbers would move the centre along."""
    monkeypatch.setattr(layouts, "LARGE", 4)
    module = nn.Linear(3, 2)
    es = neuro.Evolution(module, population=4, algo=algo, threads=1)
    es.step(lambda member: member(torch.ones(1, 3)).sum())

    def score(member):
        module.load_state_dict(member.state_dict())
        return module(torch.ones(1, 3)).sum().item()

    run = {"step": lambda: es.step(score), "tell": lambda: es.tell([score(candidate) for candidate in es.ask()])}[way]
    with pytest.raises(neuro.UserError, match="was written while members were scored, in the memory of the centre"):
        run()
    assert es.generation == 1


def test_a_small_module_takes_a_candidates_numbers_and_gets_its_own_back():
    def trained(own):
        torch.manual_seed(1)
        module = nn.Linear(3, 2)
        es = neuro.Evolution(module, population=4, algo="openai_es")
        for _ in range(2):
            fitnesses = []
            for candidate in es.ask():
                if own:
                    module.load_state_dict(candidate.state_dict())
                fitnesses.append((module if own else candidate)(torch.ones(1, 3)).sum().item())
            es.tell(fitnesses)
        return es.centre

    assert torch.equal(trained(True), trained(False))


@pytest.mark.parametrize("begun", [False, True])
def test_a_module_of_another_type_is_one_line(begun):
    """The float32 centre would be rounded to the nearest bfloat16 number in each generation, and small steps lost."""
    es = neuro.Evolution(nn.Linear(3, 2), population=4)
    if begun:
        es.step(lambda member: member(torch.ones(1, 3)).sum())
    es.module.bfloat16()
    with pytest.raises(neuro.ConfigError, match=r"module=Linear: .*give (it|the module) to a new Evolution"):
        es.step(lambda member: member(torch.ones(1, 3).to(member.weight.dtype)).sum())


def test_calls_of_one_object_do_not_run_at_the_same_time():
    """Two threads, or a fitness that calls its own loop, would score members of one generation around two centres."""
    es, x = neuro.Evolution(nn.Linear(3, 2), population=4, threads=1), torch.ones(1, 3)

    def within(member):
        es.ask()
        return member(x).sum()

    def elsewhere(member):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(es.step, lambda other: other(x).sum()).result()
        return member(x).sum()

    for fitness, name in ((within, "ask"), (elsewhere, "step")):
        with pytest.raises(neuro.UserError, match=f"{name}: another call of this object runs"):
            es.step(fitness)
    assert es.generation == 0
    es.step(lambda member: member(x).sum())
    assert es.generation == 1


def test_a_state_of_a_module_with_other_shapes_is_refused():
    """As many parameters in all would be dealt out to others."""
    one, other = (neuro.Evolution(nn.Linear(*sizes), population=4) for sizes in ((3, 2), (1, 4)))
    for _ in range(2):
        with pytest.raises(neuro.ConfigError, match=r"module=Linear: has parameters of shapes \[\[4, 1\], \[4\]\], .*\[\[2, 3\]"):
            other.load_state_dict(one.state_dict())
        one.step(lambda member: member(torch.ones(1, 3)).sum())
    state = one.state_dict()
    del state["shapes"]  # earlier versions saved none
    again = neuro.Evolution(nn.Linear(3, 2), population=4)
    again.load_state_dict(state)
    assert torch.equal(again.centre, one.centre)


def test_complex_rows_of_a_fitness_are_one_line():
    es, x = neuro.Evolution(nn.Linear(3, 2), population=4), torch.ones(5, 3)
    with pytest.raises(neuro.UserError, match="fitness: it gave complex numbers of shape 5"):
        es.step(lambda m, x, y: m(x)[:, 0] + 1j, x, torch.zeros(5))
