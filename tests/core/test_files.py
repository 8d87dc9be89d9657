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


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_content_is_on_disk_before_it_gets_its_name(kind, tmp_path: Path, monkeypatch) -> None:
    """Else a machine that goes down leaves a complete name with empty pages, and the next run takes them for a model."""
    new, path, order = tmp_path / "new", tmp_path / "name", list[str]()
    inner = new / "deep" / "weights" if kind == "folder" else new
    inner.parent.mkdir(parents=True, exist_ok=True)
    inner.write_bytes(b"content")
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: order.append(os.readlink(f"/proc/self/fd/{handle}")) or sync(handle))
    monkeypatch.setattr(os, "replace", lambda *given: order.append("named") or replace(*given))
    files.name_complete(new, path)
    before, after = order[: order.index("named")], order[order.index("named") + 1 :]
    assert set(before) == {str(part) for part in {new, inner, inner.parent} - {tmp_path}}
    assert after == [str(tmp_path)]
    assert (path / "deep" / "weights" if kind == "folder" else path).read_bytes() == b"content"


def test_an_error_of_any_kind_leaves_the_old_file_alone(tmp_path: Path) -> None:
    """A library has errors of its own where the disk is full."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write(new: Path) -> None:
        new.write_bytes(b"half")
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        files.replace_atomically(path, write)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("other_ends", ["named", "killed"])
def test_two_processes_that_write_one_file_leave_a_complete_one(other_ends, tmp_path: Path) -> None:
    """The other begins amid this one's write, and ends with the name or by a kill amid its own."""
    path = tmp_path / "file"

    def write_also(new: Path) -> None:
        new.write_bytes(b"their half")
        if other_ends == "killed":
            os._exit(0)
        new.write_bytes(b"theirs")

    def write(new: Path) -> None:
        new.write_bytes(b"ours")
        if (pid := os.fork()) == 0:
            try:
                files.replace_atomically(path, write_also)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        if other_ends == "named":
            assert path.read_bytes() == b"theirs"

    files.replace_atomically(path, write)
    assert path.read_bytes() == b"ours"
    assert len(list(tmp_path.iterdir())) == 1 + (other_ends == "killed")
    files.write_atomically(path, b"new")  # removes what the killed one left
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]
