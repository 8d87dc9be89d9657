"""Files are written or refused, on file systems that cannot do all that others can."""

import errno
import logging
import os
import stat
from pathlib import Path

import pytest

from neuro_cli.core import files


@pytest.mark.parametrize(("number", "goes_on"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)])
def test_a_folder_that_cannot_be_synced_is_one_warning(number, goes_on, tmp_path: Path, monkeypatch, caplog) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(files, "_warned", set())
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    for content in (b"first", b"second"):
        if goes_on:
            files.write_atomically(tmp_path / "file", content)
            assert (tmp_path / "file").read_bytes() == content
        else:
            with pytest.raises(OSError, match=os.strerror(number)):
                files.write_atomically(tmp_path / "file", content)
    # compare by identity: a handler of the package's logger, left by a run in this process, sees a record once more
    assert len({id(each) for each in caplog.records if "does not sync folders" in each.getMessage()}) == goes_on
