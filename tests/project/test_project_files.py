"""Files about the project: citation, licence, changes and version, reports of bugs, hooks."""

import hashlib
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from neuro_cli import __version__

ROOT = Path(__file__).parents[2]
CHANGES = re.findall(r"^## (\S+) \((unreleased|20\d\d-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def test_the_changes_begin_with_this_version():
    assert CHANGES[0][0] == __version__
    assert [when for _, when in CHANGES[1:] if when == "unreleased"] == []


def test_a_tagged_version_is_no_longer_unreleased():
    done = subprocess.run(["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip("not a clone")
    dated = {f"v{version}" for version, when in CHANGES if when != "unreleased"}
    assert set(done.stdout.split()) <= dated


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_for_issues_has_what_the_code_host_asks_for(form):
    content = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= content.keys()
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert {field["type"] for field in content["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    assert any(field.get("validations", {}).get("required") for field in fields)
    named = re.findall(r"[\w/]+\.md", form.read_text())
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_citation_file_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    assert citation["license"] == "Apache-2.0"
    assert {"message", "title", "authors", "type"} <= citation.keys()


def test_the_citation_file_references_the_five_sources():
    found = {}
    for reference in yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]:
        assert {"type", "title", "authors"} <= reference.keys()
        found[reference["title"]] = [author.get("family-names", author.get("name")) for author in reference["authors"]]
    assert found == {
        "DarwiNN: Efficient Distributed Neuroevolution under Communication Constraints": ["Malik", "Petrica", "Kapre", "Blott"],
        "An efficient GPU implementation of Natural Evolution Strategies for deep learning": ["Anonymous authors"],
        "Distributed Evolution": ["Srouji", "Payne"],
        "Distributed joint training of large ensembles with low communication overhead": ["Webb"],
        "A Scalable Architecture for Parallel Deep Learning": ["Hajewski", "Oliveira"],
    }


def test_the_licence_is_the_whole_text():
    text = " ".join((ROOT / "LICENSE").read_text().split())
    assert hashlib.sha256(text.encode()).hexdigest() == LICENCE
    assert text.startswith("Apache License Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text


LICENCE = "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"
