"""Portable ledger: one file that gives a cluster's model again, together with the base.

The file is a line of JSON and the content of ``ledger.bin``. The chain of hashes begins with the run's identity and ends with a
hash in the line, so that a changed file is refused. The file has no paths and no data of the task.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.identity import BASE_KEY, canonical
from neuro_cli.evolve.ledger.file import ledger_bytes, ledger_in
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.run_folder.identity import flatten

SUFFIX = ".ledger"
FORMAT = "neuro portable ledger 1"
LARGEST, LONGEST = 2**28, 2**20  # bytes of a file, and of its line
KINDS: Mapping[str, type] = {
    "format": str, "identity": dict, "model": dict, "sampler": dict, "channels_last": bool, "head": str, "parameters_sha256": str
}  # fmt: skip


@dataclass(frozen=True)
class PortableLedger:
    """Records of a run with the settings that applying them needs.

    ``model``, ``sampler``: nodes of the config, without the model's path; ``channels_last``: order of the flat parameters;
    ``parameters_sha256``: of the parameters after the last record.
    """

    identity: dict[str, Any]
    model: dict[str, Any]
    sampler: dict[str, Any]
    channels_last: bool
    parameters_sha256: str
    ledger: Ledger

    def content(self) -> bytes:
        """Return the content of the file."""
        line = {name: getattr(self, name) for name in KINDS if name not in ("format", "head")}
        line |= {"format": FORMAT, "head": self.ledger.head.hex()}
        return json.dumps(line, sort_keys=True).encode() + b"\n" + ledger_bytes(self.ledger)


def without_path(model: dict[str, Any]) -> dict[str, Any]:
    """Return the node of a model with null as the path of its base, which differs from machine to machine."""
    return {key: None if key == BASE_KEY else value for key, value in model.items()}


def read_portable(path: Path) -> PortableLedger:
    """Read a :meth:`PortableLedger.content`. Raises UserError for any other file."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    first, _, rest = content.partition(b"\n")
    fields = _fields(first) if len(content) <= LARGEST and len(first) <= LONGEST else None
    if fields is None:
        raise UserError(f"{path}: no ledger that neuro evolve export RUN file=NAME{SUFFIX} wrote")
    ledger = ledger_in(rest, path)
    if ledger.head_at(0) != origin(canonical(fields["identity"])) or ledger.head.hex() != fields["head"] or not _agree(fields):
        raise UserError(f"{path}: its settings and its records do not belong together: it was changed")
    del fields["format"], fields["head"]
    return PortableLedger(**fields, ledger=ledger)


def _fields(line: bytes) -> dict[str, Any] | None:
    """Return the checked fields of a file's line, None for any other line."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.keys() != KINDS.keys() or fields["format"] != FORMAT:
        return None
    return fields if all(isinstance(fields[name], kind) for name, kind in KINDS.items()) else None


def _agree(fields: dict[str, Any]) -> bool:
    """Return whether the nodes of model and sampler agree with the identity."""
    leaves = flatten({group: fields[group] for group in ("model", "sampler")})
    return all(fields["identity"].get(key) == value for key, value in leaves.items())
