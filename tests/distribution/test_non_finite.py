"""Members without a finite fitness: an error, or the last of their generation, the same on any number of ranks."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, one_line, well
from support.thread_ranks import on_ranks

import neuro_cli as neuro
from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.core.errors import CandidateError, ConfigError
from neuro_cli.distribution.finite import finite_members, ranked_last
from neuro_cli.distribution.semi_updates import SemiUpdates
from neuro_cli.library.named import option
from neuro_cli.run_folder.metrics import read_metrics

ALGORITHMS = ("openai_es", "snes", "pgpe", "ars", "genetic", "sep_cma_es", "forward_gradient")
POPULATION = 10
BAD = {0: (3, 4), 1: (), 2: (0, 1, 2, 3, 4, 5, 6, 7, 8)}  # members by generation
VALUES = (float("nan"), float("inf"), float("-inf"))


def fitnesses(vectors: torch.Tensor, members: range, generation: int) -> np.ndarray:
    values = -(vectors.double().square()).sum(1).numpy()
    for member in BAD[generation]:
        if member in members:
            values[member - members.start] = VALUES[member % 3]
    return values


def centre_of(world, algo: str, method: str, **keys) -> tuple[np.ndarray, list[int]]:
    """The centre after three generations of a sphere with bad members, and the number of those."""
    parents = {"parents": 3} if algo == "genetic" else {}
    made = option("algo", algo, PopulationAlgorithm, 3, {"non_finite": "worst", **parents})
    chosen = option("distribution", method, object, 3, keys)
    with Evolution(torch.ones(7), algo=made, distribution=chosen, population=POPULATION, world=world, threads=1) as es:
        counts = []
        for generation in range(3):
            candidates = es.ask()
            report = es.tell(fitnesses(candidates.vectors, candidates.members, generation))
            assert np.isfinite(report.fitness_mean)
            assert np.isfinite(report.fitness_best)
            counts.append(report.non_finite)
        return es.centre.numpy(), counts


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_run_goes_on_to_the_same_bits_on_any_number_of_ranks(algo):
    [(whole, counts)] = on_ranks(1, partial(centre_of, algo=algo, method="replicated"))
    assert counts == [2, 0, 9]
    assert np.isfinite(whole).all()
    assert not np.array_equal(whole, np.ones(7))
    for size, method in ((2, "replicated"), (3, "chromosome_updates")):
        for centre, seen in on_ranks(size, partial(centre_of, algo=algo, method=method)):
            assert np.array_equal(centre, whole)
            assert seen == counts


def test_semi_updates_count_the_bad_members_of_all_ranks():
    """Also where each shapes its own: two of three ranks have no finite fitness in the last generation."""
    for shaping in ("global", "local"):
        made = on_ranks(3, partial(centre_of, algo="openai_es", method="semi_updates", ranks_shaping=shaping))
        assert all(np.array_equal(centre, made[0][0]) for centre, _ in made)
        assert np.isfinite(made[0][0]).all()
        assert all(counts == [2, 0, 9] for _, counts in made)
    assert isinstance(option("distribution", "semi_updates", SemiUpdates, 3), SemiUpdates)


def test_bad_members_are_below_the_last_and_no_further():
    fitness = ranked_last(np.array([3.0, np.nan, -2.0, np.inf]), np.array([True, False, True, False]), -2.0)
    assert fitness.tolist() == [3.0, fitness[1], -2.0, fitness[1]]
    assert -2.0 - 1e-12 < fitness[1] < -2.0


@pytest.mark.parametrize("method", ["replicated", "semi_updates"])
@pytest.mark.parametrize("non_finite", ["raise", "worst"])
def test_no_finite_fitness_at_all_is_an_error(method, non_finite):
    def run(world) -> None:
        keys = {"ranks_shaping": "local"} if method == "semi_updates" else {}
        algo = option("algo", "openai_es", PopulationAlgorithm, 3, {"non_finite": non_finite})
        distribution = option("distribution", method, object, 3, keys)
        with Evolution(torch.ones(7), algo=algo, distribution=distribution, population=POPULATION, world=world) as es:
            es.ask()
            es.tell([float("nan")] * len(es.members))

    with pytest.raises(CandidateError, match="fitness of member 0 in generation 1 is nan"):
        on_ranks(2, run)


def test_raise_is_the_default_and_names_the_member():
    with Evolution(torch.ones(7), population=4) as es:
        es.ask()
        with pytest.raises(CandidateError, match="fitness of member 2 in generation 1 is inf"):
            es.tell([1.0, 2.0, float("inf"), 0.0])


def test_another_word_is_refused():
    with pytest.raises(ConfigError, match=r"algo\.non_finite=last: must be one of raise, worst"):
        option("algo", "snes", PopulationAlgorithm, 3, {"non_finite": "last"})


def test_a_run_that_ended_so_is_resumed_with_such_members_last(tmp_path):
    """A network whose outputs overflow for some members: resume may change the key, and the metrics count them."""
    (tmp_path / "steep.py").write_text(
        "import torch\n"
        "class Steep(torch.nn.Linear):\n"
        "    input_shape = (1, 8, 8)\n"
        "    def __init__(self):\n"
        "        super().__init__(64, 10)\n"
        "    def forward(self, x):\n"
        "        y = super().forward(x.flatten(1))\n"
        "        return torch.where(self.bias.sum() > 0.3, torch.inf, 1.0) * y\n"
    )
    words = ("model._target_=steep.Steep", "population=16", "batch_size=16", "generations=4", "algo.sigma=0.5")
    refused = one_line(neuro_inside("train", *words, "hydra.run.dir=run", cwd=tmp_path))
    assert refused.startswith("loss of member")
    well(neuro_inside("resume", "run", "algo.non_finite=worst", "trust=steep", cwd=tmp_path))
    well(neuro_inside("train", *words, "algo.non_finite=worst", "hydra.run.dir=other", cwd=tmp_path))
    counts = read_metrics(tmp_path / "other" / "metrics.csv")["non_finite"]
    assert len(counts) == 4
    assert 0 < counts.max() < 16


def named(names: tuple[str, ...], column: int, has_loss: bool, fitness_is: str = "fitness") -> str:
    task = SimpleNamespace(score_names=names, has_loss=has_loss, fitness_is=fitness_is)
    scores = np.ones((4, len(names)))
    scores[2, column] = -np.inf
    with pytest.raises(CandidateError) as error:
        finite_members(scores, 4, "raise", task)
    return str(error.value)


def test_a_score_is_named_as_what_it_is():
    step = "lower algo.sigma or the learning rate, or look at the model's output"
    assert named(("fitness",), 0, False) == f"fitness of member 2 in generation 5 is -inf: {step}"
    assert named(("fitness",), 0, True).startswith(f"loss of member 2 in generation 5 is inf: {step} and the targets")
    assert named(("fitness", "loss"), 1, True).startswith(f"loss of member 2 in generation 5 is -inf: {step} and the targets")
    assert named(("fitness", "steps"), 0, False, "return").startswith("return of member 2 in generation 5 is -inf")
    assert named(("fitness", "z_0"), 1, False, "return").startswith(
        "z_0 of member 2 in generation 5 is -inf: look at what the task"
    )


def test_the_loss_of_a_batch_is_named(tmp_path):
    inputs, targets = torch.ones(4, 2), torch.tensor([-100, -100, -100, 0])
    task = neuro.task.Dataset(train=(inputs[:3], targets[:3]), test=(inputs, targets), loss=torch.nn.CrossEntropyLoss())
    options = {"model": torch.nn.Linear(2, 2), "task": task, "batch_size": 3, "generations": 1, "population": 4}
    for algo, whose in (("sgd", "the batch"), ("openai_es", "member 0")):
        with pytest.raises(CandidateError, match=rf"^loss of {whose} in generation 1 is nan: .*where no target counts"):
            neuro.train(folder=tmp_path / algo, algo=algo, **options)
