"""Networks of timm, torchvision, transformers and small packages: how many members of each are scored, and if rightly.

    pip install timm transformers
    pip install --no-deps -r scripts/zoo/packages.txt                 # the small packages; what is missing is "not run"
    python scripts/module_zoo.py --out docs/results/modules           # modules.csv, and modules.md from it
    python scripts/module_zoo.py --zoos timm --families xcit volo     # prints rows, keeps nothing
    python scripts/module_zoo.py --zoos pretrained                    # trained ones: scripts/zoo/zoo_pretrained.py

Each network, small and with random weights, scores the members of a population by ``neuro.perturbed`` (rows of each member's
own, and the same for all) and by the second ``Evolution.step(fitness, inputs, targets)``, and is held against single members in
float64. It runs in a process with limits, so a crash or an endless loop is a row. A run that was cut short goes on: rows of the
same source of neuro, settings and versions are kept.
"""

import argparse
import csv
import hashlib
import importlib.util
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKER = ROOT / "scripts" / "zoo" / "worker.py"
ZOOS = ("timm", "torchvision", "transformers", "packages")
PRETRAINED = "pretrained"  # networks of their own sizes with trained weights, which take longer
KINDS = ("own rows", "shared rows", "step")
SERVED = re.compile(r"^(perturbed: )?(members (answer|are scored) one by one, slower: )?")
ONE_PASS = ("fast", "fast (both sides)", "mapped")
BAD = ("WRONG", "abort", "hang")
COLUMNS = (
    "zoo", "family", "names", "model", "shrunk", "parameters", "input",
    *(f"{kind}{part}" for kind in KINDS for part in ("", " difference", " note")),
    "seconds", "sampler", "members", "examples", "version", "torch", "machine", "date", "source",
)  # fmt: skip


class Process:
    """A worker, made anew after its end. ``command``: the program, which answers a line of JSON by one."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command, self._process = command, None
        self.served = 0  # questions, by the present process

    def ask(self, question: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer, or ``{"ended": ..}`` where the process died or took longer than ``limit`` seconds."""
        if self._process is None:
            # freed memory is overwritten, so that whoever reads it gets other numbers
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_PERTURB_": "165", "HF_HUB_OFFLINE": "1"}
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT
            )
            self.served = 0
        process, late = self._process, threading.Event()
        timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        self.served += 1
        if line:
            return json.loads(line)
        code = process.wait()
        self.close()
        return {
            "ended": "hang" if late.is_set() else "abort",
            "note": f"over {limit:g} s" if late.is_set() else f"exit code {code}",
        }

    def close(self) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None


def tried(process: Process, question: dict[str, Any], limit: float) -> dict[str, Any]:
    """The row of a family. A crash is tried again in a process that served no other: the one before may have spoilt it."""
    row = process.ask(question, limit)
    if row.get("ended") == "abort" and process.served > 1:
        again = process.ask(question, limit)
        row = row | {"note": "only after others in its process"} if "ended" not in again else again
    if "ended" in row:
        row = {kind: {"way": row["ended"], "difference": None, "note": row["note"]} for kind in KINDS}
    flat: dict[str, Any] = {key: value for key, value in row.items() if key not in KINDS}
    for kind in KINDS:
        found = row[kind]
        off = "" if found["difference"] is None else f"{found['difference']:.1e}"
        flat |= {kind: found["way"], f"{kind} difference": off, f"{kind} note": found["note"]}
    if "seconds" in flat:
        flat["seconds"] = f"{flat['seconds']:.1f}"
    return flat


def rows_of(command: Sequence[str], questions: list[dict[str, Any]], workers: int, limit: float) -> Iterator[dict[str, Any]]:
    """Rows of all questions, as they come, by so many processes."""
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    done: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    for question in questions:
        waiting.put(question)

    def serve() -> None:
        process = Process(command)
        while True:
            try:
                question = waiting.get_nowait()
            except queue.Empty:
                break
            done.put(question | tried(process, question, limit))
        process.close()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(workers, len(questions)))]
    for thread in threads:
        thread.start()
    for _ in questions:
        yield done.get()
    for thread in threads:
        thread.join()


# ---- files


