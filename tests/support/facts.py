"""Facts about a trained network, from the header of its file."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open


def read_facts(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["neuro"])
