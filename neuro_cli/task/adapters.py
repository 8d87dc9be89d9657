"""Data as people have it, as the map-style datasets that tasks read: pandas frames, files of tables, Hugging Face, iterables.

A library is imported when its data is used: pandas for frames and tables, pyarrow for Parquet.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.install import install
from neuro_cli.task.map_style import name_of, source_of

KEYS = ("task.train", "task.test")


class Table:
    """Table in a file, NAME.csv or NAME.parquet; its target is the last column or that of ``task.fields``. Raises ConfigError."""

    def __init__(self, path: str) -> None:
        suffix = Path(path).suffix
        if suffix not in (".csv", ".parquet"):
            raise ConfigError("path", path, "must be NAME.csv or NAME.parquet")
        pandas = _pandas("path", path)
        try:
            self.frame = pandas.read_csv(path) if suffix == ".csv" else pandas.read_parquet(path)
        except ImportError as error:  # pandas names its engines in several sentences
            raise ConfigError("path", path, "needs pyarrow: pip install pyarrow") from error
        except (OSError, ValueError) as error:
            raise ConfigError("path", path, f"cannot be read: {' '.join(str(error).split())[:150]}") from error


class Named:
    """Map-style ``source`` with the names of its ``classes``."""

    def __init__(self, source: Any, classes: list[str]) -> None:
        self.source, self.classes = source, classes

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, number: int) -> Any:
        return self.source[number]


def sources_of(train: Any, test: Any, fields: tuple[str, str] | None, most: int | None) -> tuple[Any, Any]:
    """Return map-style datasets for what the user gave. ``most``: examples that are read of an iterable. Raises ConfigError."""
    if most is not None:
        integer("task.most", most, 1)
    given = [_joined(key, source) for key, source in zip(KEYS, (train, test), strict=True)]
    if any(_is_frame(source) for source in given):
        return _of_frames(given, fields)
    opened = [_of_iterable(key, source, most) for key, source in zip(KEYS, given, strict=True)]
    ready = [_with_names(source_of(key, source), fields) for key, source in zip(KEYS, opened, strict=True)]
    return ready[0], ready[1]


def _joined(key: str, source: Any) -> Any:
    """Return the frame of a table in a file, or of a pair (frame, targets) as scikit-learn has it; others as they are."""
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
    pandas = _pandas("task.train", "a frame")
    both = pandas.concat(frames, ignore_index=True)
    target = fields[1] if fields else both.columns[-1]
    if target not in both.columns or len(both.columns) < 2:
        raise ConfigError("task.fields", target, f"the frames have {', '.join(map(str, both.columns))}")
    empty = [str(name) for name in both.columns if both[name].isna().any()]
    if empty:
        raise ConfigError("task.train", "a frame", f"column {empty[0]} has empty cells in training or test: fill or drop them")
    labels, names = both[target], list[str]()
    if not pandas.api.types.is_numeric_dtype(labels.dtype) or pandas.api.types.is_bool_dtype(labels.dtype):
        category = labels.astype("category")
        labels, names = category.cat.codes, [str(name) for name in category.cat.categories]
    inputs = pandas.get_dummies(both.drop(columns=[target])).to_numpy(np.float32, copy=True)
    whole = pandas.api.types.is_integer_dtype(labels.dtype)
    targets = labels.to_numpy(np.int64 if whole else np.float32, copy=True)  # torch wants memory that may be written
    cut = len(frames[0])
    parts = [TensorDataset(torch.from_numpy(inputs[s]), torch.from_numpy(targets[s])) for s in (slice(cut), slice(cut, None))]
    return Named(parts[0], names), Named(parts[1], names)


def _of_iterable(key: str, source: Any, most: int | None) -> Any:
    """Return the first ``most`` examples of an iterable, as an IterableDataset or a WebDataset is; any other source as it is."""
    # torch's iterable datasets may have a length, and all have a __getitem__ that only raises
    streams = isinstance(source, Iterable) and not hasattr(source, "__len__")
    if not streams and not isinstance(source, torch.utils.data.IterableDataset):
        return source
    if most is None:
        raise ConfigError(key, name_of(source), "an iterable may have no end: task.most=N reads its first N examples")
    return list(islice(iter(source), most))


def _with_names(source: Any, fields: tuple[str, str] | None) -> Any:
    """Return a dataset of Hugging Face with the names of its classes, any other as it is."""
    features: Any = getattr(source, "features", None)
    names = getattr(features.get(fields[1]), "names", None) if fields and hasattr(features, "get") else None
    return Named(source, list(names)) if names else source
