"""Every distribution method gives the centre of ``local``, on 1 to 4 real ranks, with P and M that do not divide.

On Open MPI as on MPICH. By default all algorithms on 3 ranks, some of them on 1, 2 and 4, and on 3 of Open MPI.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from configs import SAMPLERS
from worlds import Mpi, program

PROGRAM = Path(__file__).parent / "equality_program.py"
PER_EXAMPLE = ("per_example", "sign_flip", "low_rank")
ALGORITHMS = (
    *("openai_es", "iid", "snes", "genetic", "pgpe", "ars", "episodes", "accuracy", "permutation", "noise_table", "tiny"),
    *PER_EXAMPLE,
    *(name for name in SAMPLERS if name not in (*PER_EXAMPLE, "antithetic", "iid", "noise_table", "permutation")),
)
NETWORKS = {  # where it is not MNIST_10K
    "tiny": ("model._target_=tiny_nets.Tiny",),
    "episodes": ("task=lunar_lander", "task.id=CartPole-v1", "model=mlp_policy", "model.hidden=[7]"),
}
DISTRIBUTIONS = ("replicated", "chromosome_updates", "semi_updates", "data_parallel")
RANKS = (1, 2, 3, 4)
QUICK_ALGORITHMS = ("openai_es", "snes", "sign_flip")

Centres = Callable[[Mpi, str, str, int], np.ndarray]


def cases() -> list:
    """(MPI, algorithm, ranks), those marked slow that are not of the default tests."""
    found = []
    for name in ("own", "openmpi"):
        for algorithm in ALGORITHMS:
            for ranks in RANKS:
                some = algorithm in QUICK_ALGORITHMS
                quick = (some or ranks == 3) if name == "own" else (some and ranks == 3)
                found.append(pytest.param(name, algorithm, ranks, marks=[] if quick else pytest.mark.slow))
    return found


each_case = pytest.mark.parametrize(("mpi", "algorithm", "ranks"), cases(), indirect=["mpi"])


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> Callable[[str], np.ndarray]:
    """The centre of an algorithm after three generations in one process."""
    folder = tmp_path_factory.mktemp("local")
    done = program(PROGRAM, str(folder), ",".join(ALGORITHMS), "local", cwd=folder, ranks=0)
    assert done.returncode == 0, done.stderr[-3000:]
    return lambda algorithm: np.load(folder / f"{algorithm}-local-1.npy")


@pytest.fixture(scope="module")
def centres(tmp_path_factory) -> Centres:
    """The centre of (MPI, algorithm, distribution, ranks) after three generations; algorithms of one kind run together."""
    rest = tuple(name for name in ALGORITHMS if name not in QUICK_ALGORITHMS)
    folder = tmp_path_factory.mktemp("centres")

    def centre(mpi: Mpi, algorithm: str, distribution: str, ranks: int) -> np.ndarray:
        place = folder / mpi.name
        file = place / f"{algorithm}-{distribution}-{ranks}.npy"
        if not file.exists():
            place.mkdir(exist_ok=True)
            kinds = (ALGORITHMS,) if mpi.name == "own" and ranks == 3 else (QUICK_ALGORITHMS, rest)
            kind = next(kind for kind in kinds if algorithm in kind)
            done = program(PROGRAM, str(place), ",".join(kind), ",".join(DISTRIBUTIONS), cwd=place, ranks=ranks, mpi=mpi)
            assert done.returncode == 0, done.stderr[-3000:]
        return np.load(file)

    return centre


@each_case
@pytest.mark.parametrize("distribution", ["replicated", "chromosome_updates"])
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
    assert np.linalg.norm(centres(mpi, algorithm, distribution, ranks) - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_centres_moved(local, algorithm, monkeypatch):
    """The equalities would hold for centres that stand still."""
    from configs import composed

    from neuro_cli.core.layout import ParameterLayout
    from neuro_cli.runner.build import make_model
    from neuro_cli.runner.options import Options

    monkeypatch.syspath_prepend(Path(__file__).parent)
    model = make_model(Options(composed("model=MNIST_10K", *NETWORKS.get(algorithm, ()))).plain)
    start = ParameterLayout(model).flatten(model).numpy()
    assert np.linalg.norm(local(algorithm) - start) > 1e-3 * np.linalg.norm(start)
