"""Weights & Biases: metrics, config and summary under ``wandb/`` of the run folder, uploaded if a key exists."""

import configparser
import logging
import netrc
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from neuro_cli.core.checks import boolean, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.current_folder import advice, importable, trusted_by_user
from neuro_cli.core.messages.verbosity import say
from neuro_cli.logger.base import Tracker, reason

_FOLDER = re.compile(r"(?:offline-)?run-\d+_\d+-(\w+)")
_BLOCK, _HEADER = 32768, struct.Struct("<IHB")
_MAGIC = b":W&B"

log = logging.getLogger(__name__)

START_SECONDS, FINISH_SECONDS = 20.0, 30.0  # seconds to wait for a server at the start and at the end
UPLOAD_SECONDS = 300.0  # seconds that an artifact may take at the end
MODES = ("online", "offline", "disabled")
MOST = 120  # characters of a run's name
# keys that `wandb init` writes there; any other could choose who gets the user's key
SETTINGS, HARMLESS = ("wandb/settings", ".wandb/settings"), {"entity", "project", "mode"}


class WandbLogger(Tracker):
    """Sender to wandb; offline without a key or a chosen mode, or when the server does not answer. Raises ConfigError.

    ``entity``: user or team; ``group``: by default the folder of the sweep; ``name``: by default the typed overrides; ``tags``:
    list; ``mode``: online | offline | disabled, by default WANDB_MODE; ``log_model``: network and config become an artifact at
    the end. Settings files of the current folder may set entity, project and mode only. A resumed run keeps its identifier at
    wandb.
    """

    name = "wandb"

    def __init__(
        self,
        project: str = "neuro",
        entity: str | None = None,
        group: str | None = None,
        name: str | None = None,
        job_type: str | None = None,
        tags: Sequence[str] = (),
        mode: str | None = None,
        log_model: bool = False,
    ) -> None:
        if not isinstance(project, str) or not project:
            raise ConfigError("logger.project", project, "must be the name of a project at wandb")
        for key, value in (("entity", entity), ("group", group), ("name", name), ("job_type", job_type)):
            if value is not None and not (isinstance(value, str | int | float) and str(value)):
                raise ConfigError(f"logger.{key}", value, "must be a text")
        if isinstance(tags, str) or not all(isinstance(tag, str | int | float) for tag in tags or ()):
            raise ConfigError("logger.tags", tags, "must be a list of texts, [first,second]")
        if mode is not None:
            one_of("logger.mode", mode, MODES)
        self.project, self.mode = project, mode
        self.names = {"entity": entity, "group": group, "name": name, "job_type": job_type}
        self.tags = tuple(map(str, tags or ()))
        self.log_model = boolean("logger.log_model", log_model)
        self._run: Any = None
        self.patience = START_SECONDS + FINISH_SECONDS + UPLOAD_SECONDS * self.log_model
        refuse_settings()

    def start(self, run: Path, config: Mapping[str, Any], resumed_at: int | None) -> None:
        import wandb

        mode = self.mode
        if mode is None and "WANDB_MODE" not in os.environ and not has_key(wandb.setup().settings.base_url):
            log.info("no key of wandb: recording offline; upload with: wandb sync %s/wandb/offline-run-*", run)
            mode = "offline"
        identifier = previous_identifier(run / "wandb") if resumed_at is not None else None
        self._folder = run
        run.mkdir(parents=True, exist_ok=True)  # wandb would take another folder in place of a missing one
        try:
            self._run = self._begun(run, config, identifier, mode)
        except Exception as error:  # errors of wandb, of its service or of the network
            if mode in ("offline", "disabled"):
                raise
            # rows wait in the queue: nothing is lost
            log.warning("wandb does not answer (%s): recording offline, to be uploaded later", reason(error))
            self._run = self._begun(run, config, identifier, "offline")
        if identifier is not None:
            # W&B's steps only grow, so a row that it has would be refused
            self.recorded = last_step(run / "wandb") if self._run.offline else self._run.starting_step - 1
        self._show(run)

    def send(self, metrics: dict[str, int | float], step: int) -> None:
        self._run.log(metrics, step=step)

    def _begun(self, run: Path, config: Mapping[str, Any], identifier: str | None, mode: str | None) -> Any:
        import wandb

        settings = wandb.Settings(
            silent=True,  # the runner prints to the terminal
            console="off",
            disable_git=not importable(),  # git runs programs that a repository's config names; a saved run may be one
            init_timeout=START_SECONDS,
            finish_timeout=FINISH_SECONDS + UPLOAD_SECONDS * self.log_model,
        )
        usual = {"group": sweep_of(run), "name": typed_in(run)}
        variables = {"group": "WANDB_RUN_GROUP", "name": "WANDB_NAME"}
        names = {key: None if value is None else str(value) for key, value in self.names.items()}
        for key, value in usual.items():
            if names[key] is None and not os.environ.get(variables[key]):
                names[key] = value
        begin: Callable[..., Any] = wandb.init
        return begin(
            project=self.project,
            **names,
            tags=self.tags or None,
            dir=str(run),
            config=config,
            id=identifier,
            resume="allow" if identifier else None,
            mode=mode,
            settings=settings,
        )

    def _show(self, run: Path) -> None:
        """Write the run's address to the log and, unless quiet, to the terminal."""
        if getattr(self._run, "disabled", False):
            return
        if self._run.offline:
            folder = str(getattr(self._run, "dir", "")).removesuffix("/files")
            if not folder or len(sessions(run / "wandb", "offline-run-*")) > 1:  # each session of a resumed run has a folder
                folder = f"{run}/wandb/offline-run-*"
            address = f"offline; upload it with: wandb sync {folder}"
        else:
            address = self._run.url
        log.info("wandb: run %s of project %s, %s", self._run.id, self.project, address)
        say(f"neuro: wandb: {address}")

    def finish(self, summary: dict[str, Any]) -> None:
        if self._run is None:
            return
        try:
            self._run.summary.update(summary)
            if self.log_model:
                self._log_model()
        finally:
            self._run.finish()

    def _log_model(self) -> None:
        import wandb

        artifact = wandb.Artifact(f"neuro-{self._run.id}", type="model")
        for name in ("model.safetensors", ".hydra/config.yaml"):
            if (self._folder / name).is_file():
                artifact.add_file(str(self._folder / name), name=name.rpartition("/")[2])
        self._run.log_artifact(artifact)


