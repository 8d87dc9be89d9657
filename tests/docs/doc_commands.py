"""Commands of the README and of docs/, as a reader would copy them; the dated lab book (docs/results) is left out.

Shell is what stands in an indented block, in a fence without a language (or bash, sh), and in a code span that begins with a
program of ``INLINE``. Equations, trees and diagrams stand in fences with the language ``text``.
"""

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("configuration.md", "api.md")  # by make docs
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "results" not in page.parts and page.name not in GENERATED),
)

INLINE = ("neuro ", "mpiexec ", "srun -", "python ", "pip install ", "pytest ", "make ", "export ", "scripts/", "npm ", "eval ")
FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
INDENTED = re.compile(r"(?:\A|(?<=\n\n))(?: {4}.*\n)(?:(?: {4}.*)?\n)*", re.MULTILINE)
# quoted text, a comment, a separator, or a character
PIECE = re.compile(r"""'[^']*'|"[^"]*"|(?:^|(?<=\s))#.*|&&|;(?=\s)|.""")
SHELL = ("", "bash", "sh")


@dataclass(frozen=True)
class Command:
    """One command line. ``words``: as a shell splits it, without its comment; ``place``: page and line where its block begins."""

    place: str
    text: str

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(shlex.split(self.text, comments=True))

    def __str__(self) -> str:
        return f"{self.place} {' '.join(self.words)}"


def commands_of(page: str, text: str) -> list[Command]:
    """The commands of a page's ``text``, in their order by kind: fences, indented blocks, code spans."""
    found: list[Command] = []

    def take(shell: str, source: str, position: int) -> None:
        place = f"{page}:{source.count(chr(10), 0, position) + 1}"
        found.extend(Command(place, line) for line in lines_of(shell) if shlex.split(line, comments=True))

    rest = FENCE.sub(lambda fence: blank(fence[0]), text)
    for fence in FENCE.finditer(text):
        if fence[1] in SHELL:
            take(fence[2], text, fence.start())
    prose = INDENTED.sub(lambda block: blank(block[0]), rest)
    for block in INDENTED.finditer(rest):
        take(block[0], rest, block.start())
    for span in SPAN.finditer(prose):
        if span[1].startswith(INLINE) and "..." not in span[1]:  # with dots it is an error text, or stands for several
            take(" ".join(span[1].split()), prose, span.start())
    return found


def blank(text: str) -> str:
    """As many empty lines."""
    return "\n" * text.count("\n")


def lines_of(shell: str) -> list[str]:
    """Command lines: continued ones joined, those behind ``&&`` or ``;`` apart."""
    joined = re.sub(r"\\\n\s*", " ", shell)
    lines = [line.strip() for line in joined.splitlines()]
    return [part for line in lines if line and not line.startswith("#") for part in parts_of(line)]


def parts_of(line: str) -> list[str]:
    """A line's commands; the comment stays with the last."""
    parts = [""]
    for piece in PIECE.findall(line):
        if piece in ("&&", ";"):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def section_of(text: str, heading: str) -> str:
    """What stands below ``## heading`` up to the next heading of that level."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading}"
    return found[1]


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT))


def all_commands() -> list[Command]:
    """Commands of all pages, each text once."""
    every = [command for page in PAGES for command in commands_of(name_of(page), page.read_text())]
    return list({command.words: command for command in reversed(every)}.values())[::-1]
