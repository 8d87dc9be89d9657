"""Runner of a command whose MPI ranks live on emulated hosts, network namespaces that the switch joins.

    python -m neuro_cli.fabric.emulation.hosts HOSTS RATE DELAY COMMAND...

The command itself, which starts the ranks, runs on one more host. RATE: bit/s of a port, each way; DELAY: seconds, one way.
Nothing can be left behind. The namespaces have no names, so each lives while a process is in it or has its descriptor open. All
such processes live in a PID namespace whose first process dies with its parent. The kernel thus ends the ranks and removes
interfaces and namespaces when the runner ends, even by SIGKILL.

:mod:`neuro_cli.fabric.emulation.enter_host` moves a process to a host.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from neuro_cli.core.machine.process import die_with_parent
from neuro_cli.fabric.emulation import HOSTS, PORT, netns

READY = b"r"
MOST = 253  # ranks; one byte numbers the hosts and ends their addresses
QUEUE = 20_000_000  # ns of frames in a downlink's queue before it drops some


def address(host: int) -> str:
    return f"10.77.0.{host + 1}"


def hardware(host: int) -> bytes:
    return bytes((0x02, 0x77, 0, 0, 0, host + 1))


def make_hosts(count: int) -> list[int]:
    """Return descriptors of ``count`` new network namespaces; this process stays in its present one."""
    present = os.open("/proc/self/ns/net", os.O_RDONLY)
    namespaces = []
    for _ in range(count):
        netns.unshare(netns.NEWNET)
        namespaces.append(os.open("/proc/self/ns/net", os.O_RDONLY))
    netns.setns(present, netns.NEWNET)
    os.close(present)
    return namespaces


def plug_in(hosts: Sequence[int]) -> list[int]:
    """Give every host its port, address and neighbours. Returns the ports' descriptors."""
    ports = []
    for host, namespace in enumerate(hosts):
        netns.setns(namespace, netns.NEWNET)
        # some kernels default to BBR, which paces by itself; others need a right that a namespace lacks
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
        ports.append(netns.open_port(PORT, hardware(host)))
        netns.configure("lo")
        netns.configure(PORT, address(host))
        for other in range(len(hosts)):
            if other != host:
                netns.add_neighbour(PORT, address(other), hardware(other))
    return ports


def switch(hosts: Sequence[int], rate: float, delay: float, ready: int) -> None:
    """Run the switch of the emulated hosts until killed."""
    import numpy as np

    from neuro_cli.fabric.emulation.switch import run_switch

    ports = np.array(plug_in(hosts), np.int32)
    netns.precise_timers()
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # a frame that is due does not wait for a rank
    except PermissionError:
        print("neuro: the switch runs without real-time priority: delays will be longer at times", file=sys.stderr)
    run_switch.compile("(int32[::1], float64, int64, int64)")
    os.write(ready, READY)
    run_switch(ports, float(rate), round(delay * 1e9), QUEUE)


def first_process(count: int, rate: float, delay: float, command: Sequence[str]) -> int:
    """Run the first process of the PID namespace: make hosts and switch, then run ``command``. Returns its exit code."""
    netns.own_proc()
    hosts = make_hosts(count + 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        switch(hosts, rate, delay, writing)
        os._exit(1)
    os.close(writing)
    if os.read(reading, 1) != READY:
        print("neuro: error: fabric.emulate=true: the switch did not start", file=sys.stderr)
        return 1
    signal.signal(signal.SIGCHLD, lambda number, frame: end_without(child))
    namespaces = ":".join(f"/proc/1/fd/{host}" for host in hosts)
    become_host(hosts[-1], count)
    process = subprocess.Popen(command, env=os.environ | {HOSTS: namespaces})
    pass_on(process.pid)
    return code_of(process.wait())


def end_without(switch_process: int) -> None:
    """End this process and with it the ranks if the switch has ended: they would wait for ever."""
    if os.waitpid(switch_process, os.WNOHANG)[0]:
        print("neuro: error: fabric.emulate=true: the switch between the ranks has ended", file=sys.stderr, flush=True)
        os._exit(1)


def become_host(namespace: int, number: int) -> None:
    """Move this process to a host: its network and its name."""
    netns.setns(namespace, netns.NEWNET)
    netns.unshare(netns.NEWUTS)
    socket.sethostname(f"host{number}")


def pass_on(pid: int) -> None:
    """Forward requests to stop to the process ``pid`` on the emulated hosts."""

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, forward)


def code_of(returned: int) -> int:
    """Return the exit code of a host's process for a status of ``wait``: 128 + N for one that signal N ended."""
    return returned if returned >= 0 else 128 - returned


def main() -> None:
    count, rate, delay, command = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
    die_with_parent(signal.SIGKILL)
    netns.unshare(netns.NEWPID | netns.NEWNS)
    child = os.fork()
    if child == 0:
        die_with_parent(signal.SIGKILL)
        os._exit(first_process(count, rate, delay, command))
    pass_on(child)
    _, status = os.waitpid(child, 0)
    sys.exit(code_of(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
