"""``neuro report``."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuro_cli.cli.arguments import Parser, files_and_values
from neuro_cli.cli.registry import HELP
from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import ConfigError, printable
from neuro_cli.run_folder.short_names import folder_of

if TYPE_CHECKING:
    from neuro_cli.report.run_state import RunState

PAGE = "report.html"
REPORT_KEYS = ("file", "html", "x")


def report_verb(arguments: list[str]) -> int:
    from neuro_cli.report.table import report as table

    parser = Parser(
        "neuro report", description=HELP["report"], usage="neuro report RUN ... [file=report.html] [html=false] [x=KEY]"
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs, sweeps, searches, clusters and studies")
    parser.epilog = "x=algo.sigma draws the results of a sweep against that key, mean and spread over seeds, as SVG and PNG"
    options = parser.parse_args(arguments)
    typed, values = files_and_values(options.runs, REPORT_KEYS, "no folder has this name, and neuro report takes")
    folders = [folder_of(path) for path in typed]
    file = Path(values["file"]) if "file" in values else None
    html = boolean("html", values.get("html", True))
    if not folders:
        parser.error("which runs?")
    if file is not None and not file.parent.is_dir():
        raise ConfigError("file", file, f"there is no folder {file.parent}")
    jobs = table(folders)
    if "x" in values:
        from neuro_cli.report.against import draw_against

        for path in draw_against(jobs, str(values["x"]), folders[0] if len(folders) == 1 else Path()):
            print(printable(f"neuro: wrote {path}"))
        return 0
    if html:
        _page(jobs, folders, file)
    return 0


def _page(jobs: "list[RunState]", folders: list[Path], file: Path | None) -> None:
    """Write the page, into the folder if it is the only one, else here, and print its name."""
    from neuro_cli.report.page import write_page

    file = file or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    title = folders[0].resolve().name if len(folders) == 1 else f"{len(jobs)} runs of {len(folders)} folders"
    write_page(jobs, file, title)
    print(printable(f"neuro: wrote {file}, {file.stat().st_size / 1e6:.1f} MB"))
