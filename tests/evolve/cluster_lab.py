"""A cluster of real processes for the tests: start, join, kill, and compare what they leave behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from support.forked import Forked
from support.worlds import clean_environment

from neuro_cli.evolve.ledger.file import read_ledger
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.network.secret import VARIABLE

NEURO = (sys.executable, "-m", "neuro_cli")
SECRET = "a secret for the tests"
SMALL = ("population=4", "batch_size=16", "evaluate.every=1000000", "checkpoint.every=1000000", "algo.sigma=0.02", "threads=1")


class Peer:
    """One process of ``neuro evolve``; ``neuro``: the begin of its command line."""

    def __init__(self, run: Path, *arguments: str, join: str | None = None, secret: str = SECRET, neuro: Sequence[str] = NEURO):
        self.run = run
        command = [*neuro, "evolve", "cluster.local_peers=1", f"hydra.run.dir={run}"]
        command += [*SMALL, *([f"cluster.join={join}"] if join else []), *arguments]
        self.process = Forked(
            command, cwd=run.parent, env=clean_environment() | {VARIABLE: secret}, stdout=subprocess.PIPE,
            stderr=(run.parent / f"{run.name}.err").open("wb"), text=True,
        )  # fmt: skip

    @cached_property
    def address(self) -> str:
        """Known when it has entered its cluster: this waits for it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("neuro: peer at "), (line, self.errors())
        return line.split()[3].rstrip(";")

    def errors(self) -> str:
        return (self.run.parent / f"{self.run.name}.err").read_text()

    def kill(self) -> float:
        self.process.kill()
        now = time.time()
        self.process.wait()
        return now

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def iteration(self) -> int:
        return read_ledger(self.run).next if (self.run / "ledger.bin").exists() else 0

    def summary(self) -> dict[str, Any]:
        return json.loads((self.run / "summary.json").read_text())


class Lab:
    """Peers, all with one secret."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.arguments = folder, arguments
        self.peers: list[Peer] = []

    def start(self, *arguments: str, join: str | None = None, **more: Any) -> Peer:
        peer = Peer(self.folder / f"peer{len(self.peers)}", *self.arguments, *arguments, join=join, **more)
        self.peers.append(peer)
        return peer

    @property
    def alive(self) -> list[Peer]:
        return [peer for peer in self.peers if peer.alive]

    def leader(self) -> Peer | None:
        """Return the leader that the newest log line of a living peer names, None where it has ended."""
        lines = [line for peer in self.alive for line in leader_lines(peer.run, 0.0)]
        return next((peer for peer in self.alive if lines and max(lines)[1].endswith(f"@{peer.address}")), None)

    def entered(self, peers: list[Peer]) -> bool:
        """Return whether all ``peers`` are members: the first has begun, and the log of the others says that they joined."""
        begun = all((peer.run / "metrics.csv").exists() for peer in peers)
        joined = ("joined cluster" in (peer.run / "log.txt").read_text() for peer in peers if peer is not self.peers[0])
        return begun and all(joined)

    def wait(self, condition: Any, timeout: float = 90.0, what: str = "") -> float:
        """Seconds until ``condition()``."""
        begun = time.monotonic()
        while time.monotonic() < begun + timeout:
            if condition():
                return time.monotonic() - begun
            time.sleep(0.2)
        raise AssertionError(
            f"{what or condition} did not come in {timeout} s: {[(p.run.name, p.iteration()) for p in self.alive]}"
        )

    def ledgers(self) -> list[Ledger]:
        return [read_ledger(peer.run) for peer in self.peers if (peer.run / "ledger.bin").exists()]

    def end(self) -> None:
        for peer in self.peers:
            peer.end()
        for peer in self.peers:
            try:
                peer.process.wait(240)
            except subprocess.TimeoutExpired:
                peer.process.kill()
                peer.process.wait()
            if peer.process.stdout is not None:
                peer.process.stdout.close()


def consistent(ledgers: list[Ledger]) -> int:
    """All are prefixes of the longest: no iteration lost, none twice, none different. The length of the longest."""
    longest = max(ledgers, key=lambda ledger: ledger.next)
    for ledger in ledgers:
        assert longest.head_at(ledger.next) == ledger.head, f"another history at iteration {ledger.next}"
    return longest.next


def leader_lines(run: Path, since: float) -> list[tuple[float, str]]:
    """(time, peer) of every leader that a peer's log tells of after ``since``."""
    found, log = [], run / "log.txt"
    for line in log.read_text().splitlines() if log.exists() else []:
        if " leader is " in line and " leader is none " not in line:
            stamp, milliseconds = line[:19], line[20:23]
            when = time.mktime(time.strptime(stamp, "%Y-%m-%d %H:%M:%S")) + int(milliseconds) / 1000
            if when > since:
                found.append((when, line.split(" leader is ")[1].split()[0]))
    return found


def descendants_with(mark: str) -> list[int]:
    """Processes whose environment has ``mark``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes() and (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
