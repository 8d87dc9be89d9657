"""Every distribution method gives the centre of ``local``, on 1 to 4 real ranks, with P and M that do not divide."""

import json
from pathlib import Path

import numpy as np
import pytest
from worlds import needs_mpi, program

pytestmark = needs_mpi

PER_EXAMPLE = ("per_example", "sign_flip", "low_rank")
ALGORITHMS = ("openai_es", "iid", "snes", "genetic", "accuracy", "permutation", "noise_table", "tiny", *PER_EXAMPLE)
ROUNDED = ("snes", "tiny")
RANKS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def centres(tmp_path_factory) -> Path:
    """Folder with the centre after five generations of every algorithm, distribution and rank count."""
    folder = tmp_path_factory.mktemp("centres")
    for ranks in RANKS:
        done = program(Path(__file__).parent / "equality_program.py", str(folder), cwd=folder, ranks=ranks)
        assert done.returncode == 0, done.stderr[-3000:]
    return folder


def centre(folder: Path, algorithm: str, distribution: str, ranks: int) -> np.ndarray:
    return np.load(folder / f"{algorithm}-{distribution}-{ranks}.npy")


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("distribution", ["replicated", "chromosome_updates"])
def test_bit_for_bit(centres, algorithm, distribution, ranks):
    local = centre(centres, algorithm, "local", 1)
    assert local.size % 4, "M must not divide among the ranks"
    assert np.array_equal(centre(centres, algorithm, distribution, ranks), local)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("distribution", ["semi_updates", "data_parallel"])
def test_within_rounding(centres, algorithm, distribution, ranks):
    if distribution == "data_parallel" and algorithm in PER_EXAMPLE:
        pytest.skip("data_parallel refuses layout=per_example")
    local = centre(centres, algorithm, "local", 1)
    other = centre(centres, algorithm, distribution, ranks)
    assert np.linalg.norm(other - local) <= 1e-6 * np.linalg.norm(local)


@pytest.mark.parametrize("algorithm", ROUNDED)
@pytest.mark.parametrize("wire", ["bfloat16", "int8"])
def test_rounded_slices_give_the_same_bits_on_any_number_of_ranks(centres, algorithm, wire):
    one = centre(centres, algorithm, f"chromosome_updates-{wire}", 1)
    for ranks in RANKS:
        assert np.array_equal(centre(centres, algorithm, f"chromosome_updates-{wire}", ranks), one), ranks
    assert not np.array_equal(one, centre(centres, algorithm, "local", 1)), "nothing was rounded"


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ROUNDED)
@pytest.mark.parametrize("name", ["chromosome_updates", "chromosome_updates-int8"])
def test_overlap_changes_no_bit(centres, algorithm, name, ranks):
    assert np.array_equal(centre(centres, algorithm, f"{name}-overlap", ranks), centre(centres, algorithm, name, ranks))


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ROUNDED)
@pytest.mark.parametrize("name", ["chromosome_updates-int8", "semi_updates-bfloat16", "semi_updates-int8"])
def test_rounded_sums_lead_nearly_the_same_way(centres, algorithm, name, ranks):
    """Adam turns first gradients that were rounded to zero into no step instead of a whole one: hence the width."""
    local = centre(centres, algorithm, "local", 1)
    other = centre(centres, algorithm, name, ranks)
    assert 0 < np.linalg.norm(other - local) <= 0.1 * np.linalg.norm(local)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("wire", "share"), [("bfloat16", 1 / 2), ("int8", (1 + 4 / 256) / 4)])
def test_bytes_that_rank_0_hands_over(centres, ranks, wire, share):
    """SNES sends two rows of M; beside them crosses a float32 for each member."""
    sent = json.loads((centres / f"sent-{ranks}.json").read_text())
    scores = 10 // ranks * 4
    columns = centre(centres, "snes", "local", 1).size
    assert sent["snes-chromosome_updates"] == 2 * (columns // ranks) * 4 + scores
    for method, whole in (("chromosome_updates", 2 * columns / ranks * 4), ("semi_updates", 2 * columns * 4)):
        assert sent[f"snes-{method}-{wire}"] - scores == pytest.approx(share * whole, rel=0.05), method
    assert sent["snes-semi_updates"] - scores == 2 * columns * 4


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_centres_moved(centres, algorithm, monkeypatch):
    """The equalities would hold for centres that stand still."""
    from configs import composed

    from neuro_cli.core.layout import ParameterLayout
    from neuro_cli.runner.build import make_model

    monkeypatch.syspath_prepend(Path(__file__).parent)
    model = make_model(composed("model=MNIST_10K", *(["model._target_=tiny_nets.Tiny"] if algorithm == "tiny" else [])))
    start = ParameterLayout(model).flatten(model).numpy()
    assert np.linalg.norm(centre(centres, algorithm, "local", 1) - start) > 1e-3 * np.linalg.norm(start)
