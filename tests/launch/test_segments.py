"""Shared memory of killed ranks is named; that of a living world, or an older one, is not."""

import os
from pathlib import Path

from neuro_cli.launch.segments import left_since


def test_only_what_nobody_uses_and_this_run_made(tmp_path: Path) -> None:
    shm, proc = tmp_path / "shm", tmp_path / "proc"
    shm.mkdir()
    (proc / "12").mkdir(parents=True)
    for name, made in (("mpich_shm_a_0", 200), ("mpich_shm_b_0", 200), ("sm_segment.host.0.c.0", 150), ("mpich_shm_d_0", 50)):
        (shm / name).touch()
        os.utime(shm / name, (made, made))
    (shm / "mine").touch()
    (proc / "12" / "maps").write_text("7f00-7f01 rw-s 00000000 00:19 5 /dev/shm/mpich_shm_b_0\n")
    assert [path.name for path in left_since(100.0, shm, proc)] == ["mpich_shm_a_0", "sm_segment.host.0.c.0"]
    assert len(list(shm.iterdir())) == 5, "nothing is removed"
