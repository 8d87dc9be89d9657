"""What the pages say besides commands: options and defaults, files, links, error texts, groups."""

import ast
import re
from functools import cache

import pytest
import yaml
from doc_commands import PAGES, ROOT, section_of
from support.configs import composed

from neuro_cli.cli.options.groups import groups
from neuro_cli.core.metric import ACCURACY
from neuro_cli.logger.groups import grouped
from neuro_cli.runner.config import RESUME_GROUPS, RESUME_KEYS

TEXTS = {page.name: page.read_text() for page in PAGES}
TABLE = re.compile(r"<!-- options: (.+?) -->\n\| key \| default \| what it is \|\n\|---\|---\|---\|\n((?:\|.*\n)+)")
ROWS = [
    (name, context, *re.match(r"\| `(.+?)` \| `(.*?)` \|", row).groups())  # type: ignore[union-attr]
    for name, text in TEXTS.items()
    for context, rows in TABLE.findall(text)
    for row in rows.splitlines()
]
LINK = re.compile(r"\]\(([^)#\s]+)\)")


def value_at(config, key):
    for part in key.split("."):
        config = config[part]
    return config


def test_the_pages_of_systems_have_tables_of_options():
    pages = {row[0] for row in ROWS}
    assert pages >= {"darwinn.md", "noise_reuse.md", "distributed_evolution.md", "ensembles.md", "architecture_search.md"}


@pytest.mark.parametrize(("page", "context", "key", "default"), ROWS)
def test_an_option_has_the_default_that_its_page_says(page, context, key, default):
    verb, *overrides = context.split()
    config = composed(*overrides, verb=verb)
    said = yaml.safe_load(default)
    if isinstance(said, str) and said.startswith("${"):
        said = value_at(config, said[2:-1])
    found = value_at(config, key)
    assert (float(said) if isinstance(found, float) else said) == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = [target for target in LINK.findall(TEXTS[page.name]) if not target.startswith("http")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_tests_that_security_names_are_there():
    """A row of its tables counts for nothing without the test."""
    named = re.findall(r"`(?:(\w+/test_\w+\.py)|(test_\w+))`", TEXTS["security.md"])
    files, functions = {file for file, _ in named if file}, {function for _, function in named if function}
    assert len(files) > 5
    assert len(functions) > 10
    assert [file for file in sorted(files) if not (ROOT / "tests" / file).is_file()] == []
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert functions - defined == set()


def test_every_page_is_linked_from_the_readme():
    linked = set(LINK.findall(TEXTS["README.md"]))
    assert {f"docs/{page.name}" for page in PAGES if page.parent.name == "docs"} <= linked


@pytest.mark.parametrize("page", ["darwinn", "noise_reuse", "distributed_evolution", "ensembles", "architecture_search"])
def test_a_system_has_its_parts(page):
    headings = re.findall(r"^## (.+)$", TEXTS[f"{page}.md"], re.MULTILINE)
    assert {"Method", "Options", "Metrics", "Measured"} <= set(headings)
    assert any(heading.startswith("What differs from the ") for heading in headings)


@pytest.mark.parametrize("page", [name for name, text in TEXTS.items() if "\n## Measured\n" in text])
def test_what_was_measured_says_machine_and_date(page):
    text = section_of(TEXTS[page], "Measured")
    assert re.search(r"Machine: .*cores.*20\d\d-\d\d-\d\d", text)


# ---- results

RESULT = re.compile(r"^\| (`.+?`.*?) \| (.+) \| \[.+\]\((\S+)\) \|$", re.MULTILINE)
RESULTS = RESULT.findall(TEXTS["measured.md"])
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def pieces_of(page: str) -> list[str]:
    """Rows of tables, and paragraphs."""
    apart = re.sub(r"^(?=\|)", "\n\n", (ROOT / "docs" / page).read_text(), flags=re.MULTILINE)
    return [piece.strip() for piece in re.split(r"\n{2,}", apart)]


def test_the_summary_of_results_has_rows():
    assert 5 < len(RESULTS) <= 20


@pytest.mark.parametrize(("command", "outcome", "page"), RESULTS)
def test_the_summary_quotes_a_result_of_its_page(command, outcome, page):
    """All numbers of a clause, and what it has in code, stand in one row or paragraph of the page, of the command's entry."""
    entry = re.findall(r"(?:table|size)=(\w+)", command)
    pieces = [piece for piece in pieces_of(page) if all(word in piece for word in entry)]
    for clause in outcome.split("; "):
        numbers, names = set(NUMBER.findall(clause)), re.findall(r"`(\w+)`", clause)
        assert numbers
        near = [piece for piece in pieces if all(name in piece for name in names)]
        assert any(numbers <= set(NUMBER.findall(piece)) for piece in near), clause


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


def tracked_top() -> set[str]:
    """Names at the top level that git would track."""
    ignored = {".git", *(line.strip("/*!") for line in (ROOT / ".gitignore").read_text().splitlines())} - {"outputs"}
    return {
        path.name + "/" * path.is_dir()
        for path in ROOT.iterdir()
        if path.name not in ignored and not path.match("*.egg-info") and not path.name.startswith((".venv", ".coverage"))
    }


def test_the_tree_names_every_file_at_the_top_and_every_package():
    there = tree()
    packages = {
        f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "neuro_cli").rglob("__init__.py") if "proto" not in path.parts
    }
    modules = {f"neuro_cli/{path.name}" for path in (ROOT / "neuro_cli").glob("*.py") if path.name != "__init__.py"}
    folders = {f"conf/{path.name}/" for path in (ROOT / "conf").iterdir() if path.is_dir()}
    mentioned = " ".join([*there, *there.values()])
    missing = [
        name
        for name in (tracked_top() | packages | modules | folders)
        if name not in there
        and not any(entry.startswith(name) for entry in there)
        and name.split("neuro_cli/")[-1] not in mentioned
    ]
    assert missing == []


