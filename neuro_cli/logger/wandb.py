"""Weights & Biases: metrics, config and summary under ``wandb/`` of the run folder, uploaded where there is a key.

A tracker must not end or hold up a run: whatever goes wrong with it is told once, then this logger is silent.
"""

import logging
import netrc
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from neuro_cli.core.errors import ConfigError
from neuro_cli.logger.base import Logger, Row

log = logging.getLogger(__name__)

START_SECONDS, FINISH_SECONDS = 20.0, 30.0  # what a server that does not answer may cost
_FOLDER = re.compile(r"(?:offline-)?run-\d+_\d+-(\w+)")


class WandbLogger(Logger):
    """Offline when there is no key and WANDB_MODE is not set. A run that goes on keeps its identifier at wandb.

    A thread of its own talks to wandb, so that a server that does not answer costs a run no time before its end.
    """

    def __init__(self, project: str = "neuro") -> None:
        if not isinstance(project, str) or not project:
            raise ConfigError("logger.project", project, "must be the name of a project at wandb")
        self.project = project
        self._run: Any = None
        self._broken = False

    def start(self, run: Path, config: dict[str, Any], resumed_at: int | None) -> None:
        known = previous_identifier(run / "wandb") if resumed_at is not None else None
        self._calls: SimpleQueue[tuple[str, Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="neuro-wandb", daemon=True)
        self._thread.start()
        self._calls.put(("start", lambda: self._open(run, config, known)))

    def log(self, row: Row) -> None:
        metrics = {name: value for name, value in row.items() if name != "generation" and value is not None}
        if not self._broken:
            self._calls.put(("log", lambda: self._run.log(metrics, step=row["generation"])))

    def finish(self, summary: dict[str, Any]) -> None:
        self._calls.put(("finish", lambda: self._close(summary)))
        self._calls.put(None)
        self._thread.join(START_SECONDS + FINISH_SECONDS)
        if self._thread.is_alive():
            log.warning("wandb does not answer: what it has not uploaded stays in the run folder, see wandb sync")

    def _open(self, run: Path, config: dict[str, Any], known: str | None) -> None:
        import wandb

        offline = "WANDB_MODE" not in os.environ and not has_key(wandb.setup().settings.base_url)
        if offline:
            log.info("no key of wandb: recording offline; upload with: wandb sync %s/wandb/offline-run-*", run)
        settings = wandb.Settings(
            silent=True,  # the terminal is the runner's
            console="off",
            init_timeout=START_SECONDS,
            finish_timeout=FINISH_SECONDS,
        )
        run.mkdir(parents=True, exist_ok=True)  # wandb takes another folder when this one is not there
        self._run = wandb.init(
            project=self.project,
            dir=str(run),
            config=config,
            id=known,
            resume="allow" if known else None,
            mode="offline" if offline else None,
            settings=settings,
        )
        address = "offline" if self._run.offline else self._run.url
        log.info("wandb: run %s of project %s, %s", self._run.id, self.project, address)

    def _close(self, summary: dict[str, Any]) -> None:
        self._run.summary.update(summary)
        self._run.finish()

    def _serve(self) -> None:
        for what, action in iter(self._calls.get, None):
            if self._broken:
                continue
            try:
                action()
            except Exception as error:  # wandb raises errors of its own, of its service and of the network
                self._broken = True
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                log.warning("wandb failed to %s (%s): nothing more goes to wandb, the run goes on", what, reason)


def has_key(server: str) -> bool:
    """Whether a key for the address ``server`` is in the environment or in the netrc file."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    # the server's former name: wandb takes its key too
    hosts = (urlsplit(server).netloc, *(["api.wandb.ai"] if server == "https://api.forge.coreweave.com" else []))
    for path in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        try:
            known = netrc.netrc(Path(path).expanduser()) if path else None
        except (OSError, netrc.NetrcParseError):
            continue
        if known is not None and any(known.authenticators(host) for host in hosts):
            return True
    return False


def previous_identifier(folder: Path) -> str | None:
    """The identifier at wandb of the newest session under ``folder``, None when there is none."""
    if not folder.is_dir():
        return None
    sessions = [path for path in folder.iterdir() if _FOLDER.fullmatch(path.name)]
    newest = max(sessions, key=lambda path: path.stat().st_mtime, default=None)
    return newest.name.rsplit("-", 1)[1] if newest else None
