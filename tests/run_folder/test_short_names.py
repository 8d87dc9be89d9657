"""outputs/train/latest leads to the last run and nowhere else; a part of a stamp is a name where it is the only one."""

import os
from pathlib import Path

import pytest
from support.inside import neuro_inside, one_line

from neuro_cli.core.errors import UserError
from neuro_cli.run_folder.short_names import folder_of, remember

FIRST, SECOND = "2026-11-22_13-06-51-236223", "2026-11-23_05-10-00-000001"
TINY = ("generations=1", "population=4", "threads=1", "batch_size=8")


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (FIRST, SECOND):
        (tmp_path / "outputs" / "train" / name).mkdir(parents=True)
    return tmp_path / "outputs"


def test_a_run_is_the_latest_and_its_name_is_short(tmp_path: Path) -> None:
    assert neuro_inside("train", *TINY, cwd=tmp_path).returncode == 0
    latest = tmp_path / "outputs" / "train" / "latest"
    first = os.readlink(latest)
    assert neuro_inside("train", *TINY, "seed=2", cwd=tmp_path).returncode == 0
    second = os.readlink(latest)
    assert first < second
    for name in ("latest", "train/latest", "outputs/train/latest", second[-9:]):
        done = neuro_inside("evaluate", name, cwd=tmp_path)
        assert f"outputs/train/{second}, generation 1" in done.stdout, done.stderr
    assert neuro_inside("resume", "latest", "generations=2", cwd=tmp_path).returncode == 0
    assert (tmp_path / "outputs" / "train" / second / "metrics.csv").read_text().count("\n") == 3
    into = neuro_inside("train", *TINY, "hydra.run.dir=outputs/train/latest", cwd=tmp_path)
    assert one_line(into).startswith("hydra.run.dir=outputs/train/latest: already contains a run")
    assert (tmp_path / "outputs" / "train" / second / "metrics.csv").read_text().count("\n") == 3


def test_a_folder_that_a_user_named_has_no_latest_beside_it(tmp_path: Path) -> None:
    assert neuro_inside("train", *TINY, "hydra.run.dir=mine", cwd=tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_sweep_is_the_latest_not_its_last_job(outputs: Path) -> None:
    remember(outputs / "train" / FIRST / "3")
    assert folder_of(Path("latest")) == Path("outputs/train") / FIRST
    (outputs / "train" / FIRST / "3").mkdir()
    assert folder_of(Path("outputs/train/latest/3")) == Path("outputs/train") / FIRST / "3"


@pytest.mark.parametrize("target", ["..", "/etc", "../../elsewhere", FIRST + "/checkpoints", "2026-01-01_00-00-00"])
def test_a_link_to_elsewhere_is_not_followed(outputs: Path, target: str) -> None:
    (outputs.parent / "elsewhere").mkdir()
    (outputs / "train" / "latest").symlink_to(target)
    with pytest.raises(UserError, match="latest: it leads to"):
        folder_of(Path("outputs/train/latest"))


def test_what_is_not_ours_stays(outputs: Path) -> None:
    latest = outputs / "train" / "latest"
    latest.mkdir()
    remember(outputs / "train" / FIRST)
    assert latest.is_dir()
    latest.rmdir()
    latest.write_text("notes of mine")
    remember(outputs / "train" / FIRST)
    assert latest.read_text() == "notes of mine"
    assert folder_of(Path("train/latest")) == Path("train/latest")


def test_a_part_of_a_stamp_must_be_the_only_one(outputs: Path) -> None:
    assert folder_of(Path("13-06")) == Path("outputs/train") / FIRST
    assert folder_of(Path("train/05-10-00")) == Path("outputs/train") / SECOND
    assert folder_of(Path("99-99")) == Path("99-99")
    assert folder_of(Path("../13-06")) == Path("../13-06")
    with pytest.raises(UserError, match=f"2026-11: ambiguous, matches outputs/train/{FIRST}, outputs/train/{SECOND}"):
        folder_of(Path("2026-11"))
