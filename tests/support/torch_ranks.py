"""Real worlds of torch.distributed: by torchrun, or by processes with its variables alone."""

import socket
import subprocess
import sys
from pathlib import Path

from support.forked import forking_python
from support.waiting import until
from support.worlds import _run, alive, clean_environment, descendants


def torchrun(ranks: int, *program: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command line of ``python -m torch.distributed.run``."""
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={ranks}",
        "--master-port",
        str(free_port()),
        *options,
        *program,
    ]


def run_torchrun(ranks: int, *program: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program by ranks of torchrun; all of them are forks."""
    command = torchrun(ranks, forking_python(), *program, options=("--no-python",))
    return _run(command, cwd, 300, environment, fresh=False)


def by_variables(ranks: int, *program: str, cwd: Path, **environment: str) -> list[subprocess.Popen[str]]:
    """Start ``ranks`` processes as any launcher may: without torchrun's agent."""
    port = str(free_port())
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        subprocess.Popen(
            [sys.executable, *program],
            cwd=cwd,
            env=clean_environment() | place | {"RANK": str(rank)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def rank_of(launcher: int, rank: int) -> int:
    """The process of a rank below torchrun."""
    mark = f"RANK={rank}".encode()

    def its_process() -> int | None:
        running = (pid for pid in descendants(launcher) if alive(pid))
        return next((pid for pid in running if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")), None)

    return int(until(its_process, what=f"no rank {rank} below {launcher}"))
