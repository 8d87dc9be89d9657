"""Counts of the house's prose and weight: lines, words a sentence, words that pages and comments should not need.

python scripts/count_prose.py            # from the top of a checkout
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

PREPOSITIONS = {"of", "in", "by", "it", "those", "for", "with", "from", "to", "on", "at", "as", "than", "that", "which"}
WORDS = r"\bgo(?:es)? on\b|\bbeside\b|\banew\b|\bis there\b|\bof which\b|\bof whom\b|\bTells? whether\b"
SENTENCE = re.compile(r"(?<=[.!?:])\s+")


def files(*patterns: str) -> list[Path]:
    """Tracked files that match git's patterns."""
    return [
        Path(name)
        for name in subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True).stdout.split()
    ]


def comments(source: str) -> list[str]:
    """Comments of a module, tool marks left out."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return [text for text in texts if text and not re.match(r"(type:|noqa|pragma|!)", text)]


def docstrings(source: str) -> list[str]:
    """Docstrings of a module, its classes and functions."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [text for node in ast.walk(ast.parse(source)) if isinstance(node, kinds) and (text := ast.get_docstring(node))]


def sentence_lengths(texts: list[str]) -> list[int]:
    """Words of each sentence, sentences of one or two words left out."""
    counts = [
        len(re.findall(r"[A-Za-z0-9'_.-]+", sentence)) for text in texts for sentence in SENTENCE.split(" ".join(text.split()))
    ]
    return [count for count in counts if count > 2]


def prose(page: str) -> str:
    """A page's text without code, tables and lists of links."""
    page = re.sub(r"```.*?```", "", page, flags=re.S)
    blocks = [block for block in re.split(r"\n\s*\n", page) if block.strip() and block.lstrip()[0] not in "|#<!"]
    return "\n\n".join(re.sub(r"`[^`]*`", "x", block) for block in blocks)


def plain_configs(source: str) -> int:
    """Count parameters named config or options that are plain dictionaries."""
    arguments = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.arg) and node.annotation is not None]
    return sum(each.arg in ("config", "options") and ast.unparse(each.annotation) == "dict[str, Any]" for each in arguments)


def main() -> None:
    package, tests = files("neuro_cli/*.py"), files("tests/*.py")
    pages = [page for page in files("*.md") if not {"results", "findings"} & {*page.parts} and page.name != "CHANGELOG.md"]
    only = sys.argv[1:]
    if only:
        package = [path for path in package if str(path).startswith(tuple(only))]
    sources = [path.read_text() for path in package]
    every = [comment for source in sources for comment in comments(source)]
    weak = [comment for comment in every if comment.split()[0].lower().rstrip(",") in PREPOSITIONS]
    lines = sum(source.count("\n") for source in sources)
    lengths = sentence_lengths([text for source in sources for text in docstrings(source)])
    print(f"package: {lines} lines in {len(package)} files, {len(every) / lines:.4f} comments a line")
    print(f"comments that begin with a preposition: {len(weak)} of {len(every)}, {len(weak) / len(every):.1%}")
    print(f"words a sentence in docstrings: {sum(lengths) / len(lengths):.1f}")
    print(f"the six words in the package: {sum(len(re.findall(WORDS, source)) for source in sources)}")
    if only:
        return
    print(f"tests: {sum(path.read_text().count(chr(10)) for path in tests)} lines in {len(tests)} files")
    texts = [page.read_text() for page in pages]
    lengths = sentence_lengths([block for text in texts for block in prose(text).split("\n\n")])
    words = sum(len(text.split()) for text in texts)
    print(
        f"pages: {words} words in {len(pages)} files, {sum(lengths) / len(lengths):.1f} words a sentence (records left out: "
        "docs/results, findings, CHANGELOG.md)"
    )
    print(f"parameters config and options of type dict[str, Any]: {sum(map(plain_configs, sources))}")


if __name__ == "__main__":
    main()
