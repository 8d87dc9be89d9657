"""Checkpoints: tensors in one safetensors file per generation, everything else in ``state.json``, nothing pickled.

State that is spread over ranks lies in shards next to that file; the ranks that have it write and read them.

``state.json`` is the truth: a file that it does not list does not count. New tensors are on disk before it is replaced, and
old tensors are removed after that, so a kill or a full disk at any moment leaves a complete checkpoint.
"""

import hashlib
import json
import logging
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
from neuro_cli.run_folder.short_names import refuse_unbegun
from neuro_cli.run_folder.state_file import STATE, TENSOR_FILE, decoded, encoded, files_of, read_entries, state_content, verified

log = logging.getLogger(__name__)

BEST = "best"  # stands for the generation of the best evaluation


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
        content, problem = verified(self.folder, asdict(entry))
        if content is None:
            raise UserError(f"{self.folder / entry.file}: {problem}")
        return shard_state(content)


def shard_bytes(state: State) -> bytes:
    """Return tensors of any layout and device, and scalars, as the content of a checkpoint's shard. Raises TypeError."""
    return serialised(state.tensors, {"scalars": json.dumps(encoded(state.scalars), allow_nan=False)})


def shard_state(content: bytes) -> State:
    """Return the state that :func:`shard_bytes` encoded."""
    length = int.from_bytes(content[:8], "little")
    scalars = json.loads(content[8 : 8 + length])["__metadata__"]["scalars"]
    return State(tensors_from_bytes(content), decoded(json.loads(scalars)))


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
        """Open the folder for all later saves, even if it is moved, and remove what a killed writer left.

        Raises UserError where it is no folder.
        """
        try:
            self._held = HeldFolder(self.run)
            self._sweep()
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
            "scalars": encoded(scalars),
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
            write_atomically(self.folder / STATE, state_content(entries))
            self._sweep()
        except OSError as error:
            with suppress(OSError):
                self._sweep()
            self.refuse_other()
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
        chosen = self._chosen(entries, generation)
        content, problem = verified(self.folder, chosen)
        damaged = chosen["file"]
        for shard in chosen.get("shards", ()):
            if not problem:
                damaged, problem = shard["file"], verified(self.folder, shard)[1]
        if content is not None and not problem:
            try:
                return self._checkpoint(chosen, tensors_from_bytes(content))
            except SafetensorError as error:
                damaged, problem = chosen["file"], f"not a safetensors file ({error})"
        earlier = self._newest_intact([entry for entry in entries if entry["generation"] < chosen["generation"]])
        offer = "no earlier checkpoint is intact" if earlier is None else f"neuro resume {self.run} checkpoint={earlier}"
        raise UserError(f"{self.folder / damaged}: {problem}; {offer}")

    def _chosen(self, entries: list[dict[str, Any]], generation: int | str | None) -> dict[str, Any]:
        """Return the entry that ``generation`` names. Raises UserError."""
        if not entries:
            refuse_unbegun(self.run)
            raise UserError(f"{self.run}: not a neuro run with a checkpoint (no checkpoints/{STATE})")
        if generation is None:
            return entries[-1]
        if generation == BEST:
            best = next((entry for entry in entries if entry.get("best")), None)
            if best is None:
                allowed = "no best checkpoint was kept; set checkpoint.best=true (works on resume)"
                raise UserError(f"{self.run}: checkpoint=best: {allowed}")
            return best
        named = next((entry for entry in entries if entry["generation"] == generation), None)
        if named is None:
            available = ", ".join(str(entry["generation"]) for entry in entries)
            raise UserError(f"{self.run}: no checkpoint for generation {generation}; available: {available}")
        return named

    def _checkpoint(self, entry: dict[str, Any], tensors: dict[str, Tensor]) -> Checkpoint:
        scalars = decoded(entry["scalars"])
        if scalars.get("best") and scalars["best"]["generation"] not in self.generations():
            scalars["best"] = None  # this run goes back to a generation before the best one
        shards = tuple(Shard(**shard) for shard in entry.get("shards", ()))
        return Checkpoint(entry["generation"], tensors, scalars, shards, self.folder)

    def _entries(self) -> list[dict[str, Any]]:
        return read_entries(self.folder)

    def _newest_intact(self, entries: list[dict[str, Any]]) -> int | None:
        for entry in reversed(entries):
            if all(verified(self.folder, part)[0] is not None for part in (entry, *entry.get("shards", ()))):
                return int(entry["generation"])
        return None

    def _failure(self, generation: int, error: OSError) -> str:
        newest = self._newest_intact(self._entries())
        intact = "there is no earlier one" if newest is None else f"the last intact one is of generation {newest}"
        return f"{self.folder}: cannot write the checkpoint of generation {generation} ({error.strerror}); {intact}"

    def _sweep(self, coming: Set[str] = frozenset()) -> None:
        """Remove files that state.json does not list, except those ``coming``: too old ones, and those of killed writers."""
        listed = {*files_of(self._entries()), *coming}
        for path in self.folder.glob("*"):
            if path.name.endswith(".tmp") or (TENSOR_FILE.fullmatch(path.name) and path.name not in listed):
                path.unlink(missing_ok=True)


def serialised(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the content of a checkpoint's safetensors file with ``tensors`` of any layout and device; some may share memory."""
    return bytes_from_tensors(plain_tensors(tensors), metadata)


def plain_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return ``tensors`` of any layout and device, also those that share memory, as a checkpoint's safetensors takes them."""
    # safetensors takes contiguous tensors only, and refuses two that overlap; parts of one piece of memory need no copy
    plain: dict[str, Tensor] = {}
    taken: list[tuple[int, int]] = []
    for name, tensor in tensors.items():
        here = tensor.detach().to("cpu", memory_format=torch.contiguous_format).contiguous()
        first, last = here.data_ptr(), here.data_ptr() + here.nbytes
        plain[name] = here.clone() if any(first < other and start < last for start, other in taken) else here
        taken.append((first, last))
    return plain
