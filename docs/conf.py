"""Settings of the site of these pages (`make docs`): the pages as they stand, and the reference from docstrings.

The source folder is the repository, so that links between README.md, CONTRIBUTING.md and docs/ lead to the same places here
and on a code host, and links to other files become downloads.
"""

from pathlib import Path

from neuro_cli import __version__

project, author, release = "neuro", "the authors of neuro", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**.md"]
exclude_patterns = [".*", "build", "conf", "neuro_cli", "outputs", "scripts", "tests"]
highlight_language = "none"  # an indented block is shell with columns of comments
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "1300px", "body_max_width": "none", "sidebar_width": "240px"}
html_copy_source = False
html_title = f"neuro {release}"

# every page stands in one of these, or the build fails
NAVIGATION = {
    "Use": [
        "docs/library", "docs/api", "docs/command_line", "docs/configuration", "docs/design", "docs/cluster", "docs/report",
        "docs/extending", "docs/security", "docs/troubleshooting",
    ],
    "Systems": [
        "docs/algorithms", "docs/darwinn", "docs/noise_reuse", "docs/activation_noise", "docs/distributed_evolution",
        "docs/reinforcement_learning", "docs/ensembles", "docs/architecture_search", "docs/own_tasks", "docs/text",
        "docs/no_gradient",
    ],
    "Results": [
        "docs/measured",
        "docs/performance",
        "docs/records",
        "docs/reproduce",
        "docs/results/gpu",
        "docs/results/modules",
    ],
    "Project": ["CONTRIBUTING", "CHANGELOG", "SECURITY"],
}  # fmt: skip
RECORDS = ["/docs/results/full/*", "/docs/results/quick/*", "/docs/results/gpu/*"]  # below docs/reproduce, so from the root


def navigation(caption: str, pages: list[str]) -> str:
    """A hidden table of contents."""
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:glob:\n:maxdepth: 1\n\n{listed}\n```\n"


def add_navigation(app, page: str, source: list[str]) -> None:
    """Append the tables of contents to the pages that lead to others: on a code host they would be noise."""
    if page == root_doc:
        source[0] += "".join(navigation(*part) for part in NAVIGATION.items())
    elif page == "docs/reproduce":
        source[0] += navigation("Records", RECORDS)


def write_index(app, error: Exception | None) -> None:
    """Write index.html, where a server looks first; it leads to the first page."""
    if error is None and app.builder.format == "html":
        first = f"{root_doc}.html"
        redirect = f'<!doctype html><meta http-equiv="refresh" content="0; url={first}"><a href="{first}">neuro</a>\n'
        (Path(app.outdir) / "index.html").write_text(redirect, encoding="utf-8")


def setup(app) -> dict[str, bool]:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
