"""Pages in one HTML file that works offline: its policy forbids any request, and runs only the page's own scripts.

neuro report outputs/train/<stamp>        neuro report RUN RUN file=both.html
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bokeh.embed import json_item
from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import refuse_link, write_atomically
from neuro_cli.core.version import __version__
from neuro_cli.report.links import Folder, folders, linked
from neuro_cli.report.run_state import RunState
from neuro_cli.report.runs import described, groups_of, runs_of
from neuro_cli.report.sections import PageSection, sections_of
from neuro_cli.run_folder.palette import COLOURS

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
    runs = runs_of(jobs)
    groups, address = groups_of(runs), linked(file)
    states = [run.job.state for run in runs] + [job.state for job in jobs if job.study or job.path is None]
    what = described(groups[0].runs[0]) if len(groups) == 1 else ""
    counts = [(state, states.count(state)) for state in ORDER if state in states]
    write_sections(sections_of(jobs, runs, groups, address), file, title, what, counts, folders(runs, address))


def write_sections(
    sections: Sequence[PageSection],
    file: Path,
    title: str,
    what: str = "",
    states: Sequence[tuple[str, int]] = (),
    listed: Sequence[Folder] = (),
) -> None:
    """Write a page of ``sections``. ``states``: counts for its head; ``listed``: run folders for its end. Raises UserError."""
    plots = [json_item(picture.plot, place) for section in sections for place, picture in section.placed() if picture.plot]
    script, bokeh = _template("page.js"), _bokeh() if plots else ""
    result = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    policy = " ".join(f"'sha256-{_digest(text)}'" for text in (bokeh, script))
    text = _environment().get_template("page.html").render(
        title=title, what=what, generator=GENERATOR, made=result, states=states, sections=sections, folders=listed,
        style=_template("page.css"), script=script, bokeh=bokeh, policy=policy, colours=COLOURS,
        data={"plots": plots, "colours": COLOURS},
    )  # fmt: skip
    try:
        refuse_link(file)
        write_atomically(file, text.encode())
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error


def _is_page(file: Path) -> bool:
    with file.open("rb") as opened:
        return MARK in opened.read(2000)


def _bokeh() -> str:
    """Return Bokeh's own script, without widgets and tables."""
    scripts = Resources(mode="inline", components=["bokeh"], log_level="warn").js_raw
    return "\n".join(scripts).replace("\r\n", "\n")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _environment() -> Environment:
    loader = PackageLoader("neuro_cli.report", "template")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # Bokeh's JSON defines an object at its first use
    return environment


def _template(name: str) -> str:
    return (Path(__file__).parent / "template" / name).read_text(encoding="utf-8")
