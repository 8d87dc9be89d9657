"""Checks of config values."""

import pytest

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "more"), [(64.0, ": write 64"), (1e1, ": write 10"), (6.5, ""), (0.0, ""), (float("nan"), ""), (True, "")]
)
def test_a_whole_number_with_a_point_is_answered_with_what_to_write(value, more):
    with pytest.raises(ConfigError) as error:
        integer("population", value, 1)
    assert str(error.value).endswith(f": must be an integer >= 1{more}")
