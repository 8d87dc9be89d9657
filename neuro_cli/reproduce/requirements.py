"""Requirements of a run on the machine; each check returns what is missing in words, or an empty text."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.messages.install import install


def missing(needs: Mapping[str, Any], root: Path) -> str:
    """Return why this machine cannot do the run; empty if it can. ``root``: the folder of data sets."""
    reasons = (NEEDS[name](value, root) for name, value in needs.items())
    return next(filter(None, reasons), "")


def has_gpu() -> bool:
    """Return whether torch sees the CUDA device that an entry requires."""
    import torch  # late, because the list of entries does not need it

    return torch.cuda.is_available()


def _cores(count: int, root: Path) -> str:
    here = usable_cores()
    return f"{count} ranks need {count} cores, this machine has {here}" if here < count else ""


def _gpu(wanted: bool, root: Path) -> str:
    return "there is no GPU" if wanted and not has_gpu() else ""


def _packages(extras: Mapping[str, str], root: Path) -> str:
    lacking = [name for name in extras if importlib.util.find_spec(name) is None]
    return f"{lacking[0]} is not installed: {install(extras[lacking[0]])}" if lacking else ""


def _data(folders: str | Sequence[str], root: Path) -> str:
    """Look for one of ``folders``, in ``root`` or by an absolute path, where the system keeps data."""
    listed = [folders] if isinstance(folders, str) else folders
    exists = any((root / folder).is_dir() for folder in listed)
    return "" if exists else f"there is no {' nor '.join(listed)} in root={root}"


def _emulation(wanted: bool, root: Path) -> str:
    from neuro_cli.fabric.emulation.netns import missing_rights

    lacking = missing_rights() if wanted else ""
    return f"no emulated network: {lacking}" if lacking else ""


def _mpi(wanted: bool, root: Path) -> str:
    from neuro_cli.launch.launcher import launcher

    try:
        if wanted:
            launcher()
    except UserError as error:
        return str(error)
    return ""


NEEDS: dict[str, Callable[[Any, Path], str]] = {
    "cores": _cores,
    "gpu": _gpu,
    "packages": _packages,
    "data": _data,
    "emulation": _emulation,
    "mpi": _mpi,
}
