"""Name of the CPU, so that timings are compared on like hardware only, its instructions, and torch's rounding on it."""

import platform
from pathlib import Path

import torch
import torch.nn.functional as F

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


def lacks_bfloat16() -> bool:
    """Return whether torch multiplies numbers in bfloat16 one by one here: oneDNN has such products from AVX-512 on."""
    vectors = supported("avx512") or torch.backends.cpu.get_cpu_capability() == "AVX512"
    return platform.machine() in ("x86_64", "AMD64") and not vectors


def rounds_float32() -> bool:
    """Return whether torch multiplies float32 numbers with fewer bits here, in products or in convolutions.

    On a processor with AMX ``torch.set_float32_matmul_precision("medium")`` makes it round them to bfloat16.
    """
    number = 1 + 2**-12  # 1.0 in bfloat16, and in TF32
    x = torch.full((32, 16, 8, 8), number, device="cpu")
    with torch.autocast("cpu", enabled=False):
        products = (x.view(128, 256) @ x.view(128, 256).T, F.conv2d(x, x[:16, :, :3, :3].contiguous()))
    return any(bool(made.flatten()[0] < terms * number) for made, terms in zip(products, (256, 144), strict=True))