def refuse_settings() -> None:
    """Raise UserError where wandb would take its server, proxies or headers from a file of the current folder."""
    if "wandb" in trusted_by_user():
        return
    for name in SETTINGS:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(name)
            others = {key for section in (parser.defaults(), *parser.values()) for key in section} - HARMLESS
        except (configparser.Error, ValueError, OSError):
            others = {"unreadable settings"}
        if others:
            raise UserError(
                f"logger=wandb: {name} of the current folder sets {', '.join(sorted(others))}, which could choose who gets "
                f"your key; set variables WANDB_* in its place, or {advice('wandb')}"
            )


def sweep_of(run: Path) -> str | None:
    """Return the name of the sweep with the job ``run``; None outside a sweep."""
    return run.absolute().parent.name if (run.absolute().parent / "multirun.yaml").is_file() else None


def typed_in(run: Path) -> str:
    """Return the overrides typed for ``run`` as its name, ``algo=snes,seed=2``; the folder's name without any."""
    try:
        lines = (run / ".hydra" / "overrides.yaml").read_text(errors="replace")[:10_000].splitlines()
    except OSError:
        lines = []
    texts = [line.removeprefix("- ").strip("'\"").lstrip("+") for line in lines if line.startswith("- ")]
    typed = [text for text in texts if not text.startswith(("hydra.", "hydra/", "logger"))]
    return (",".join(typed) or run.absolute().name)[:MOST]


def has_key(server: str) -> bool:
    """Return whether a key for the address ``server`` is in the environment or in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    # the server's former name, whose key wandb accepts too
    hosts = (urlsplit(server).netloc, *(["api.wandb.ai"] if server == "https://api.forge.coreweave.com" else []))
    for path in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        try:
            keys = netrc.netrc(Path(path).expanduser()) if path else None
        except (OSError, netrc.NetrcParseError):
            continue
        if keys is not None and any(keys.authenticators(host) for host in hosts):
            return True
    return False


def sessions(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the folders of sessions under ``folder``, the newest last."""
    found = [path for path in folder.glob(pattern) if _FOLDER.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.name.removeprefix("offline-"))


def previous_identifier(folder: Path) -> str | None:
    """Return the identifier at wandb of the newest session under ``folder``, None without a session."""
    newest = sessions(folder)
    return newest[-1].name.rsplit("-", 1)[1] if newest else None


def last_step(folder: Path) -> int:
    """Return the last step in the files of the sessions under ``folder``, 0 without any. Raises ValueError for another format."""
    record_of = import_module("wandb.proto.wandb_internal_pb2").Record.FromString

    for session in reversed(sessions(folder)):
        for path in session.glob("run-*.wandb"):
            for content in reversed(_records(path.read_bytes())):
                record = record_of(content)
                if record.WhichOneof("record_type") == "history":
                    return int(record.history.step.num)
    return 0


def _records(data: bytes) -> list[bytes]:
    """Return the complete records of a session's file. Raises ValueError for another format."""
    if data and not data.startswith(_MAGIC):
        raise ValueError("its file is not in the format of wandb 0.19 to 0.31")
    records, at, parts = [], 7, b""
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        _, length, kind = _HEADER.unpack_from(data, at) if left >= 7 else (0, 0, 0)
        if kind == 0:  # the rest of a block is empty
            at += left
            continue
        end = at + 7 + length
        if end > len(data):  # a kill cut it off
            break
        parts = data[at + 7 : end] if kind in (1, 2) else parts + data[at + 7 : end]
        if kind in (1, 4):
            records.append(parts)
        at = end
    return records
