"""Data as people have it: frames, tables in files, datasets of Hugging Face, iterables."""

import sys
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.adapters import Table, encoded
from neuro_cli.task.dataset import Dataset
from neuro_cli.task.inputs import as_plain, from_plain


class Endless(IterableDataset):
    """Pairs without an end, or dicts with names."""

    def __init__(self, named: bool = False) -> None:
        self.named = named

    def __iter__(self):
        number = 0
        while True:
            pair = torch.full((3,), float(number)), number % 2
            yield {"x": pair[0], "y": pair[1]} if self.named else pair
            number += 1


class Counted(Endless):
    """With a length, as many have one. torch's base class has a ``__getitem__`` that only raises."""

    def __len__(self) -> int:
        return 5


def frames(rows: int = 6):
    pandas = pytest.importorskip("pandas")
    train = pandas.DataFrame(
        {
            "length": np.linspace(0, 1, rows),
            "colour": pandas.Categorical(["red", "blue"] * (rows // 2)),
            "count": range(rows),
            "kind": ["cat", "dog", "owl"] * (rows // 3),
        }
    )
    return train, train[train["kind"] != "cat"].assign(colour="blue").reset_index(drop=True)


def test_frames_have_numbers_categories_and_class_names():
    train, test = frames()
    data = Dataset(train, test).read(None)
    assert data.names == ("cat", "dog", "owl")
    assert data.classes == 3
    assert data.train.images.tolist()[1] == pytest.approx([0.2, 1.0, 1.0, 0.0])  # length, count, blue, red
    assert data.train.targets.tolist() == [0, 1, 2] * 2
    assert data.test.targets.tolist() == [1, 2] * 2, "a class that the test lacks moves no number"
    assert data.test.images[:, 2].tolist() == [1.0] * 4


@pytest.mark.filterwarnings("error")  # pandas 3 hands out memory that torch may not write
def test_a_frame_and_its_targets_are_a_pair():
    train, test = frames()
    pairs = [(each.drop(columns=each.columns[-1]), each[each.columns[-1]]) for each in (train, test)]
    whole, apart = Dataset(train, test), Dataset(*pairs)
    assert apart.read(None).names == whole.read(None).names
    for part in ("train", "test"):
        one, other = (getattr(task.read(None), part) for task in (apart, whole))
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.targets, other.targets)
    assert Dataset(*[(inputs, list(targets)) for inputs, targets in pairs]).read(None).names == whole.read(None).names
    with pytest.raises(ConfigError, match=r"task.train=a pair: must have a target for each of the frame's 6 rows, not \(5,\)"):
        Dataset((pairs[0][0], pairs[0][1][:5]), pairs[1])


def test_a_frame_with_numbers_as_targets_takes_a_loss():
    train, test = frames()
    task = Dataset(train, test, fields=["all", "length"], loss=torch.nn.MSELoss())
    assert task.model_arguments(None) == {"input_shape": [6], "inputs": 6, "outputs": 1}


def test_frames_that_do_not_fit_are_refused():
    train, test = frames()
    with pytest.raises(ConfigError, match=r"task.test=DataFrame: both must be frames with the same columns"):
        Dataset(train, test.drop(columns="count"))
    with pytest.raises(ConfigError, match=r"task.fields=sort: no such column; valid are colour, count, kind, length"):
        Dataset(train, test, fields=["all", "sort"])
    with pytest.raises(ConfigError, match=r"task.fields=kidn: no such column; did you mean kind\?"):
        Dataset(train, test, fields=["all", "kidn"])
    with pytest.raises(TypeError, match=r"^Dataset\(\) has no argument field; did you mean fields\?"):
        Dataset(train, test, field=["all", "kind"])
    with pytest.raises(ConfigError, match=r"column length has empty cells"):
        Dataset(train.assign(length=np.nan), test)
    with pytest.raises(ConfigError, match=r"columns length, colour have empty cells"):
        Dataset(train.assign(length=np.nan, colour=None), test)
    with pytest.raises(ConfigError, match=r"task.test=a frame: it has no rows"):
        Dataset(train, test[:0])
    with pytest.raises(ConfigError, match=r"has one column, a;b: an input and a target are needed, in a .csv with commas"):
        Dataset(*[each[["kind"]].rename(columns={"kind": "a;b"}) for each in (train, test)])
    with pytest.raises(ConfigError, match=r"two columns are called count"):
        Dataset(*[each.rename(columns={"length": "count"}) for each in (train, test)])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            np.datetime64("2024-01-31", "s"),
            r"column more is datetime64\[n?s\] \(datetime64\): make numbers of it, as days",
        ),
        (np.timedelta64(3, "s"), r"column more is timedelta64\[n?s\] \(timedelta64\): make numbers"),
        (1j, r"column more is complex128 \(complex\): make numbers"),
        (Decimal("1.5"), r"column more is object \(decimal\): make numbers"),
        ([1.0, 2.0], r"column more is object \(mixed\): make numbers"),
        (1e300, r"column more has numbers that are not finite in float32"),
    ],
)
def test_a_column_that_is_neither_of_numbers_nor_of_texts_is_refused(value, said):
    made = [each.assign(more=[value] * len(each)) for each in frames()]
    for columns in (["more", "kind"], ["count", "more"]):
        if value != 1e300 or columns[0] == "more":
            with pytest.raises(ConfigError, match=said):
                Dataset(*[each[columns] for each in made])


