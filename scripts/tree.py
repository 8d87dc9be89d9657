"""Writes docs/tree.md: every file of the project with one line on it, which is the first line of its own comment or docstring.

python scripts/tree.py              write the page
python scripts/tree.py --check      exit code 1 where the page is not what the files say
"""

import argparse
import ast
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tree.md"
FOLDERS = ("neuro_cli", "conf", "hydra_plugins", "scripts", "tests")
# files that have no place for a comment, or whose first lines are somebody else's
SAID = {
    ".pyi": "types of the module beside it, made by protoc",
    "_pb2.py": "messages of the .proto file, made by protoc",
    "_pb2_grpc.py": "stubs and servicers of the .proto file, made by protoc",
    "package.json": "the package that worker.js needs",
}
HEAD = """# Every file

The README's tree goes down to packages; this one to files, and a line says what a file holds. `python scripts/tree.py` makes this
page from the first line of each file's comment, docstring or title, and a test compares.

```text
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is not what the files say: python scripts/tree.py", file=sys.stderr)
        return 1
    return 0


def page() -> str:
    """The whole page. Raises ValueError for a file without a line of its own."""
    lines = []
    for folder, paths in groupby(files(), key=lambda path: path.parent):
        lines.append(f"{folder.as_posix()}/")
        lines += [f"  {path.name:<34} {comment(path)}" for path in paths]
    return HEAD + "\n".join(lines) + "\n```\n"


def files() -> list[Path]:
    """What git tracks or would track in FOLDERS, a folder's files together; empty files say nothing."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *FOLDERS]
    listed = {
        Path(name) for name in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    }
    there = [path for path in listed if (ROOT / path).is_file() and (ROOT / path).stat().st_size]
    return sorted(there, key=lambda path: (FOLDERS.index(path.parts[0]), path.parent.parts, path.name))


def comment(path: Path) -> str:
    """The line on one file."""
    for ending, said in SAID.items():
        if path.name.endswith(ending):
            return said
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    else:
        opening = "\n".join(line for line in text.splitlines()[:6] if not line.startswith(("# @package", "#!", '"use strict"')))
        found = re.search(r"^(?:#|//|/\*|<!--|\{#|title:) *(.+?) *(?:\*/|-->|-?#\})?$", opening, re.MULTILINE)
        first = found[1] if found else ""
    if not first:
        raise ValueError(f"{path}: no comment, docstring or title says what it holds")
    return first.rstrip(".,")


if __name__ == "__main__":
    sys.exit(main())
