"""Writes docs/configuration.md from the comments in conf/: python scripts/configuration_page.py"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from neuro_cli.cli.options.groups import groups  # noqa: E402
from neuro_cli.cli.options.help import page  # noqa: E402
from neuro_cli.cli.overrides.check import checked  # noqa: E402

VERBS = ("train", "evolve", "search", "scale")


def made() -> str:
    """Text of the page."""
    options = {group: names for group, names in groups().items() if group != "experiment"}
    return page({verb: checked(verb, []).composed for verb in VERBS}, options)


if __name__ == "__main__":
    (ROOT / "docs" / "configuration.md").write_text(made())
