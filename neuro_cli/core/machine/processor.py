"""Names the CPU model, so that timings are compared on like hardware only."""

import platform
from pathlib import Path

import torch

from neuro_cli.core.machine.cores import usable_cores


def processor() -> str:
    """Name of the processor, where the system has it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> str:
    """Number of cores that this process may use, and the vector instructions that torch finds: 2 cores, AVX512 bf16 VNNI."""
    names = {"avx512_bf16": "bf16", "vnni": "VNNI", "amx_tile": "AMX"}
    more = [name for instructions, name in names.items() if supported(instructions)]
    return f"{usable_cores()} cores, {' '.join([torch.backends.cpu.get_cpu_capability(), *more])}"


def supported(instructions: str) -> bool:
    """Return whether torch finds avx512_bf16, vnni or amx_tile; False where this version of torch does not say."""
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", bool)())
