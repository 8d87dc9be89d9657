"""No search for cycles while modules load; afterwards as before, however the block ends."""

import gc

import pytest

from neuro_cli.core.machine.garbage import no_search


@pytest.mark.parametrize("before", [True, False])
def test_the_search_is_as_before_when_the_block_has_failed(before):
    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with no_search():
            assert not gc.isenabled()
        assert gc.isenabled() is before
        with pytest.raises(ImportError), no_search():
            raise ImportError
        assert gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()
