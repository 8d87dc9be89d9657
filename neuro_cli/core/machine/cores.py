"""Cores that this process may use, by its binding, quotas and SLURM. Every count of cores uses this module."""

import math
import os
import re
from pathlib import Path

from neuro_cli.core.machine.control_groups import OWN, ROOT, groups, numbers


def usable_cores() -> int:
    """Number of cores for this machine's processes of one command, at least 1: its ranks, peers or workers share them."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(bound, core_limit())


def core_limit(root: Path = ROOT, own: Path = OWN) -> int:
    """Whole cores by quotas of control groups and by SLURM's ``--cpus-per-task``, at least 1; very many without a limit."""
    return max(1, int(min(2.0**31, _quota(root, own), _of_slurm())))


def _quota(root: Path, own: Path) -> float:
    found = [math.inf]
    for folder in groups("cpu", root, own):
        version_1 = numbers(folder / "cpu.cfs_quota_us") + numbers(folder / "cpu.cfs_period_us")
        for limit in (numbers(folder / "cpu.max"), version_1):
            if len(limit) == 2 and limit[0] > 0 and limit[1] > 0:  # -1: none
                found.append(limit[0] / limit[1])
    return min(found)


def _of_slurm() -> float:
    """Return cores of a job's tasks on this node. SLURM need not bind them: that is a matter of the site's plugins."""
    each = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if "SLURM_JOB_ID" not in os.environ or not each.isdigit():
        return math.inf
    tasks = os.environ.get("SLURM_STEP_TASKS_PER_NODE") or os.environ.get("SLURM_TASKS_PER_NODE") or "1"
    counts = [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks) for _ in range(int(times or 1))]
    node = os.environ.get("SLURM_NODEID", "0")
    here = counts[int(node)] if node.isdigit() and int(node) < len(counts) else 1
    return int(each) * here
