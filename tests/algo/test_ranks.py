"""What an algorithm learns beyond a plain centre has the same bits on any number of ranks and after a resume.

The contracts show it for every algorithm's defaults.
"""

import numpy as np
import pytest
from algo_lab import evolved, has_the_same_bits_on_ranks_and_after_a_resume

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess

SIGMAS = {"*.weight": {"sigma": 2.0}, "0.bias": {"sigma": 0.25}}
FACTORS = SIGMAS | {"2.*": {"lr": 3.0}, "*.weight": {"sigma": 2.0, "lr": 0.5}}
ADAPTED = ({"sigma": "csa", "lr": "snr"}, {"sigma": "psr", "lr": "none"})
WITH_AVERAGE = ("openai_es", "forward_gradient", "ars", "pgpe")
CASES = [
    *(("openai_es", {"adapt": adapt}) for adapt in ADAPTED),
    ("openai_es", {"shaping": "pair_rank", "top_share": 0.5}),
    *((name, {"layers": FACTORS}) for name in ("openai_es", "snes", "pgpe", "ars")),
    *((name, {"layers": SIGMAS}) for name in ("genetic", "sep_cma_es")),
]


@pytest.mark.parametrize(("algo", "values"), CASES)
def test_what_it_learns_has_the_same_bits_on_any_number_of_ranks_and_after_a_resume(algo, values):
    values |= {"parents": 3} if algo == "genetic" else {}
    whole = has_the_same_bits_on_ranks_and_after_a_resume(algo, values)
    assert np.isfinite(whole).all()
    plain = {name: value for name, value in values.items() if name in ("sigma", "parents")}
    assert plain == values or not np.array_equal(evolved(SingleProcess(), algo, plain, "replicated"), whole)


@pytest.mark.parametrize("algo", WITH_AVERAGE)
def test_the_average_has_them_and_the_centre_goes_its_own_way(algo):
    average, centre = has_the_same_bits_on_ranks_and_after_a_resume(algo, {"average": 0.8}, ("replicated", "chromosome_updates"))
    plain, same = evolved(SingleProcess(), algo, {}, "local")
    np.testing.assert_array_equal(plain, same)
    np.testing.assert_array_equal(centre, plain)
    assert not np.array_equal(average, centre)
    for share in (1.0, -0.1, "half", float("nan")):
        with pytest.raises(ConfigError, match=r"algo\.average=.*: must be a number >= 0 and < 1"):
            evolved(SingleProcess(), algo, {"average": share}, "local")


def test_a_share_of_the_pairs_needs_a_shaping_of_pairs():
    line = r"algo\.top_share=0.5: algo\.shaping must be one of pairs: pair_z_score or pair_rank"
    with pytest.raises(ConfigError, match=line):
        evolved(SingleProcess(), "openai_es", {"top_share": 0.5}, "local")
    for share in (0.0, 1.5, "half"):
        with pytest.raises(ConfigError, match=r"algo\.top_share=.*: must be a number > 0 and <= 1"):
            evolved(SingleProcess(), "openai_es", {"top_share": share, "shaping": "pair_rank"}, "local")
