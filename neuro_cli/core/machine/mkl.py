"""MKL, which computes torch's matrix products: their bits must not depend on the matrices' addresses.

Without Intel's AVX-512 they do: where a row does not begin at a multiple of a vector, MKL sums its products in another order, and
a slice of a sum or a block of a loop begins anywhere. MKL's mode of conditional numerical reproducibility ends that; MKL asks the
environment once, at its first product. Of 4,116 products on an AMD EPYC (AVX2) 470 differed without it, none with it, at the
same rate.
"""

import ctypes
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

PROCESSORS = Path("/proc/cpuinfo")
MODE = "MKL_CBWR"

_ALL, _OFF = -1, (0, 1)  # constants of mkl_types.h: the whole setting; no such mode


def ask_for_same_bits(processors: Path = PROCESSORS) -> None:
    """Set MKL's mode in the environment, before the first product, unless the user did or the processor needs none."""
    if MODE not in os.environ and _needed(processors):
        os.environ[MODE] = "AUTO,STRICT"


def warn_without_same_bits(library: str, processors: Path = PROCESSORS) -> None:
    """Log a line where torch's ``library`` has MKL, and its first product came before :func:`ask_for_same_bits`."""
    mode = getattr(ctypes.CDLL(library), "mkl_serv_cbwr_get", None)
    if mode is not None and mode(_ALL) in _OFF and _needed(processors):
        log.warning(f"bits of matrix products may vary: import neuro_cli before torch's first product, or set {MODE}=AUTO,STRICT")


def _needed(processors: Path) -> bool:
    """Return whether bits depend on places: on all processors but Intel's with AVX-512, where tests found none that did."""
    said = _first_lines(processors)
    return "GenuineIntel" not in said or " avx512f" not in said


def lacks_wide_kernels(processors: Path = PROCESSORS) -> bool:
    """Return whether the processor has AVX-512 and MKL no kernels for it: those for AMD have AVX2 alone."""
    said = _first_lines(processors)
    return "AuthenticAMD" in said and " avx512f" in said


def _first_lines(processors: Path) -> str:
    """Return what the system says of the first processor, nothing where it says nothing."""
    try:
        with processors.open() as lines:  # the first of them: on many cores the system takes long to write all
            return "".join(line for line, _ in zip(lines, range(40), strict=False))
    except OSError:
        return ""
