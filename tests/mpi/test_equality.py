"""Every distribution method gives the centre of ``local``, on 1 to 4 real ranks, with P and M that do not divide.

On Open MPI as on MPICH. By default all algorithms on 3 ranks, some of them on 1, 2 and 4, and on 3 of Open MPI.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.configs import SAMPLERS
from support.shared_world import program_in_world
from support.worlds import Mpi, own_mpi

pytestmark = pytest.mark.xdist_group("ranks")

PROGRAM = Path(__file__).parent / "equality_program.py"
PER_EXAMPLE = ("per_example", "sign_flip", "low_rank", "activation", "control_variates")
# of the norm; least squares of control variates carry what was rounded on to the next generation
ROUNDED = {"control_variates": 1e-5}
ALGORITHMS = (
    *("openai_es", "iid", "snes", "genetic", "pgpe", "ars", "episodes", "accuracy", "permutation", "noise_table", "tiny"),
    *PER_EXAMPLE,
    *(name for name in SAMPLERS if name not in (*PER_EXAMPLE, "antithetic", "iid", "noise_table", "permutation")),
)
NETWORKS = {  # where it is not MNIST_10K
    "tiny": ("model._target_=tiny_nets.Tiny",),
    "episodes": ("task=lunar_lander", "task.id=CartPole-v1", "model=mlp_policy", "model.hidden=[7]"),
}
DISTRIBUTIONS = ("replicated", "replicated-machines", "chromosome_updates", "semi_updates", "data_parallel")
RANKS = (1, 2, 3, 4)
QUICK_ALGORITHMS = ("openai_es", "snes", "sign_flip")

# what one world of each MPI trains for the default tests: algorithms by the number of ranks
DEFAULT = {
    "own": {1: QUICK_ALGORITHMS, 2: QUICK_ALGORITHMS, 3: ALGORITHMS, 4: QUICK_ALGORITHMS},
    "openmpi": {3: QUICK_ALGORITHMS},
}

Centres = Callable[[Mpi, str, str, int], np.ndarray]


def cases() -> list:
    """(MPI, algorithm, ranks), those marked slow that are not of the default tests."""
    found = []
    for name, default in DEFAULT.items():
        for algorithm in ALGORITHMS:
            for ranks in RANKS:
                quick = algorithm in default.get(ranks, ())
                found.append(pytest.param(name, algorithm, ranks, marks=[] if quick else pytest.mark.slow))
    return found


each_case = pytest.mark.parametrize(("mpi", "algorithm", "ranks"), cases(), indirect=["mpi"])


@pytest.fixture(scope="module")
def centres(tmp_path_factory) -> Centres:
    """The centre of (MPI, algorithm, distribution, ranks) after three generations; one world trains all of the default tests."""
    folder = tmp_path_factory.mktemp("centres")

    def centre(mpi: Mpi, algorithm: str, distribution: str, ranks: int) -> np.ndarray:
        file = folder / mpi.name / f"{algorithm}-{distribution}-{ranks}.npy"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            plan = DEFAULT[mpi.name]
            if distribution != "local" and algorithm not in plan.get(ranks, ()):  # of the slow tests
                plan = {size: [name for name in ALGORITHMS if name not in plan.get(size, ())] for size in RANKS}
                plan = {size: names for size, names in plan.items() if names}
            words = [f"{size}:{','.join(names)}:{','.join(DISTRIBUTIONS)}" for size, names in plan.items()]
            local = [f"1:{','.join(ALGORITHMS)}:local"] if distribution == "local" else []
            program_in_world(PROGRAM, str(file.parent), *local, *words, cwd=file.parent, ranks=max(plan), mpi=mpi)
        return np.load(file)

    return centre


@pytest.fixture(scope="module")
def local(centres) -> Callable[[str], np.ndarray]:
    """The centre of an algorithm after three generations on one rank with ``distribution=local``."""
    if own_mpi().missing:
        pytest.skip(own_mpi().missing)
    return lambda algorithm: centres(own_mpi(), algorithm, "local", 1)


@each_case
@pytest.mark.parametrize("distribution", ["replicated", "replicated-machines", "chromosome_updates"])
def test_bit_for_bit(local, centres, mpi, algorithm, distribution, ranks):
    expected = local(algorithm)
    assert expected.size % 4, "M must not divide among the ranks"
    assert np.array_equal(centres(mpi, algorithm, distribution, ranks), expected)


@each_case
@pytest.mark.parametrize("distribution", ["semi_updates", "data_parallel"])
def test_within_rounding(local, centres, mpi, algorithm, distribution, ranks):
    if distribution == "data_parallel" and algorithm in PER_EXAMPLE:
        pytest.skip("data_parallel refuses layout=per_example")
    expected = local(algorithm)
    bound = ROUNDED.get(algorithm, 1e-6) * np.linalg.norm(expected)
    assert np.linalg.norm(centres(mpi, algorithm, distribution, ranks) - expected) <= bound


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_centres_moved(local, algorithm, monkeypatch):
    """The equalities would hold for centres that stand still."""
    from support.configs import composed

    from neuro_cli.core.layout import ParameterLayout
    from neuro_cli.runner.build import make_model
    from neuro_cli.runner.options import Options

    monkeypatch.syspath_prepend(Path(__file__).parent)
    model = make_model(Options(composed("model=MNIST_10K", *NETWORKS.get(algorithm, ()))).plain)
    start = ParameterLayout(model).flatten(model).numpy()
    assert np.linalg.norm(local(algorithm) - start) > 1e-3 * np.linalg.norm(start)
