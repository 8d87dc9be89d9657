"""Weights of candidates: on their way as bounded text, checked where they arrive, kept as safetensors."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load, load_file, save
from support.configs import composed
from support.facts import read_facts
from support.inside import neuro_inside, one_line, well
from torch import nn

from neuro_cli.broker.worker.kinds import RESULT_VARIABLE
from neuro_cli.core.errors import UserError
from neuro_cli.factory.instantiate import make
from neuro_cli.model.module_cnn import ModuleCNN
from neuro_cli.pool.base import WorkUnit
from neuro_cli.search.candidate import network_of, scores, task_of
from neuro_cli.search.command import check, completed
from neuro_cli.search.engine import Engine
from neuro_cli.search.record import SearchRecord
from neuro_cli.search.weights import ROOM, WeightsFolder, packed, unpacked
from neuro_cli.task.classification import Classification

TINY = ("max_layers=2", "strategy.population=3", "training.epochs=1", "training.batch_size=256", "model.filters=2")


def test_weights_are_those_that_were_packed_and_of_the_right_architecture():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).to(memory_format=torch.channels_last)
    model(torch.rand(2, 1, 5, 5))
    text = packed(model)["weights"]
    data = unpacked(text, model)
    assert data == save({name: value.contiguous() for name, value in model.state_dict().items()})
    with pytest.raises(UserError, match=r"^they are of another architecture$"):
        unpacked(text, nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)))
    with pytest.raises(UserError, match=r"^they are of another architecture$"):
        unpacked(text, nn.Sequential(nn.Conv2d(1, 2, 3)))


@pytest.mark.parametrize(
    "text", [None, 7, "", "not base64", base64.b64encode(b"\x80\x04N.").decode(), base64.b64encode(b"\xff" * 99).decode()]
)
def test_what_is_no_weights_is_refused(text):
    with pytest.raises(UserError, match=r"^they are no safetensors \("):
        unpacked(text, nn.Linear(1, 1))


def test_weights_that_no_message_takes_stay_behind(monkeypatch):
    size = len(packed(nn.Linear(50, 50))["weights"])
    monkeypatch.setenv(RESULT_VARIABLE, str(size + ROOM))
    assert set(packed(nn.Linear(50, 50))) == {"weights"}
    monkeypatch.setenv(RESULT_VARIABLE, str(size + ROOM - 1))
    assert packed(nn.Linear(50, 50)) == {
        "weights_error": f"they take {size} bytes, {size - 1} fit into a result (security.message_bytes)"
    }


def test_a_payload_asks_for_weights_only_where_they_are_kept():
    config = completed(check(composed(verb="search")))
    plain = task_of(config, ("3x3",), "a")
    assert task_of(replace(config, keep_weights="none"), ("3x3",), "a") == plain
    assert not isinstance(plain.payload, bytes)
    assert "weights" not in plain.payload
    assert task_of(replace(config, keep_weights="best"), ("3x3",), "a") == WorkUnit(
        task_of(replace(config, keep_weights="all"), ("3x3",), "a").id, "candidate", {**plain.payload, "weights": True}
    )
    assert {value.device.type for value in network_of(config, ("3x3",)).state_dict().values()} == {"meta"}


def test_only_the_kept_ones_stay(tmp_path):
    folder = WeightsFolder(tmp_path)
    for number in range(1, 5):
        folder.write(number, b"x")
    (tmp_path / "weights" / "mine.txt").touch()
    folder.keep([2, 4, 9])
    assert sorted(path.name for path in (tmp_path / "weights").iterdir()) == [
        "candidate_2.safetensors", "candidate_4.safetensors", "mine.txt",
    ]  # fmt: skip


def test_a_search_that_kept_no_weights_says_how_to_keep_them(tmp_path):
    well(neuro_inside("search", *TINY, "trainings=1", *INSIDE, "hydra.run.dir=run", cwd=tmp_path))
    assert "were not kept: keep_weights=best keeps them" in one_line(neuro_inside("export", "run", cwd=tmp_path))


def test_a_word_that_is_none_is_refused(tmp_path):
    assert one_line(neuro_inside("search", "keep_weights=some", cwd=tmp_path)) == (
        "keep_weights=some: must be one of none, best, all"
    )


INSIDE = ("pool=embedded", "pool._target_=made_pool.InsidePool")


@pytest.mark.parametrize(
    ("pool", "keep", "files"),
    [
        (INSIDE, "best", 2),
        *(pytest.param(("pool.workers=1",), keep, files, marks=pytest.mark.slow) for keep, files in (("best", 2), ("all", 5))),
    ],
)
def test_the_weights_of_a_search_have_the_accuracy_that_it_found(tmp_path, pool, keep, files):
    sizes = ("trainings=5", "best=2", *pool, "model.batch_norm=true", f"keep_weights={keep}")
    well(neuro_inside("search", *TINY, *sizes, "hydra.run.dir=run", cwd=tmp_path))
    run = tmp_path / "run"
    assert len(list((run / "weights").iterdir())) == files
    for place in (1, 2):
        text = (run / "best" / f"best_{place}.yaml").read_text()
        weights = run / text.splitlines()[0].partition("; weights: ")[2]
        options = yaml.safe_load(text)
        options.pop("_target_")
        model = ModuleCNN(**options)
        model.load_state_dict(load_file(weights))
        assert accuracy_of(model) == pytest.approx(found(run, options["module"]))
        if place == 1:
            well(neuro_inside("export", "run", "file=net.safetensors", cwd=tmp_path))
            exported = load_file(tmp_path / "net.safetensors")
            assert all(torch.equal(exported[name], tensor) for name, tensor in model.state_dict().items())
            assert read_facts(tmp_path / "net.safetensors")["inputs"]["classes"] == [str(digit) for digit in range(10)]


def test_weights_stay_until_a_checkpoint_no_longer_counts_on_them(tmp_path, monkeypatch):
    """Else a search that is killed between the two has a best network without its weights."""
    folder, held, real = tmp_path / "run" / "weights", list[set[str]](), SearchRecord.save

    def save(record: SearchRecord, engine: Engine, seconds: float) -> None:
        before = {path.name for path in folder.glob("*")}
        assert not held or held[-1] <= before
        real(record, engine, seconds)
        held.append({path.name for path in folder.glob("*")})

    monkeypatch.setattr(SearchRecord, "save", save)
    well(neuro_inside("search", *TINY, "trainings=6", "best=1", *INSIDE, "keep_weights=best", "hydra.run.dir=run", cwd=tmp_path))
    assert [len(names) for names in held] == [0] + [1] * 6
    assert len({*map(frozenset, held[1:])}) > 1  # a better one took the place of another


def accuracy_of(model: nn.Module) -> float:
    """Test accuracy on the digits."""
    task: Classification = make(composed(verb="search"), "task", Classification)
    data = task.read(None)
    return scores(model, task, data, data.test)[0]


def found(run: Path, module: list[str]) -> float:
    rows = [line.split(",") for line in (run / "candidates.csv").read_text().splitlines()]
    (row,) = (row for row in rows if row[3] == " ".join(module))
    assert json.loads((run / "summary.json").read_text())["complete"]
    return float(row[9])


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight = self.first.weight
        self.register_buffer("links", torch.eye(3).to_sparse())

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 1}


def test_tied_weights_sparse_buffers_and_other_state_of_a_candidate():
    model = Kept()
    data = unpacked(packed(model)["weights"], model)
    assert load(data).keys() == {"first.weight", "first.bias", "last.weight", "last.bias"}
