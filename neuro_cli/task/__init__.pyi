"""Public names of neuro_cli.task and the modules they come from: read by type checkers, and by ``__init__.py``."""

from .base import Task as Task
from .classification import Classification as Classification
from .dataset import Dataset as Dataset
