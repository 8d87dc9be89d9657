"""Page in one HTML file that works offline: its policy forbids any request and any script.

neuro report outputs/train/<stamp>        neuro report RUN RUN file=both.html
"""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import refuse_link, save_file
from neuro_cli.core.version import __version__
from neuro_cli.report.run_state import RunState
from neuro_cli.report.runs import described, groups_of, runs_of
from neuro_cli.report.sections import sections_of

GENERATOR = f"neuro {__version__}"
MARK = b'<meta name="generator" content="neuro '
ORDER = ("damaged", "failed", "running", "waiting", "stopped", "finished")


def write_page(jobs: Sequence[RunState], file: Path, title: str) -> None:
    """Write the page of ``jobs`` to ``file``, over an older page there. Raises UserError, also for a file of another kind."""
    try:
        if file.exists() and not _is_page(file):
            raise ConfigError("file", file, "exists and is no page of neuro report; give another name")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from error
    refuse_link(file)
    save_file(file, _page(jobs, file, title))


def _page(jobs: Sequence[RunState], file: Path, title: str) -> str:
    runs = runs_of(jobs)
    groups, start = groups_of(runs), file.resolve().parent

    def address(path: Path) -> str:
        """Return the address of a folder, relative to the page."""
        relative = Path(os.path.relpath(path.resolve(), start)).as_posix()
        return quote(relative if relative.startswith(".") else f"./{relative}") + "/"

    sections = list(sections_of(jobs, runs, groups, address))
    states = [run.job.state for run in runs] + [job.state for job in jobs if job.study or job.path is None]
    environment = Environment(
        loader=PackageLoader("neuro_cli.report", "template"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html").render(
        title=title, what=described(groups[0].runs[0]) if len(groups) == 1 else "", generator=GENERATOR,
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        states=[(state, states.count(state)) for state in ORDER if state in states],
        sections=sections, style=(Path(__file__).parent / "template" / "page.css").read_text(encoding="utf-8"),
    )  # fmt: skip


def _is_page(file: Path) -> bool:
    with file.open("rb") as opened:
        return MARK in opened.read(2000)
