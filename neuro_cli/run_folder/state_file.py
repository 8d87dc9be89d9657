"""``state.json`` of a run's checkpoints: their list, sealed by its own sha256, with every float exact."""

import hashlib
import json
import math
import re
import struct
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError

FORMAT = 1
STATE = "state.json"
# key of a NaN or an infinity, which JSON lacks: its value is the 16 hex digits of the float's bits
_FLOAT_BITS = "float64_bits"
TENSOR_FILE = re.compile(r"\d{8,}(\.again|\.[a-z]+-\d+\.[0-9a-f]{16})?\.safetensors")


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of state.json, ascending by generation; none without the file. Raises UserError for an edited one."""
    path = folder / STATE
    try:
        state = json.loads(path.read_bytes())
        if state["format"] != FORMAT:
            raise UserError(f"{path}: format {state['format']}, this version of neuro reads format {FORMAT}")
        entries: list[dict[str, Any]] = state["entries"]
        intact = state["sha256"] == _digest(entries) and all(map(TENSOR_FILE.fullmatch, files_of(entries)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        intact = False
    if not intact:
        raise UserError(f"{path}: truncated or edited (its own sha256 does not match); restore it or start a new run")
    return entries


def state_content(entries: list[dict[str, Any]]) -> bytes:
    """Return the content of a state.json with these entries."""
    state = {"format": FORMAT, "entries": entries, "sha256": _digest(entries)}
    return (json.dumps(state, indent=1, allow_nan=False) + "\n").encode()


def _digest(entries: list[dict[str, Any]]) -> str:
    canonical = json.dumps([FORMAT, entries], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def files_of(entries: list[dict[str, Any]]) -> list[str]:
    """Return the files of all entries and of their shards."""
    return [part["file"] for entry in entries for part in (entry, *entry.get("shards", ()))]


def verified(folder: Path, entry: dict[str, Any]) -> tuple[bytes | None, str]:
    """Return (content, "") of an intact file, else (None, what is wrong)."""
    try:
        content = (folder / entry["file"]).read_bytes()
    except OSError as error:
        return None, f"cannot be read ({error.strerror})"
    if len(content) != entry["size"]:
        return None, f"has {len(content)} bytes instead of {entry['size']}"
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        return None, "was changed after it was written (its sha256 does not match)"
    return content, ""


def encoded(value: Any) -> Any:
    """Return ``value`` as strict JSON. Raises TypeError on what JSON would not give back unchanged."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT_BITS: struct.pack(">d", value).hex()}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, dict) and _FLOAT_BITS not in value and all(isinstance(key, str) for key in value):
        return {key: encoded(item) for key, item in value.items()}
    raise TypeError(f"a checkpoint's scalars hold {type(value).__name__}: {value!r}; JSON cannot give it back")


def decoded(value: Any) -> Any:
    """Return the value of a state that :func:`encoded` gave as JSON."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        if _FLOAT_BITS in value:
            return struct.unpack(">d", bytes.fromhex(value[_FLOAT_BITS]))[0]
        return {key: decoded(item) for key, item in value.items()}
    return value
