"""The processor in words: figures of one kind are no figures of another."""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import torch


def processor() -> str:
    """Name of the processor, where the system has it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> str:
    """Number of cores that this process may use, and the vector instructions that torch finds: 2 cores, AVX512 bf16 VNNI."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Callable[[], bool]] = {
        "bf16": torch.cpu._is_avx512_bf16_supported,
        "VNNI": torch.cpu._is_vnni_supported,
        "AMX": torch.cpu._is_amx_tile_supported,
    }
    more = [name for name, supported in found.items() if supported()]
    return f"{count} cores, {' '.join([torch.backends.cpu.get_cpu_capability(), *more])}"
