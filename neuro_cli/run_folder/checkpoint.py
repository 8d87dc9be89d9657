"""Checkpoints: tensors in one safetensors file per generation, everything else in ``state.json``, nothing pickled.

State that is spread over ranks lies in shards next to that file; the ranks that have it write and read them.

``state.json`` is the truth: a file that it does not list does not count. New tensors are on disk before it is replaced, and
old tensors are removed after that, so a kill or a full disk at any moment leaves a complete checkpoint.
"""

import hashlib
import json
import logging
import math
import re
import struct
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from neuro_cli.algo.base import State
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import HeldFolder, sync_folder
from neuro_cli.core.files import write_atomically as write_atomically
from neuro_cli.run_folder.names import refuse_unbegun

log = logging.getLogger(__name__)

FORMAT = 1
STATE = "state.json"
BEST = "best"  # stands for the generation of the best evaluation
# key of a NaN or an infinity, which JSON lacks: its value is the 16 hex digits of the float's bits
_FLOAT_BITS = "float64_bits"
_FILE = re.compile(r"\d{8,}(\.again|\.[a-z]+-\d+\.[0-9a-f]{16})?\.safetensors")


@dataclass(frozen=True)
class Shard:
    """Part of a checkpoint in a separate file, which any rank can write and read alone."""

    name: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """State from which a run continues after ``generation``. ``shards``: parts still on disk, in ``folder``."""

    generation: int
    tensors: dict[str, Tensor]
    scalars: dict[str, Any]
    shards: tuple[Shard, ...] = ()
    folder: Path = Path()

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of one part of the run, by their names within it."""
        return State(self.tensors).part(name)

    def shard(self, name: str) -> State:
        """Return a part, verified before it is parsed. Raises UserError."""
        entry = next(shard for shard in self.shards if shard.name == name)
        content, problem = _verified(self.folder, asdict(entry))
        if content is None:
            raise UserError(f"{self.folder / entry.file}: {problem}")
        return shard_state(content)


def shard_bytes(state: State) -> bytes:
    """Return tensors of any layout and device, and scalars, as the content of a safetensors file. Raises TypeError."""
    return serialised(state.tensors, {"scalars": json.dumps(_encoded(state.scalars), allow_nan=False)})


def shard_state(content: bytes) -> State:
    """Return the state that :func:`shard_bytes` encoded."""
    length = int.from_bytes(content[:8], "little")
    scalars = json.loads(content[8 : 8 + length])["__metadata__"]["scalars"]
    return State(tensors_from_bytes(content), _decoded(json.loads(scalars)))


def write_shard(run: Path, generation: int, name: str, content: bytes) -> Shard:
    """Write a part ``name`` (letters, -, a number) of a checkpoint, for :meth:`CheckpointStore.save`.

    Its file is named after the content, so no file in use is ever replaced. Raises UserError when it cannot be written.
    """
    digest = hashlib.sha256(content).hexdigest()
    shard = Shard(name, f"{generation:08d}.{name}.{digest[:16]}.safetensors", len(content), digest)
    folder = run / "checkpoints"
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(folder / shard.file, content)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write {name} of the checkpoint of generation {generation} ({error.strerror})"
        ) from error
    return shard


class CheckpointStore:
    """Last ``keep`` checkpoints of the run folder ``run``, and the best one if any. Only one process may save."""

    def __init__(self, run: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: must be >= 1")
        self.run, self.keep = run, keep
        self.folder = run / "checkpoints"
        self._held: HeldFolder | None = None

    def hold(self) -> None:
        """Open the folder for all later saves, even if it is moved. Raises UserError where it is no folder."""
        try:
            self._held = HeldFolder(self.run)
        except OSError as error:
            raise UserError(f"{self.run}: {error.strerror}") from error

    def refuse_other(self) -> None:
        """Raise UserError where the open folder was moved or removed."""
        if self._held is not None:
            self._held.refuse_other()

    def save(
        self,
        generation: int,
        tensors: dict[str, Tensor],
        scalars: dict[str, Any],
        shards: Sequence[Shard] = (),
        passing: bool = False,
    ) -> Path:
        """Write a checkpoint and return its tensor file; remove too old ones, and later ones after a step back.

        Tensors may have any layout and device. Scalars are what JSON can hold, floats exactly; ``best`` = {generation, ...}
        among them marks the checkpoint that stays along with the last ones. ``shards``: parts that :func:`write_shard` wrote
        already. ``passing``: the checkpoint stays only while it is the best.
        Raises UserError when it cannot be written (earlier checkpoints stay) or when the folder is not the open one, TypeError
        on other scalars.
        """
        self.refuse_other()
        content = serialised(tensors)
        old = self._entries()
        name = f"{generation:08d}.safetensors"
        if any(entry["file"] == name for entry in old):
            name = f"{generation:08d}.again.safetensors"  # state.json needs the other file until it is replaced
        later = [entry["generation"] for entry in old if entry["generation"] > generation]
        if later:
            log.info("checkpoints of generations %s are removed: the run went back to an earlier one", later)
        entry = {
            "generation": generation,
            "file": name,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "scalars": _encoded(scalars),
        }
        if shards:
            entry["shards"] = [asdict(shard) for shard in shards]
        if passing:
            entry["passing"] = True
        coming = {shard.file for shard in shards}
        entries = self._kept([*(entry for entry in old if entry["generation"] < generation), entry], scalars.get("best"))
        try:
            self.folder.mkdir(exist_ok=True)  # never the run folder itself: a removed run must not come back
            sync_folder(self.run)
            self._sweep(coming)
            write_atomically(self.folder / name, content)
            write_atomically(self.folder / STATE, _state_content(entries))
            self._sweep()
        except OSError as error:
            with suppress(OSError):
                self._sweep()
            raise UserError(self._failure(generation, error)) from error
        return self.folder / name

    def _kept(self, entries: list[dict[str, Any]], best: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Return the newest of ``entries``, the last ``keep`` that are not passing, and the best one, marked."""
        if best is not None:
            entries = [{key: value for key, value in entry.items() if key != "best"} for entry in entries]
            for entry in entries:
                if entry["generation"] == best["generation"]:
                    entry["best"] = True
        lasting = [entry for entry in entries if not entry.get("passing")][-self.keep :]
        return [entry for entry in entries if entry in lasting or entry is entries[-1] or entry.get("best")]

    def generations(self) -> list[int]:
        """Return the generations that have a checkpoint, ascending; none without a state.json. Reads no tensors."""
        return [entry["generation"] for entry in self._entries()]

    def load(self, generation: int | str | None = None) -> Checkpoint:
        """Return the checkpoint of ``generation`` (the newest by default, or "best"), verified before it is parsed.

        Raises UserError.
        """
        entries = self._entries()
        if not entries:
            refuse_unbegun(self.run)
            raise UserError(f"{self.run}: not a neuro run with a checkpoint (no checkpoints/{STATE})")
        if generation is None:
            generation = entries[-1]["generation"]
        if generation == BEST:
            best = [entry for entry in entries if entry.get("best")]
            if not best:
                allowed = "no best checkpoint was kept; set checkpoint.best=true (works on resume)"
                raise UserError(f"{self.run}: checkpoint=best: {allowed}")
            generation = best[0]["generation"]
        chosen = next((entry for entry in entries if entry["generation"] == generation), None)
        if chosen is None:
            available = ", ".join(str(entry["generation"]) for entry in entries)
            raise UserError(f"{self.run}: no checkpoint for generation {generation}; available: {available}")
        content, problem = _verified(self.folder, chosen)
        damaged = chosen["file"]
        shards = tuple(Shard(**shard) for shard in chosen.get("shards", ()))
        for shard in shards:
            if content is not None:
                part, problem = _verified(self.folder, asdict(shard))
                content, damaged = (content, damaged) if part is not None else (None, shard.file)
        if content is not None:
            try:
                scalars = _decoded(chosen["scalars"])
                if scalars.get("best") and scalars["best"]["generation"] not in self.generations():
                    scalars["best"] = None  # this run goes back to a generation before the best one
                return Checkpoint(chosen["generation"], tensors_from_bytes(content), scalars, shards, self.folder)
            except SafetensorError as error:
                problem = f"not a safetensors file ({error})"
        earlier = self._newest_intact([entry for entry in entries if entry["generation"] < generation])
        offer = "no earlier checkpoint is intact" if earlier is None else f"neuro resume {self.run} checkpoint={earlier}"
        raise UserError(f"{self.folder / damaged}: {problem}; {offer}")

    def _entries(self) -> list[dict[str, Any]]:
        """Return the entries of state.json, ascending by generation. Raises UserError when it was edited or damaged."""
        path = self.folder / STATE
        try:
            state = json.loads(path.read_bytes())
            if state["format"] != FORMAT:
                raise UserError(f"{path}: format {state['format']}, this version of neuro reads format {FORMAT}")
            entries: list[dict[str, Any]] = state["entries"]
            intact = state["sha256"] == _digest(entries) and all(map(_FILE.fullmatch, _files(entries)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, RecursionError):
            intact = False
        if not intact:
            raise UserError(f"{path}: truncated or edited (its own sha256 does not match); restore it or start a new run")
        return entries

    def _newest_intact(self, entries: list[dict[str, Any]]) -> int | None:
        for entry in reversed(entries):
            if all(_verified(self.folder, part)[0] is not None for part in (entry, *entry.get("shards", ()))):
                return int(entry["generation"])
        return None

    def _failure(self, generation: int, error: OSError) -> str:
        newest = self._newest_intact(self._entries())
        intact = "there is no earlier one" if newest is None else f"the last intact one is of generation {newest}"
        return f"{self.folder}: cannot write the checkpoint of generation {generation} ({error.strerror}); {intact}"

    def _sweep(self, coming: Set[str] = frozenset()) -> None:
        """Remove files that state.json does not list, except those ``coming``: too old ones, and those of killed writers."""
        listed = {*_files(self._entries()), *coming}
        for path in self.folder.glob("*"):
            if path.name.endswith(".tmp") or (_FILE.fullmatch(path.name) and path.name not in listed):
                path.unlink(missing_ok=True)


def _files(entries: list[dict[str, Any]]) -> list[str]:
    """Return the files of all entries and of their shards."""
    return [part["file"] for entry in entries for part in (entry, *entry.get("shards", ()))]


def _verified(folder: Path, entry: dict[str, Any]) -> tuple[bytes | None, str]:
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


def serialised(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the content of a safetensors file with ``tensors`` of any layout and device; some may share memory."""
    return bytes_from_tensors(plain_tensors(tensors), metadata)


def plain_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` of any layout and device, some of which may share memory, as safetensors takes them."""
    # safetensors takes contiguous tensors only, and refuses two that share memory
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        here = tensor.detach().to("cpu", memory_format=torch.contiguous_format).contiguous()
        memory = here.untyped_storage().data_ptr()
        plain[name] = here.clone() if memory in seen else here
        seen.add(memory)
    return plain


def _state_content(entries: list[dict[str, Any]]) -> bytes:
    state = {"format": FORMAT, "entries": entries, "sha256": _digest(entries)}
    return (json.dumps(state, indent=1, allow_nan=False) + "\n").encode()


def _digest(entries: list[dict[str, Any]]) -> str:
    canonical = json.dumps([FORMAT, entries], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _encoded(value: Any) -> Any:
    """Return ``value`` as strict JSON. Raises TypeError on what JSON would not give back unchanged."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_FLOAT_BITS: struct.pack(">d", value).hex()}
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    if isinstance(value, dict) and _FLOAT_BITS not in value and all(isinstance(key, str) for key in value):
        return {key: _encoded(item) for key, item in value.items()}
    raise TypeError(f"a checkpoint's scalars hold {type(value).__name__}: {value!r}; JSON cannot give it back")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, dict):
        if _FLOAT_BITS in value:
            return struct.unpack(">d", bytes.fromhex(value[_FLOAT_BITS]))[0]
        return {key: _decoded(item) for key, item in value.items()}
    return value
