"""Room for ranks: what a rank has of its own counts for each of them, frozen numbers once a machine."""

import pytest
from support.configs import composed
from torch import nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.launch import capacity
from neuro_cli.runner.options import Options

NUMBERS = 10**8


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_numbers_count_once(frozen, monkeypatch):
    form = nn.Linear(NUMBERS, 1, bias=False, device="meta").requires_grad_(not frozen)
    monkeypatch.setattr(capacity, "form_of", lambda _: form)
    monkeypatch.setattr(capacity, "free_memory", lambda: 3 * capacity.RANK_BYTES + 4.0 * NUMBERS)
    options = Options(composed("threads=1"))
    if frozen:
        capacity.check_room(3, options)
        with pytest.raises(
            ConfigError, match=r"^ranks=4: they need about 1.8 GB, 350 MB each and 400 MB for all, .*: at most 3$"
        ):
            capacity.check_room(4, options)
    else:
        with pytest.raises(
            ConfigError, match=r"^ranks=3: they need about 4.7 GB, 1550 MB each, and 1.4 GB are free here: at most 1$"
        ):
            capacity.check_room(3, options)
