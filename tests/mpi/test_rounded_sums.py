"""Rounded and overlapped exchanges on real ranks: the same bits on any number of them, and fewer bytes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.shared_world import program_in_world
from support.worlds import Mpi

pytestmark = pytest.mark.xdist_group("ranks")

PROGRAM = Path(__file__).parent / "equality_program.py"
ALGORITHMS = ("snes", "tiny")
RANKS = (1, 2, 3)  # 4 ranks: the slow tests of test_equality.py
CU = ("chromosome_updates", "chromosome_updates-bfloat16", "chromosome_updates-int8", "chromosome_updates-overlap",
      "chromosome_updates-int8-overlap")  # fmt: skip
SU = ("semi_updates", "semi_updates-bfloat16", "semi_updates-int8")

Results = Callable[[str, str, int], np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("rounded")


def made(folder: Path, mpi: Mpi, sizes: tuple[int, ...]) -> Path:
    """A folder with all that one world of ``mpi`` trains, by as many of its ranks as ``sizes`` say."""
    place = folder / mpi.name
    if not place.exists():
        place.mkdir()
        words = [f"{size}:{','.join(ALGORITHMS)}:{','.join((*CU, *SU, *(('local',) if size == 1 else ())))}" for size in sizes]
        program_in_world(PROGRAM, str(place), *words, cwd=place, ranks=max(sizes), mpi=mpi)
    return place


@pytest.fixture
def centre(folder, mpi) -> Results:
    """The centre of (algorithm, distribution, ranks) after three generations."""

    def centre_of(algorithm: str, distribution: str, ranks: int) -> np.ndarray:
        return np.load(made(folder, mpi, RANKS if mpi.name == "own" else (3,)) / f"{algorithm}-{distribution}-{ranks}.npy")

    return centre_of


own = pytest.mark.parametrize("mpi", ["own"], indirect=True)


@own
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("wire", ["bfloat16", "int8"])
def test_rounded_slices_give_the_same_bits_on_any_number_of_ranks(centre, algorithm, wire, ranks):
    one = centre(algorithm, f"chromosome_updates-{wire}", 1)
    assert np.array_equal(centre(algorithm, f"chromosome_updates-{wire}", ranks), one)
    assert not np.array_equal(one, centre(algorithm, "local", 1)), "nothing was rounded"


@own
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["chromosome_updates", "chromosome_updates-int8"])
def test_overlap_changes_no_bit(centre, algorithm, name, ranks):
    assert np.array_equal(centre(algorithm, f"{name}-overlap", ranks), centre(algorithm, name, ranks))


@own
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["chromosome_updates-int8", "semi_updates-bfloat16", "semi_updates-int8"])
def test_rounded_sums_lead_nearly_the_same_way(centre, algorithm, name, ranks):
    """Adam turns first gradients that were rounded to zero into no step instead of a whole one: hence the width."""
    local = centre(algorithm, "local", 1)
    assert 0 < np.linalg.norm(centre(algorithm, name, ranks) - local) <= 0.1 * np.linalg.norm(local)


@own
@pytest.mark.parametrize(("wire", "share"), [("bfloat16", 1 / 2), ("int8", (1 + 4 / 256) / 4)])
def test_bytes_that_rank_0_hands_over(centre, folder, wire, share):
    """SNES sends two rows of M; a float64 for each member crosses along with them."""
    ranks, columns = 2, centre("snes", "local", 1).size
    centre("snes", "chromosome_updates", ranks)
    scores = 10 // ranks * 8

    def sent(name: str) -> int:
        return int((folder / "own" / f"snes-{name}-{ranks}.sent").read_text())

    assert sent("chromosome_updates") == 2 * (columns // ranks) * 4 + scores
    for method, whole in (("chromosome_updates", 2 * columns / ranks * 4), ("semi_updates", 2 * columns * 4)):
        assert sent(f"{method}-{wire}") - scores == pytest.approx(share * whole, rel=0.05), method
    assert sent("semi_updates") - scores == 2 * columns * 4


@pytest.mark.slow  # the default tests run on Open MPI in tests/mpi/test_equality.py, with unrounded sums
@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_open_mpi_exchanges_the_same(centre, algorithm):
    """Its non-blocking and its all-to-all collectives; where ranks sum up in one order, to the same bits."""
    assert np.array_equal(
        centre(algorithm, "chromosome_updates-int8-overlap", 3), centre(algorithm, "chromosome_updates-int8", 3)
    )
    exact = centre(algorithm, "semi_updates", 3)
    assert 0 < np.linalg.norm(centre(algorithm, "semi_updates-int8", 3) - exact) <= 0.1 * np.linalg.norm(exact)