def test_rows_of_a_table_are_encoded_as_training_encoded_them():
    train, test = frames()
    task = Dataset(train, test)
    task.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=2)
    columns = task.inputs().columns
    assert columns == (("length", None), ("count", None), ("colour", "blue"), ("colour", "red"))
    assert from_plain(as_plain(task.inputs())) == task.inputs()
    rows = encoded(train[["kind", "count", "colour", "length"]][::-1], columns)
    assert torch.equal(torch.from_numpy(rows).flip(0), Dataset(train, test).read(None).train.images)
    for wrong, said in (
        (train.drop(columns="count"), "it has no column count"),
        (train.assign(colour="green"), "column colour has 'green', which it had not in training: blue, red"),
        (train.assign(length=None), "column length has empty cells"),
        (train.assign(length="long"), "column length is not of numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            encoded(wrong, columns)
    valued = Dataset(train, test, loss=torch.nn.CrossEntropyLoss())
    valued.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=2)
    assert (valued.inputs().columns, valued.inputs().classes) == (columns, ("cat", "dog", "owl"))


def test_a_declaration_of_other_columns_is_refused():
    for columns in ([["a", None]], [["a", 1], ["b", None]], [["a"], ["b"]], ["ab", "cd"], [["a", "x" * 201], ["b", None]]):
        with pytest.raises(ValueError, match=r"columns: must be a name, and a text or null, for each number"):
            from_plain({"shape": [2], "columns": columns})


def test_tables_in_files(tmp_path, monkeypatch):
    train, test = frames()
    for name, frame in (("train", train), ("test", test)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    data = Dataset(Table(str(tmp_path / "train.csv")), Table(str(tmp_path / "test.csv"))).read(None)
    assert data.names == ("cat", "dog", "owl")
    assert torch.equal(data.train.images, Dataset(train, test).read(None).train.images)
    with pytest.raises(ConfigError, match=r"path=train.xls: must be NAME.csv or NAME.parquet"):
        Table("train.xls")
    with pytest.raises(ConfigError, match=r"path=.*none.csv: there is no such file"):
        Table(str(tmp_path / "none.csv"))
    paths = [str(tmp_path / f"{name}.csv") for name in ("train", "test")]
    assert torch.equal(Dataset(*paths).read(None).train.images, data.train.images)
    with pytest.raises(ConfigError, match=r"^task.test=none.csv: there is no such file"):
        Dataset(paths[0], "none.csv")
    with pytest.raises(ConfigError, match=r"^task.test=my.data: must be NAME.csv or NAME.parquet, or task.test._target_="):
        Dataset(paths[0], "my.data")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"needs pandas: pip install .*\[frame\]"):
        Table(str(tmp_path / "train.csv"))


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    train, test = frames()
    for name, frame in (("train", train), ("test", test)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    data = Dataset(*(Table(str(tmp_path / f"{name}.parquet")) for name in ("train", "test"))).read(None)
    assert torch.equal(data.train.images, Dataset(train, test).read(None).train.images)


def test_parquet_without_its_package(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(ConfigError, match=r"path=train.parquet: needs pyarrow: pip install pyarrow"):
        Table("train.parquet")


@pytest.mark.parametrize("named", [False, True])
def test_an_iterable_is_read_up_to_a_number(named):
    data = Dataset(Endless(named), Endless(named), fields=["x", "y"] if named else None, most=5).read(None)
    assert data.train.images[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert data.test.targets.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(ConfigError, match=r"task.train=Endless: an iterable may have no end: task.most=N reads its first N"):
        Dataset(Endless(), Endless())


def test_an_iterable_with_a_length_is_read_as_one_without():
    data = Dataset(Counted(), Counted(), most=5).read(None)
    assert data.train.images[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(ConfigError, match=r"task.train=Counted: an iterable may have no end"):
        Dataset(Counted(), Counted())


def test_a_webdataset_is_read(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    with webdataset.TarWriter(str(tmp_path / "shard.tar")) as shard:
        for number in range(8):
            shard.write({"__key__": f"{number:03}", "x.npy": np.full(3, number, np.float32), "y.cls": number % 2})
    made = webdataset.WebDataset(str(tmp_path / "shard.tar"), shardshuffle=False).decode().to_tuple("x.npy", "y.cls")
    data = Dataset(made, made, most=6).read(None)
    assert data.train.images[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_dataset_of_hugging_face_has_its_class_names():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"x": datasets.Sequence(datasets.Value("float32")), "y": datasets.ClassLabel(names=["no", "yes"])}
    )
    made = datasets.Dataset.from_dict({"x": [[0.0, 1.0], [2.0, 3.0]], "y": [1, 0]}, features=features)
    data = Dataset(made, made, fields=["x", "y"]).read(None)
    assert data.names == ("no", "yes")
    assert data.train.images.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    streams = made.to_iterable_dataset()
    assert Dataset(streams, streams, fields=["x", "y"], most=2).read(None).names == ("no", "yes")


def test_a_stream_has_the_names_of_its_classes_and_a_dict_of_splits_is_none():
    class Streamed(Endless):
        def __init__(self):
            super().__init__(named=True)
            self.features = {"y": SimpleNamespace(names=["even", "odd"])}

    assert Dataset(Streamed(), Streamed(), fields=["x", "y"], most=4).read(None).names == ("even", "odd")
    with pytest.raises(ConfigError, match=r"task.train=dict: is a dict of train, test: choose one of them"):
        Dataset({"train": [], "test": []}, [])