def source() -> str:
    """Digest of the source of neuro and of these programs."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "neuro_cli").rglob("*.py"), *WORKER.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table; none where it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def way_of(row: dict[str, str]) -> str:
    """How a family is served, of its three ways the worst."""
    ways = [row[kind] for kind in KINDS]
    order = (*BAD, "not run", "refused", "one by one", "mapped", "fast (both sides)", "fast")
    return min(ways, key=order.index)


def summary(rows: list[dict[str, str]]) -> str:
    """A line for each zoo: families (names) by the worst of their three ways."""
    lines = ["| zoo | one pass | of the names that ran | one by one | refused | wrong, crash, hang | not run |", "|" + "---|" * 7]
    for zoo in dict.fromkeys(row["zoo"] for row in rows):
        families, names = Counter[str](), Counter[str]()
        for row in rows:
            if row["zoo"] == zoo:
                way = way_of(row)
                group = "one pass" if way in ONE_PASS else "bad" if way in BAD else way
                families[group] += 1
                names[group] += int(row["names"])
        first, *others = (f"{families[way]} ({names[way]})" for way in ("one pass", "one by one", "refused", "bad", "not run"))
        share = names["one pass"] / max(1, names.total() - names["not run"])
        lines.append(f"| {zoo} | {first} | {share:.1%} | {' | '.join(others)} |")
    return "\n".join(lines)


def table(rows: list[dict[str, str]], zoo: str) -> str:
    """The families of a zoo that share a pass in all three ways, by name, and a row for each other one."""
    own = [row for row in rows if row["zoo"] == zoo]
    shared = [row for row in own if way_of(row) in ONE_PASS]
    blocks = []
    for way in ONE_PASS:
        if names := [row["family"] for row in shared if way_of(row) == way]:
            blocks.append(f"{way[0].upper()}{way[1:]}: {', '.join(names)}.")
    if shared:
        perturbed, step = (
            max(float(row[f"{kind} difference"]) for row in shared for kind in kinds) for kinds in (KINDS[:2], KINDS[2:])
        )
        blocks.append(f"Largest differences of these: {perturbed:.1e} by `perturbed`, {step:.1e} by `Evolution.step`.")
    others = [row for row in own if way_of(row) not in ONE_PASS]
    if others:
        heads = ("family", "names", "`perturbed`, own rows", "`perturbed`, shared", "`Evolution.step`", "why")
        lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for row in others:
            ways = [f"{row[kind]} {row[f'{kind} difference']}".strip() for kind in KINDS]
            lines.append(f"| {' | '.join([row['family'], row['names'], *ways, why(row)])} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def why(row: dict[str, str]) -> str:
    """Reasons of those ways that are not one pass, each once, without the way, which has a column."""
    notes = (SERVED.sub("", row[f"{kind} note"]) for kind in KINDS if row[kind] not in ONE_PASS)
    return "; ".join(dict.fromkeys(text for text in notes if text)).replace("|", "/").replace("\n", " ")


PAGE = """# Which networks share a pass: timm, torchvision, transformers and small packages

    pip install timm transformers
    pip install --no-deps -r scripts/zoo/packages.txt
    python scripts/module_zoo.py --out docs/results/modules

One small network with random weights stands for each family: of timm and torchvision a file, and all its names; of transformers
a class; of a small package one of its networks. Its {members} members by `sampler={sampler}` are scored in three ways and held
against single members in float64:
`neuro.perturbed` with two examples for each member and with the same two for all, in float64 (allowed: 1e-6 of the largest
output), and `Evolution.step(fitness, inputs, targets)` on {examples} examples, in float32 (allowed: 1e-3 of the largest score, or
ten times what single members of float32 are off). Each row, with its network, size and example: [modules.csv](modules.csv).

