"""Pictures of the page with their data: figures by matplotlib, and files from run folders."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from neuro_cli.run_folder.plot import Panel, png_of

LARGEST = 4_000_000  # bytes of an embedded picture
IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass
class Picture:
    """Picture at the address ``image``, which has its data; ``description``: for those who do not see it; ``note``: under it."""

    title: str
    image: str
    description: str
    note: str = ""


def drawn(title: str, panel: Panel, description: str, note: str = "") -> Picture:
    """Draw the figure ``panel``."""
    return Picture(title, _address(".png", png_of(panel, width=5.0)), description, note)


def embedded(paths: Iterable[Path]) -> list[Picture]:
    """Return the pictures of SVG and PNG files; of one in both formats only the SVG. Links are left out."""
    usable = [path for path in sorted(paths) if path.suffix in IMAGES and path.is_file() and not path.is_symlink()]
    chosen = [path for path in usable if path.suffix == ".svg" or path.with_suffix(".svg") not in usable]
    fitting = [path for path in chosen if path.stat().st_size <= LARGEST]
    return [Picture(path.stem, _address(path.suffix, path.read_bytes()), path.stem) for path in fitting]


def _address(suffix: str, content: bytes) -> str:
    return f"data:{IMAGES[suffix]};base64,{base64.b64encode(content).decode()}"


def amount(value: float) -> str:
    """Format a number in a figure for reading."""
    return f"{value:,.0f}" if abs(value) < 1e15 and value == round(value) else f"{value:.4g}"
