"""What the pages say besides commands: links, error texts, tests of defences, the layout, generated parts. A case a page."""

import ast
import re
import runpy
import sys
from functools import cache

import pytest
import yaml
from doc_commands import PAGES, ROOT, name_of, section_of
from support.configs import composed

from neuro_cli.core.metric import ACCURACY
from neuro_cli.logger.columns import grouped

sys.path.insert(0, str(ROOT / "scripts"))
import reference_pages

TEXTS = {name_of(page): page.read_text() for page in PAGES}
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
GENERATED = {ROOT / "docs" / "reference" / name for name in ("configuration.md", "api.md")}


def anchors(text: str) -> set[str]:
    """Names of a page's headings in links."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs" / "results").glob("*.md"))], ids=name_of)
def test_links_lead_to_files_and_headings(page):
    wrong = []
    for target, heading in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve() if target else page
        if file in GENERATED:
            continue
        if not file.exists() or (heading and heading not in anchors(file.read_text())):
            wrong.append(f"{target}#{heading}")
    assert wrong == []


def test_every_page_is_in_the_navigation_and_every_old_name_leads_to_a_page():
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    listed = {page for part in settings["NAVIGATION"].values() for page in part}
    pages = {name.removesuffix(".md") for name in TEXTS} - {"README"}
    made = {"docs/reference/configuration", "docs/reference/api", "docs/tutorial/library", "docs/results/index", "CHANGELOG"}
    assert listed == pages | made
    lab_book = {"docs/results/performance", "docs/results/records"}
    assert {f"docs/{page}" for page in settings["MOVED"].values()} - listed == lab_book


def test_the_generated_pages_have_every_key_every_public_name_and_the_resumable_keys():
    configuration, api = reference_pages.configuration(), reference_pages.api()
    assert "| `generations` | `250` |" in configuration
    options = {name for group, names in reference_pages.groups().items() if group != "experiment" for name in names}
    assert [name for name in options if f"={name}\n" not in configuration] == []
    names = [f"{package}.{name}" for package, own in reference_pages.public().items() for name in own]
    assert [name for name in names if name.rpartition(".")[2] not in api] == []
    assert "`checkpoint.every`" in reference_pages.resumable()
    assert "| `algo` | `ars`," in reference_pages.command_line()


def test_every_defence_of_the_security_page_has_a_test():
    """A row of its tables counts for nothing without the test."""
    page = TEXTS["docs/reference/security.md"]
    defences = yaml.safe_load((ROOT / "tests" / "docs" / "defences.yaml").read_text())
    assert [way for way in defences if f"| {way} |" not in page] == []
    files = list((ROOT / "tests").rglob("test_*.py"))
    defined = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    named = {name for tests in defences.values() for name in tests}
    assert len(named) > 40
    assert [name for name in named if name not in defined and not any(str(file).endswith(f"/{name}") for file in files)] == []


def test_the_sweep_of_wandb_is_one_of_commands_that_compose():
    """What its agent would type for the ends of each parameter; the metric has the name that the logger gives it."""
    (block,) = re.findall(r"^```yaml\n(program: neuro\n.*?)^```$", TEXTS["docs/how_to/sweeps.md"], re.DOTALL | re.MULTILINE)
    sweep = yaml.safe_load(block)
    assert grouped({ACCURACY.name: 0.5}) == {sweep["metric"]["name"]: 0.5}
    for end in (0, -1):
        typed = [f"{key}={[*(given.get('values') or given.values())][end]}" for key, given in sweep["parameters"].items()]
        config = composed(*sweep["command"][2:-1], *typed, verb=sweep["command"][1])
        assert (config["algo"]["sigma"], config["population"]) == tuple(yaml.safe_load(text.split("=")[1]) for text in typed)


def test_the_readme_s_loop_is_that_of_the_script():
    loop = re.findall(r"^```python\nimport neuro_cli as neuro\n\n(.*?)^```$", TEXTS["README.md"], re.DOTALL | re.MULTILINE)
    assert len(loop) == 1
    assert loop[0] in (ROOT / "docs" / "examples" / "digits.py").read_text()


# ---- layout


def tree() -> dict[str, str]:
    """Path and comment of every entry of the tree in CONTRIBUTING.md."""
    block = re.search(r"```text\n(.*?)```", section_of(TEXTS["CONTRIBUTING.md"], "Repository layout"), re.DOTALL)
    assert block
    found, parents = {}, [(-1, "")]
    for line in block[1].splitlines():
        names, _, comment = re.sub(r" {2,}(?=\S)", "\0", line.strip()).partition("\0")
        depth = len(line) - len(line.lstrip())
        while parents[-1][0] >= depth:
            parents.pop()
        for name in names.split():
            found[parents[-1][1] + name] = comment
        parents.append((depth, parents[-1][1] + names))
    return found


def test_the_tree_names_what_exists_and_every_package():
    entries = tree()
    assert [path for path, comment in entries.items() if not (ROOT / path).exists() or len(comment) < 6] == []
    mentioned = " ".join([*entries, *entries.values()])
    packages = [path.parent for path in (ROOT / "neuro_cli").rglob("__init__.py") if "proto" not in path.parts]
    folders = [path for path in (ROOT / "conf").iterdir() if path.is_dir()]
    names = [f"{path.relative_to(ROOT)}/" for path in (*packages, *folders)]
    assert [name for name in names if name not in entries and name.split("neuro_cli/")[-1] not in mentioned] == []


# ---- troubleshooting


@cache
def sources() -> str:
    """All text of string literals in the package, a literal a line."""
    texts = []
    for path in (ROOT / "neuro_cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "\0" for part in node.values]
                texts.append("".join(map(str, parts)))
    return "\n".join(texts)


def test_the_error_texts_of_troubleshooting_are_those_of_the_code():
    rows = re.findall(r"^\| (.+?) \| ", TEXTS["docs/how_to/troubleshooting.md"], re.MULTILINE)
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    symptoms = {piece.strip() for span in spans for piece in re.split(r"\(?\.\.\.\)?:?", span) if len(piece.strip()) > 7}
    assert len(symptoms) > 25
    assert [symptom for symptom in symptoms if symptom not in sources()] == []