| word | what it is |
|---|---|
| fast, mapped | many members in one pass, by one of [two ways](../explanation/noise_reuse.md#many-members-in-one-forward-pass) |
| one by one | a pass for each member, and a line in the log that says why |
| refused | an error that says why |
| not run | the network does not run so, or has no small form |

Larger networks and images can go another way: on a CPU members go one by one where that is expected to be faster.

## Summary

Families, and in brackets names, by the worst of the three.

{summary}

Measured on: {machine}; {versions}; {dates}.
"""


def page(rows: list[dict[str, str]]) -> str:
    """The page of a table."""
    first, dates = rows[0], sorted({row["date"] for row in rows})
    versions = [
        *dict.fromkeys(f"{row['zoo']} {row['version']}" for row in rows if row["version"]),
        *dict.fromkeys(f"torch {row['torch']}" for row in rows),
    ]
    text = PAGE.format(
        **{key: first[key] for key in ("members", "sampler", "examples")},
        summary=summary(rows),
        machine="; ".join(dict.fromkeys(row["machine"] for row in rows)),
        versions=", ".join(versions),
        dates=" to ".join(dict.fromkeys((dates[0], dates[-1]))),
    )
    return text + "".join(f"\n## {zoo}\n\n{table(rows, zoo)}\n" for zoo in dict.fromkeys(row["zoo"] for row in rows))


# ---- command line


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--zoos", nargs="+", choices=(*ZOOS, PRETRAINED), default=list(ZOOS))
    parser.add_argument("--families", nargs="+", default=[], metavar="FAMILY", help="only these")
    parser.add_argument("--sampler", default="low_rank")
    parser.add_argument("--members", type=int, default=8, help="an even number")
    parser.add_argument("--examples", type=int, default=4, help="of each member, from 2 to 8")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a network")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--out", type=Path, help="OUT.csv and OUT.md, written after every network; goes on where they are")
    asked = parser.parse_args()
    missing = [zoo for zoo in asked.zoos if zoo not in ("packages", PRETRAINED) and importlib.util.find_spec(zoo) is None]
    if missing:
        parser.error(f"{', '.join(missing)} not installed: pip install {' '.join(missing)}")
    if asked.members < 2 or asked.members % 2 or not 2 <= asked.examples <= 8 or asked.workers < 1 or asked.limit <= 0:
        parser.error("--members must be even, --examples from 2 to 8, --workers and --limit above 0")
    return asked


def questions_of(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A question for each family, with what is known before."""
    process, questions = Process([sys.executable, str(WORKER)]), []
    given = {"sampler": asked.sampler, "members": asked.members, "examples": asked.examples}
    given |= {"date": time.strftime("%Y-%m-%d"), "source": source()}
    for zoo in asked.zoos:
        listed = process.ask({"zoo": zoo}, 600.0)
        if "ended" in listed:
            sys.exit(
                f'{zoo}: its families cannot be listed ({listed["note"]}); echo \'{{"zoo": "{zoo}"}}\' | python {WORKER} says why'
            )
        known = {key: listed[key] for key in ("version", "torch", "machine")}
        for family, names in zip(listed["families"], listed["names"], strict=True):
            if not asked.families or family in asked.families:
                questions.append({"zoo": zoo, "family": family, "names": names, **given, **known})
    process.close()
    return questions


def key_of(row: dict[str, Any]) -> tuple[str, ...]:
    """What must be the same for a row to be kept."""
    return tuple(str(row[part]) for part in ("zoo", "family", "sampler", "members", "examples", "version", "torch", "source"))


def main() -> int:
    asked, begun = arguments(), time.perf_counter()
    questions = questions_of(asked)
    if not questions:
        sys.exit(f"no such family: {' '.join(asked.families)}")
    order = [key_of(question) for question in questions]
    rows = {key_of(row): row for row in read(asked.out.with_suffix(".csv"))} if asked.out else {}
    rows = {key: row for key, row in rows.items() if key in order}
    left = [question for question in questions if key_of(question) not in rows]
    for found in rows_of([sys.executable, str(WORKER)], left, asked.workers, asked.limit):
        row = rows[key_of(found)] = {column: str(found.get(column, "")) for column in COLUMNS}
        ways = [f"{row[kind]} {row[f'{kind} difference']}" for kind in KINDS]
        print(" | ".join([row["zoo"], row["family"], *ways, f"{row['seconds']} s", why(row)]), flush=True)
        if asked.out:
            save(asked.out, [rows[key] for key in order if key in rows])
    print(f"{summary([rows[key] for key in order])}\n{time.perf_counter() - begun:.0f} s", flush=True)
    return 1 if any(way_of(row) in BAD for row in rows.values()) else 0


def save(out: Path, rows: list[dict[str, Any]]) -> None:
    """Write the table and its page."""
    write(out.with_suffix(".csv"), rows)
    out.with_suffix(".md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
