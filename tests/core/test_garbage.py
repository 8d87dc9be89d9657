"""No search for cycles while modules load; afterwards as before, however the block ends."""

import gc
import subprocess
import sys

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


@pytest.mark.parametrize("keeps", [True, False])
def test_only_a_process_of_the_commands_own_keeps_what_loads(keeps):
    program = f"""
import gc
from neuro_cli.core.machine.garbage import keep_modules, no_search
frozen = gc.get_freeze_count()  # Python 3.12 begins with some
if {keeps}:
    keep_modules()
with no_search():
    pass
print(gc.isenabled(), gc.get_freeze_count() > frozen)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", str(keeps)]
