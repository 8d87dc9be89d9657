"""Data as people have it, as the map-style datasets that tasks read: pandas frames, files of tables, Hugging Face, iterables.

A library is imported when its data is used: pandas for frames and tables, pyarrow for Parquet.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.core.messages.install import install
from neuro_cli.task.map_style import NoData, name_of, source_of

KEYS = ("task.train", "task.test")
Columns = tuple[tuple[str, str | None], ...]  # an input each: a column's name, and the text of which it says whether it is there


class Table:
    """Table in a file, NAME.csv or NAME.parquet; its target is the last column or that of ``task.fields``. Raises ConfigError."""

    def __init__(self, path: str) -> None:
        self.frame = _read("path", path)


class Named:
    """Map-style ``source`` with the names of its ``classes``, and the ``columns`` of a table, () of anything else."""

    def __init__(self, source: Any, classes: list[str], columns: Columns = ()) -> None:
        self.source, self.classes, self.columns = source, classes, columns

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> Any:
        return self.source[number]


def sources_of(train: Any, test: Any, fields: tuple[str, str] | None, most: int | None) -> tuple[Any, Any]:
    """Return map-style datasets for what the user gave. ``most``: examples that are read of an iterable. Raises ConfigError."""
    if most is not None:
        integer("task.most", most, 1)
    for key, source in zip(KEYS, (train, test), strict=True):
        if isinstance(source, NoData):
            raise ConfigError(f"{key}._target_", None, f"name the class of your dataset, my_package.MyDataset, or {key}=NAME.csv")
    given = [_joined(key, source) for key, source in zip(KEYS, (train, test), strict=True)]
    if any(_is_frame(source) for source in given):
        return _of_frames(given, fields)
    opened = [source_of(key, _of_iterable(key, source, most)) for key, source in zip(KEYS, given, strict=True)]
    ready = [_with_names(source, _names(one, fields)) for one, source in zip(given, opened, strict=True)]
    return ready[0], ready[1]


def columns_of(source: Any) -> Columns:
    """Return the columns of a table that :func:`sources_of` opened, () for any other source."""
    return source.columns if isinstance(source, Named) else ()


def _joined(key: str, source: Any) -> Any:
    """Return the frame of a table in a file, or of a pair (frame, targets) as scikit-learn has it; others as they are."""
    if isinstance(source, str | Path):
        return _read(key, str(source))
    if isinstance(source, Table):
        return source.frame
    if not (isinstance(source, tuple | list) and len(source) == 2 and _is_frame(source[0])):
        return source
    frame, targets = source[0].copy(deep=False), np.asarray(source[1])
    if targets.shape != (len(frame),):
        raise ConfigError(key, "a pair", f"must have a target for each of the frame's {len(frame)} rows, not {targets.shape}")
    name = getattr(source[1], "name", None)
    frame.insert(len(frame.columns), "target" if name is None or name in frame.columns else name, targets)
    return frame


def _is_frame(source: Any) -> bool:
    return any(each.__name__ == "DataFrame" and each.__module__.split(".")[0] == "pandas" for each in type(source).__mro__)


def _read(key: str, path: str) -> Any:
    """Return the frame of a table in a file. Raises ConfigError."""
    suffix = Path(path).suffix
    if suffix not in (".csv", ".parquet"):
        raise ConfigError(
            key, path, f"must be NAME.csv or NAME.parquet{'' if key == 'path' else f', or {key}._target_=package.CLASS'}"
        )
    pandas = _pandas(key, path)
    try:
        return pandas.read_csv(path) if suffix == ".csv" else pandas.read_parquet(path)
    except ImportError as error:  # pandas names its engines in several sentences
        raise ConfigError(key, path, "needs pyarrow: pip install pyarrow") from error
    except FileNotFoundError as error:
        raise ConfigError(key, path, "there is no such file") from error
    except (OSError, ValueError) as error:
        raise ConfigError(key, path, f"cannot be read: {' '.join(str(error).split())[:150]}") from error


def _pandas(key: str, value: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ConfigError(key, value, f"needs pandas: {install('frame')}") from error
    return pandas


def _of_frames(frames: list[Any], fields: tuple[str, str] | None) -> tuple[Named, Named]:
    """Return rows of two frames: numbers as they are, categories as one column each, and a target of texts as class numbers.

    Categories and classes are those of both frames, so that a number means the same in each.
    """
    for key, frame in zip(KEYS, frames, strict=True):
        if not _is_frame(frame) or list(frame.columns) != list(frames[0].columns):
            raise ConfigError(key, name_of(frame), "both must be frames with the same columns")
        if not len(frame):
            raise ConfigError(key, "a frame", "it has no rows")
    pandas = _pandas("task.train", "a frame")
    both = pandas.concat(frames, ignore_index=True)
    target = fields[1] if fields else both.columns[-1]
    if len(both.columns) < 2:
        text = f"has one column, {str(target)[:80]}: an input and a target are needed, in a .csv with commas between them"
        raise ConfigError("task.train", "a frame", text)
    if target not in both.columns:
        raise ConfigError("task.fields", target, f"no such column; {nearest(str(target), map(str, both.columns))}")
    twice = both.columns[both.columns.duplicated()]
    if len(twice):
        raise ConfigError("task.train", "a frame", f"two columns are called {twice[0]}")
    empty = [str(name) for name in both.columns if both[name].isna().any()]
    if empty:
        named = f"column {empty[0]} has" if len(empty) == 1 else f"columns {', '.join(empty)} have"
        raise ConfigError("task.train", "a frame", f"{named} empty cells in training or test: fill or drop them")
    labels, names = both[target], list[str]()
    if not _numeric(target, labels) or pandas.api.types.is_bool_dtype(labels.dtype):
        category = labels.astype("category")
        labels, names = category.cat.codes, [str(name) for name in category.cat.categories]
    given = both.drop(columns=[target])
    columns = _columns(given)
    try:
        inputs = encoded(given, columns)
    except ValueError as error:
        raise ConfigError("task.train", "a frame", str(error)) from error
    whole = pandas.api.types.is_integer_dtype(labels.dtype)
    targets = labels.to_numpy(np.int64 if whole else np.float32, copy=True)  # torch wants memory that may be written
    cut = len(frames[0])
    parts = [TensorDataset(torch.from_numpy(inputs[s]), torch.from_numpy(targets[s])) for s in (slice(cut), slice(cut, None))]
    return Named(parts[0], names, columns), Named(parts[1], names, columns)


def _columns(frame: Any) -> Columns:
    """Return the inputs that a frame's columns make: first numbers, then a column for each text. Raises ConfigError."""
    numbers, texts = list[tuple[str, str | None]](), list[tuple[str, str | None]]()
    for name in frame.columns:
        if _numeric(name, frame[name]):
            numbers.append((str(name), None))
        else:
            texts += [(str(name), str(text)) for text in frame[name].astype("category").cat.categories]
    return (*numbers, *texts)


