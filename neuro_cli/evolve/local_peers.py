"""Local peers: processes on this machine that this peer starts, and that end with it however it ends."""

import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.process import die_with_parent
from neuro_cli.evolve.network.secret import VARIABLE

log = logging.getLogger(__name__)

TERMINAL = "terminal.txt"  # a peer's output
PATIENCE = 15.0  # seconds to end after being asked


class LocalPeers:
    """Peers 1 to ``count``, in folders of their own under ``run``/peers, which join at ``address``."""

    def __init__(self, count: int, run: Path, config: dict[str, Any], address: str, secret: str) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = run / "peers"
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        for number in range(1, count + 1):
            folder = self._folder / str(number)
            (folder / ".hydra").mkdir(parents=True)
            cluster = config["cluster"] | {"local_peers": 1, "join": address, "port": 0, "from_run": None, "force_new": False}
            OmegaConf.save(OmegaConf.create({**config, "cluster": cluster}), folder / ".hydra" / "config.yaml")
            with (folder / TERMINAL).open("wb") as terminal:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-m", "neuro_cli", "peer", str(folder)],
                        env=environment | {VARIABLE: secret},
                        stdin=subprocess.DEVNULL,
                        stdout=terminal,
                        stderr=terminal,
                        start_new_session=True,  # the terminal's Ctrl-C reaches them through us
                        preexec_fn=partial(die_with_parent, signal.SIGTERM),
                    )
                )

    def end(self, finished: bool) -> None:
        """Ask them to end (unless they do by themselves, all being done) and wait for it."""
        if not finished:
            for process in self._processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for number, process in enumerate(self._processes, 1):
            try:
                code = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                log.warning("local peer %d ended with exit code %d: %s", number, code, self._last_words(number))

    def _last_words(self, number: int) -> str:
        lines = (self._folder / str(number) / TERMINAL).read_text(errors="replace").splitlines()
        return lines[-1] if lines else f"see {self._folder / str(number)}"
