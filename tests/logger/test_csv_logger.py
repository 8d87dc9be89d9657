"""metrics.csv has every row exactly, and a resumed run continues it as if never killed."""

import logging
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import rows_of

from neuro_cli.core.errors import UserError
from neuro_cli.logger.columns import COST_COLUMNS, METRIC_COLUMNS, RANK_COLUMNS, TRAINING_COLUMNS
from neuro_cli.logger.csv import CsvLogger


def row(generation: int, **values: float | None) -> dict[str, int | float | None]:
    return {"generation": generation, "fitness_mean": -0.1 * generation, **values}


def session(
    run: Path, *rows: dict[str, int | float | None], resumed_at: int | None = None, evaluated: tuple[str, ...] = ()
) -> None:
    """Log ``rows``, each of which is on file at once."""
    logger = CsvLogger()
    logger.evaluated = evaluated
    logger.start(run, {}, resumed_at)
    for each in rows:
        logger.log(each)
        assert lines(run)[-1]["generation"] == str(each["generation"])
    logger.finish({})


def write(run: Path, generations: range, resumed_at: int | None = None) -> None:
    session(run, *map(row, generations), resumed_at=resumed_at)


def lines(run: Path) -> list[dict[str, str]]:
    return rows_of(run / "metrics.csv")


def test_columns_in_the_order_that_scripts_rely_on(tmp_path: Path) -> None:
    write(tmp_path, range(1, 3))
    first, second, third = (tmp_path / "metrics.csv").read_text().splitlines()
    assert first == (
        "generation,fitness_mean,fitness_best,train_loss,seconds,seconds_sample,seconds_forward,"
        "seconds_communicate,seconds_update,bytes_sent,bytes_received,candidates_per_second"
    )
    assert second == "1,-0.1,,,,,,,,,,"
    assert third == "2,-0.2,,,,,,,,,,"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats() | st.floats(width=32), min_size=1, max_size=5))
def test_floats_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    run = tmp_path_factory.mktemp("run")
    session(
        run, *({"generation": n, "fitness_mean": value, "train_loss": np.float64(value)} for n, value in enumerate(values, 1))
    )
    for line, value in zip(lines(run), values, strict=True):
        for column in ("fitness_mean", "train_loss"):
            back = float(line[column])
            assert math.isnan(value) if math.isnan(back) else struct.pack("d", back) == struct.pack("d", value)


def test_further_columns_come_with_the_first_row_only(tmp_path: Path) -> None:
    session(tmp_path, row(1, mean_return=3.5), row(2, mean_return=None))
    for wrong, kind, text in (
        (row(3, solved=0.9), ValueError, "no column solved; columns are set by the first row"),
        ({"generation": 3, "fitness_mean": "0.5"}, TypeError, "a metric is a number or None"),
    ):
        with pytest.raises(kind, match=text):
            session(tmp_path, wrong, resumed_at=2)
    session(tmp_path, row(3, mean_return=4.5), resumed_at=2)
    assert [line["mean_return"] for line in lines(tmp_path)] == ["3.5", "", "4.5"]
    assert list(lines(tmp_path)[0]) == [*METRIC_COLUMNS, "mean_return"]


@pytest.mark.parametrize("began", [True, False])
def test_a_file_that_began_on_one_rank_goes_on_without_efficiencies(tmp_path: Path, began: bool) -> None:
    """And one that began on several has empty cells on one rank."""
    efficiencies = dict.fromkeys(RANK_COLUMNS, 0.9)
    session(tmp_path, row(1, **({} if began else efficiencies)))
    session(tmp_path, row(2, **(efficiencies if began else {})), resumed_at=1)
    assert [line.get("weak_efficiency") for line in lines(tmp_path)] == ([None, None] if began else ["0.9", ""])


def test_a_new_run_does_not_overwrite(tmp_path: Path) -> None:
    write(tmp_path, range(1, 3))
    with pytest.raises(UserError, match="exists already; continue with: neuro resume"):
        session(tmp_path)
    assert len(lines(tmp_path)) == 2
    with pytest.raises(UserError, match=r"metrics.csv: cannot be written: No such file"):
        session(tmp_path / "nowhere")


@pytest.mark.parametrize("torn", ["", "8", "8,0.5", "7,-0.7000000000000001,,,", "\0\0\0"])
def test_going_on_gives_the_same_file_as_never_stopping(tmp_path: Path, torn: str) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    for run in (straight, broken):
        run.mkdir()
    write(straight, range(1, 11))
    write(broken, range(1, 8))
    with (broken / "metrics.csv").open("a") as file:
        file.write(torn)
    write(broken, range(5, 11), resumed_at=4)
    assert (broken / "metrics.csv").read_bytes() == (straight / "metrics.csv").read_bytes()


