"""Local peers: processes on this machine that this peer starts, and that end with it however it ends."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.machine.process import last_line, start, stop
from neuro_cli.evolve.network.secret import VARIABLE

log = logging.getLogger(__name__)

TERMINAL = "terminal.txt"  # file of a peer's output
PATIENCE = 15.0  # seconds to end after being asked


class LocalPeers:
    """Peers 1 to ``count``, each in a folder of ``run``/peers. They join at ``address``."""

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
                    start(
                        [sys.executable, "-P", "-m", "neuro_cli", "peer", str(folder)],
                        env=environment | {VARIABLE: secret},
                        stdin=subprocess.DEVNULL,
                        stdout=terminal,
                        stderr=terminal,
                    )
                )

    def end(self, finished: bool) -> None:
        """Wait for their end, and ask for it unless all work is ``finished`` and they end by themselves."""
        for number, code in enumerate(stop(*self._processes, patience=PATIENCE, ask=not finished), 1):
            if code:
                folder = self._folder / str(number)
                said = last_line(folder / TERMINAL) or f"see {folder}"
                log.warning("local peer %d ended with exit code %d: %s", number, code, said)