def _numeric(name: Any, column: Any) -> bool:
    """Return whether a column has numbers; else it has texts. Raises ConfigError for anything else, such as dates or lists."""
    types = _pandas("task.train", "a frame").api.types
    kind = types.infer_dtype(column, skipna=False)
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        return True
    if kind in ("string", "boolean", "categorical"):
        return False
    text = f"column {name} is {column.dtype} ({kind}): make numbers of it, as days since a date or astype(float), or texts"
    raise ConfigError("task.train", "a frame", text)


def encoded(frame: Any, columns: Columns) -> np.ndarray:
    """Return the inputs (N, C) float32 of a frame's rows: C ``columns``, each a number, or whether the text is this one.

    Raises ValueError for a frame without such a column, for empty cells, and for texts that are not among the columns.
    """
    frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
    known = dict[str, list[str]]()
    for name, text in columns:
        known.setdefault(name, []).extend([] if text is None else [text])
    for name, texts in known.items():
        if name not in frame.columns:
            raise ValueError(f"it has no column {name}")
        if frame[name].isna().any():
            raise ValueError(f"column {name} has empty cells: fill or drop them")
        strange = sorted(set(frame[name].astype(str)) - set(texts)) if texts else []
        if strange:
            raise ValueError(f"column {name} has {strange[0]!r}, which it had not in training: {', '.join(texts)[:200]}")
    as_texts = {name: frame[name].astype(str) for name, texts in known.items() if texts}
    values = np.empty((len(frame), len(columns)), np.float32)
    for number, (name, text) in enumerate(columns):
        try:
            with np.errstate(over="ignore"):  # an infinity, which the line after this refuses
                values[:, number] = frame[name].to_numpy(np.float32) if text is None else as_texts[name] == text
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name} is not of numbers, as it was in training") from error
        if not np.isfinite(values[:, number]).all():
            raise ValueError(f"column {name} has numbers that are not finite in float32")
    return values


def _of_iterable(key: str, source: Any, most: int | None) -> Any:
    """Return the first ``most`` examples of an iterable, as an IterableDataset or a WebDataset is; any other source as it is."""
    if isinstance(source, Mapping):  # all splits, as load_dataset gives them
        parts = ", ".join(map(str, source))[:200]
        raise ConfigError(key, name_of(source), f"is a dict of {parts}: choose one of them")
    # torch's iterable datasets may have a length, and all have a __getitem__ that only raises
    streams = isinstance(source, Iterable) and not hasattr(source, "__len__")
    if not streams and not isinstance(source, torch.utils.data.IterableDataset):
        return source
    if most is None:
        raise ConfigError(key, name_of(source), "an iterable may have no end: task.most=N reads its first N examples")
    return list(islice(iter(source), most))


def _names(source: Any, fields: tuple[str, str] | None) -> list[str]:
    """Return the names of the classes of a dataset of Hugging Face, [] for any other."""
    features: Any = getattr(source, "features", None)
    return list(getattr(features.get(fields[1]), "names", None) or ()) if fields and hasattr(features, "get") else []


def _with_names(source: Any, names: list[str]) -> Any:
    return Named(source, names) if names else source