@pytest.mark.parametrize("content", [None, "", "generation,fitn", ",".join(METRIC_COLUMNS), ",".join(METRIC_COLUMNS) + "\n"])
def test_going_on_from_the_first_checkpoint(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "metrics.csv").write_text(content)
    write(tmp_path, range(1, 4), resumed_at=0)
    assert [line["generation"] for line in lines(tmp_path)] == ["1", "2", "3"]


def test_lost_rows_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, range(1, 4))
    with caplog.at_level(logging.WARNING):
        write(tmp_path, range(7, 8), resumed_at=6)
        assert "rows of generations 4 to 6 are missing" in caplog.text
        (tmp_path / "metrics.csv").unlink()
        write(tmp_path, range(7, 8), resumed_at=6)
        assert "is missing: rows of generations up to 6 are lost" in caplog.text


ROW = "{0},-0.{0},-0.{0},,{1},,,,,64,,9.5\n"


@pytest.mark.parametrize(
    "order",
    [
        [1, 2, 3, 4, 5, 3, 4, 5, 6],  # two commands, one after the other
        [2, 1, 3, 3, 4, 4, 6, 5],  # side by side
    ],
)
def test_doubled_and_disordered_rows_become_those_of_one_command(tmp_path: Path, order: list[int], caplog) -> None:
    """The first row of each generation stays: its numbers are the same, the seconds are those of one command or the other."""
    head = ",".join(METRIC_COLUMNS) + "\n"
    (tmp_path / "metrics.csv").write_text(head + "".join(ROW.format(number, place) for place, number in enumerate(order)))
    with caplog.at_level(logging.WARNING):
        write(tmp_path, range(6, 8), resumed_at=5)
    assert ("rows were doubled, damaged or out of order" in caplog.text) == (order[:5] != [1, 2, 3, 4, 5])  # else a cut does
    found = [line["generation"] for line in lines(tmp_path)]
    assert found == ["1", "2", "3", "4", "5", "6", "7"]
    expected = head + "".join(ROW.format(number, order.index(number)) for number in range(1, 6))
    assert (tmp_path / "metrics.csv").read_text().startswith(expected)


def test_a_cell_that_is_no_number_is_damage(tmp_path: Path, caplog) -> None:
    """No plot or report takes such a row, so it goes with a warning."""
    write(tmp_path, range(1, 6))
    content = (tmp_path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").write_bytes(content.replace(b"2,-0.2", b"2,-0x2").replace(b"4,-0.4", b"4,-0\xff4"))
    with caplog.at_level(logging.WARNING):
        write(tmp_path, range(6, 7), resumed_at=5)
    assert [line["generation"] for line in lines(tmp_path)] == ["1", "3", "5", "6"]
    assert "rows were doubled, damaged or out of order" in caplog.text
    assert "rows of generations 2 to 2 and 1 more are missing" in caplog.text


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    write(tmp_path, range(1, 4))
    (tmp_path / "metrics.csv").rename(tmp_path / "elsewhere")
    content = (tmp_path / "elsewhere").read_bytes()
    (tmp_path / "metrics.csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"metrics\.csv: it is a symbolic link"):
        CsvLogger().start(tmp_path, {}, 2)
    assert (tmp_path / "elsewhere").read_bytes() == content


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,loss\n1,2\n")
    with pytest.raises(UserError, match="line 1 is not the header"):
        CsvLogger().start(tmp_path, {}, 1)
    assert (tmp_path / "metrics.csv").read_text() == "epoch,loss\n1,2\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").symlink_to("/dev/full")
    logger = CsvLogger()
    logger._columns, logger.path, logger._file = list(METRIC_COLUMNS), tmp_path, (tmp_path / "metrics.csv").open("a")
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        logger.log(row(1))


def test_seconds_sigma_and_rate_come_last_and_a_file_of_an_earlier_version_goes_on_without(tmp_path: Path) -> None:
    later = {"elapsed_seconds": 1.5, "sigma": 0.05, "rate": None}
    for run, first in (("new", row(1, **later, weak_efficiency=0.5)), ("old", row(1, weak_efficiency=0.5))):
        (tmp_path / run).mkdir()
        session(tmp_path / run, first)
        session(tmp_path / run, row(2, **later, weak_efficiency=0.5), resumed_at=1)
    assert list(lines(tmp_path / "new")[1])[-4:] == ["weak_efficiency", *later]
    assert lines(tmp_path / "new")[1]["sigma"] == "0.05"
    assert list(lines(tmp_path / "old")[1]) == [*METRIC_COLUMNS, "weak_efficiency"]


def test_metrics_of_the_test_stand_behind_those_of_training(tmp_path: Path) -> None:
    session(tmp_path, row(1, episode_length=9, mean_return=None, sigma=0.1), evaluated=("mean_return",))
    assert list(lines(tmp_path)[0]) == [*TRAINING_COLUMNS, "mean_return", *COST_COLUMNS, "episode_length", "sigma"]
