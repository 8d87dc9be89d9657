"""Settings of the site of these pages (`make docs`).

The source folder is the repository, so that links between README.md, CONTRIBUTING.md and docs/ lead to the same places here
and on a code host, and links to other files become downloads. Parts of the reference are written before the pages are read.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import reference_pages  # noqa: E402

from neuro_cli import __version__  # noqa: E402

project, author, release = "neuro", "the authors of neuro", __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**.md", "docs/**.ipynb"]
exclude_patterns = [".*", "build", "conf", "findings", "neuro_cli", "outputs", "scripts", "tests"]
highlight_language = "none"  # an indented block is shell with columns of comments
myst_heading_anchors = 3
nb_execution_mode = "off"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_copyright = False
html_title = f"neuro {release}"

# every page stands in one of these, or the build fails
NAVIGATION = {
    "Tutorial": ["docs/tutorial/getting_started", "docs/tutorial/library"],
    "How-to": [
        "docs/how_to/installation", "docs/how_to/library", "docs/how_to/forward_gradient", "docs/how_to/own_data",
        "docs/how_to/extending", "docs/how_to/clusters",
        "docs/how_to/torchrun", "docs/how_to/slurm", "docs/how_to/kubernetes", "docs/how_to/ray",
        "docs/how_to/sweeps", "docs/how_to/trackers", "docs/how_to/exports",
        "docs/how_to/reinforcement_learning", "docs/how_to/text", "docs/how_to/language_models",
        "docs/how_to/no_gradient", "docs/how_to/architecture_search",
        "docs/how_to/cluster_tasks", "docs/how_to/coming_from", "docs/how_to/reproduce",
        "docs/how_to/troubleshooting",
    ],
    "Explanation": [
        "docs/explanation/one_generation", "docs/explanation/same_bits", "docs/explanation/choosing", "docs/explanation/glossary",
        "docs/explanation/algorithms", "docs/explanation/noise_reuse", "docs/explanation/variance",
        "docs/explanation/activation_noise", "docs/explanation/darwinn",
        "docs/explanation/distributed_evolution", "docs/explanation/ensembles", "docs/explanation/decisions",
    ],
    "Reference": [
        "docs/reference/command_line", "docs/reference/configuration", "docs/reference/api", "docs/reference/run_folder",
        "docs/reference/security",
    ],
    "Results": ["docs/benchmarks", "docs/results/index"],
    "Project": ["CONTRIBUTING", "CHANGELOG", "SECURITY"],
}  # fmt: skip
LAB_BOOK = ["*", "full/*", "quick/*", "gpu/*"]  # below docs/results/index
# text that is generated at the end of a page
APPENDED = {
    "docs/reference/command_line": reference_pages.command_line,
    "docs/reference/run_folder": reference_pages.resumable,
}
# pages that had another name until 2026-11-27, by their names in docs/
MOVED = {
    "activation_noise": "explanation/activation_noise", "algorithms": "explanation/algorithms", "api": "reference/api",
    "architecture_search": "how_to/architecture_search", "cluster": "how_to/clusters", "command_line": "reference/command_line",
    "configuration": "reference/configuration", "darwinn": "explanation/darwinn", "design": "explanation/one_generation",
    "distributed_evolution": "explanation/distributed_evolution", "ensembles": "explanation/ensembles",
    "extending": "how_to/extending", "library": "how_to/library", "measured": "benchmarks", "no_gradient": "how_to/no_gradient",
    "noise_reuse": "explanation/noise_reuse", "own_tasks": "how_to/cluster_tasks", "performance": "results/performance",
    "records": "results/records", "reinforcement_learning": "how_to/reinforcement_learning", "report": "how_to/trackers",
    "reproduce": "how_to/reproduce", "security": "reference/security", "text": "how_to/text",
    "troubleshooting": "how_to/troubleshooting",
}  # fmt: skip
REDIRECT = '<!doctype html><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">neuro</a>\n'


def navigation(caption: str, pages: list[str]) -> str:
    """A hidden table of contents."""
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:glob:\n:maxdepth: 1\n\n{listed}\n```\n"


def extend(app, page: str, source: list[str]) -> None:
    """Append navigation and generated text to a page: on a code host the first would be noise."""
    if page == root_doc:
        source[0] += "".join(navigation(*part) for part in NAVIGATION.items())
    elif page == "docs/results/index":
        source[0] += navigation("Lab book", LAB_BOOK)
    elif page in APPENDED:
        source[0] += "\n" + APPENDED[page]()


def breakable(app, page: str, template: str, context: dict, doctree) -> None:
    """Let names of keys break after a dot or an underscore: a phone shows the meanings along with them."""
    if page == "docs/reference/configuration":
        names = re.compile(r'(?<=<span class="pre">)[\w.]+')
        context["body"] = names.sub(lambda name: re.sub("[._]", r"\g<0><wbr>", name[0]), context["body"])


def redirect(app, error: Exception | None) -> None:
    """Write index.html, which leads to the first page, and a page for each that has moved."""
    if error is None and app.builder.format == "html":
        places = {"index": f"{root_doc}.html"} | {f"docs/{old}": f"{new}.html" for old, new in MOVED.items()}
        for name, target in places.items():
            (Path(app.outdir) / f"{name}.html").write_text(REDIRECT.format(target), encoding="utf-8")


def setup(app) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: reference_pages.write())
    app.connect("source-read", extend)
    app.connect("html-page-context", breakable)
    app.connect("build-finished", redirect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
