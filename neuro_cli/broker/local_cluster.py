"""Cluster on this machine: its processes are children of this one, which starts them again when they end, and end with it."""

import json
import logging
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.core.machine.process import exit_text, kill_group, start, stop
from neuro_cli.tls.task_cluster import make_certificates

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0


@dataclass
class ClusterProcess:
    """Process of the cluster, and the config to start it again with."""

    config: dict[str, Any]
    process: "subprocess.Popen[str]"


class Cluster:
    """Processes of a cluster, by their names. ``folder`` has their files; None: a temporary one that ends with the cluster.

    New certificates lie in a folder that only its owner can read (``certificates``), unless ``security`` has other settings of
    that section.
    """

    def __init__(self, folder: Path | None = None, security: dict[str, Any] | None = None) -> None:
        self._temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="neuro-cluster-")
        self.folder = folder or Path(self._temporary.name if self._temporary else "")
        self.certificates = None if security is not None else self.folder / "certificates"
        if self.certificates is not None and not self.certificates.exists():
            make_certificates(self.certificates, keep_authority=False)
        self._security = {"certificates": str(self.certificates)} if security is None else security
        self.members: dict[str, ClusterProcess] = {}
        self.nameserver = "127.0.0.1:0"

    def start_nameserver(self, **settings: Any) -> str:
        """Start the nameserver of the local cluster. Returns its address."""
        said = self._start("nameserver", "nameserver", {"address": self.nameserver, **settings})
        self.nameserver = self.members["nameserver"].config["nameserver"]["address"] = said.rpartition(" at ")[2]
        return self.nameserver

    def start_broker(self, name: str, **settings: Any) -> str:
        """Start a broker on a free port. Returns its address, which it keeps when it is started again."""
        said = self._start(name, "broker", {"address": "127.0.0.1:0", **settings})
        address = self.members[name].config["broker"]["address"] = said.rpartition(" at ")[2]
        return address

    def start_worker(self, name: str, **settings: Any) -> None:
        """Start a worker of the local cluster."""
        self._start(name, "worker", {"name": name, **settings})

    def revive(self) -> list[str]:
        """Restart processes of the local cluster that have ended. Returns their names."""
        ended = [name for name, member in self.members.items() if member.process.poll() is not None]
        for name in ended:
            member = self.members[name]
            log.warning("%s ended with %s: it is started again", name, exit_text(member.process.returncode))
            stop(member.process, patience=0.0)
            self._launch(name, member.config)
        return ended

    def stop(self, name: str) -> int:
        """Ask a process of the local cluster to end, and wait for it. Returns its exit code."""
        (code,) = stop(self.members.pop(name).process, patience=STOP_SECONDS)
        return code

    def close(self) -> None:
        """End all processes of the local cluster."""
        processes = [member.process for member in self.members.values()]
        for process in processes:
            if process.poll() is None:
                kill_group(process.pid)  # ends the worker's task processes too, although they are groups by themselves
        stop(*processes, patience=STOP_SECONDS, ask=False)
        self.members.clear()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _start(self, name: str, role: str, settings: dict[str, Any]) -> str:
        config = cluster_config()
        config["nameserver"] |= {"address": self.nameserver}
        config["broker"] |= {"folder": str(self.folder / name)}
        config["security"] |= self._security
        config[role] |= settings
        return self._launch(name, config | {"role": role})

    def _launch(self, name: str, config: dict[str, Any]) -> str:
        """Start a process. Returns the first line that it prints, once it serves. Raises UserError."""
        command = [sys.executable, "-P", "-m", "neuro_cli.broker", json.dumps(config)]
        process = start(command, signal.SIGKILL, stdout=subprocess.PIPE, text=True)
        self.members[name] = ClusterProcess(config, process)
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if not said:
            (code,) = stop(process, patience=STOP_SECONDS, ask=False)
            raise UserError(f"{name} did not start: {exit_text(code)}")
        return said


def cluster_config() -> dict[str, Any]:
    """Return the sections of ``conf/broker_cluster.yaml`` with their defaults."""
    import yaml

    config: dict[str, Any] = yaml.safe_load((config_folder() / "broker_cluster.yaml").read_text())
    return config
