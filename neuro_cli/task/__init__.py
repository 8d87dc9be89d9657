"""Tasks: what a candidate is scored on."""

from typing import TYPE_CHECKING

from neuro_cli.core.lazy import lazily

if TYPE_CHECKING:
    from neuro_cli.task.base import Task as Task
    from neuro_cli.task.classification import Classification as Classification
    from neuro_cli.task.dataset import Dataset as Dataset

_HOMES = {
    "Task": "base",
    "Classification": "classification",
    "Dataset": "dataset",
}
__all__ = list(_HOMES)
__getattr__ = lazily(__name__, _HOMES)