def test_the_tree_names_nothing_that_is_not_there_and_comments_all():
    for path, comment in tree().items():
        assert (ROOT / path).exists(), path
        assert len(comment) > 5, path


def test_every_option_that_the_command_line_s_page_names_is_there():
    """An option of a user's own needs no row, so that it is two files."""
    table = section_of(TEXTS["command_line.md"], "Groups and options")
    rows = dict(re.findall(r"^\| `(\w+)`.*? \| (.*) \|$", table, re.MULTILINE))
    assert rows.keys() == groups().keys()
    for group, options in groups().items():
        named = re.findall(r"`([a-zA-Z]\w*)`", rows[group])
        assert named, group
        assert set(named) <= set(options), group


def test_the_sweep_of_wandb_is_one_of_commands_that_compose():
    """What its agent would type for the ends of each parameter; the metric has the name that the logger gives it."""
    (block,) = re.findall(r"^```yaml\n(program: neuro\n.*?)^```$", TEXTS["command_line.md"], re.DOTALL | re.MULTILINE)
    sweep = yaml.safe_load(block)
    assert grouped({ACCURACY.name: 0.5}) == {sweep["metric"]["name"]: 0.5}
    assert (sweep["command"][0], sweep["command"][-1]) == ("${program}", "${args_no_hyphens}")
    for end in (0, -1):
        typed = [f"{key}={[*(given.get('values') or given.values())][end]}" for key, given in sweep["parameters"].items()]
        config = composed(*sweep["command"][2:-1], *typed, verb=sweep["command"][1])
        assert [f"{key}={value_at(config, key)}" for key in sweep["parameters"]] == typed


def test_the_design_lists_what_may_change_on_resume():
    text = section_of(TEXTS["design.md"], "Run folder")
    assert [key for key in (*RESUME_KEYS, *RESUME_GROUPS) if f"`{key}`" not in text] == []


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


SYMPTOMS = [
    piece.strip()
    for row in re.findall(r"^\| (.+?) \| ", TEXTS["troubleshooting.md"], re.MULTILINE)
    for symptom in re.findall(r"`([^`]+)`", row)
    for piece in re.split(r"\(?\.\.\.\)?:?", symptom)
    if len(piece.strip()) > 7
]


@pytest.mark.parametrize("symptom", dict.fromkeys(SYMPTOMS))
def test_an_error_text_of_troubleshooting_is_one_of_the_code(symptom):
    assert symptom in sources()


def test_troubleshooting_has_symptoms():
    assert len(SYMPTOMS) > 25
