"""The page of ``neuro report``, read back from its HTML: what stands there, where links lead, that nothing breaks out of it."""

import fcntl
import json
import subprocess
import sys
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from made_runs import config, made_run, made_search, made_study
from support.inside import neuro_inside, one_line, well

from neuro_cli.report import curves
from neuro_cli.report.runs import groups_of, runs_of
from neuro_cli.report.table import read_jobs
from neuro_cli.run_folder.metrics import read_metrics

FINAL = "Final figures"
VOID = ("meta", "link", "input", "br", "img")


class Page(HTMLParser):
    """Elements by tag, the text, and the rows of tables; all elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.tables: list[tuple[list[str], list[list[str]]]] = []  # caption in pieces, rows
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append(([], []))
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("td", "th"):
            self.tables[-1][1][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.words.append(data.strip())
            if {"td", "th"} & set(self._open):
                self.tables[-1][1][-1][-1] += data.strip()
            if "caption" in self._open:
                self.tables[-1][0].append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(word for word in self.words if word)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def figures(self) -> list[str]:
        """What the figures show, in words."""
        return [str(each["alt"]) for each in self.all("img")]

    def links(self) -> list[str]:
        """Addresses that leave the page, without escapes."""
        return [unquote(str(each["href"])) for each in self.all("a") if not str(each["href"]).startswith("#")]

    def table(self, caption: str) -> list[dict[str, str]]:
        """The rows of the table with this caption, by the names of its columns."""
        head, *rows = next(rows for words, rows in self.tables if "".join(words) == caption)
        return [dict(zip(head, row, strict=True)) for row in rows]


def reported(*folders: Path, file: Path | None = None) -> Page:
    """The page of these folders; it lies next to the first."""
    jobs = [job for folder in folders for job in read_jobs(folder)]
    from neuro_cli.report.page import write_page  # late: matplotlib takes a while

    file = file or folders[0].parent / "report.html"
    write_page(jobs, file, folders[0].name)
    return Page(file.read_text())


@pytest.fixture
def blank(monkeypatch) -> None:
    """Figures without a picture, which takes most of a page's time, for tests that read words and tables."""
    monkeypatch.setattr("neuro_cli.report.figure.png_of", lambda panel, width: b"")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Page:
    """The page of two algorithms, two seeds each: one failed, one was stopped."""
    folder = tmp_path_factory.mktemp("runs") / "sweep"
    made_run(folder / "0", 10, algo="openai_es", seed=1)
    made_run(folder / "1", 10, algo="openai_es", seed=2)
    made_run(folder / "2", 4, "failed: task.root=/x: gone", algo="snes", seed=1, finished=False)
    made_run(folder / "3", 6, "stopped after generation 6 (SIGTERM)", algo="snes", seed=2)
    return reported(folder)


def test_a_sweep_on_a_page(sweep):
    page = sweep
    table = page.table(FINAL)
    assert [(row["run"], row["algo"], row["seed"], row["state"]) for row in table] == [
        ("0", "openai_es", "1", "finished"),
        ("1", "openai_es", "2", "finished"),
        ("2", "snes", "1", "failed"),
        ("3", "snes", "2", "stopped"),
    ]
    assert [row["reason"] for row in table[2:]] == ["task.root=/x: gone", "stopped after generation 6 (SIGTERM)"]
    assert [row["generations"] for row in table] == ["10", "10", "4", "6"]
    assert "1 failed 1 stopped 2 finished" in page.text
    figures = page.figures()
    metrics = ["fitness mean", "fitness best", "train loss", "seconds", "bytes sent", "candidates per second", "fitness mean"]
    assert [text.partition(" over ")[0] for text in figures] == metrics
    assert figures[6].startswith("fitness mean over wall time; last: algo=openai_es (2 seeds) ")
    assert all("algo=openai_es (2 seeds)" in text and "algo=snes (2 seeds)" in text for text in figures)
    phases = page.table("Mean seconds of a generation")
    assert [row["runs"] for row in phases] == [f"algo={name} (2 seeds)" for name in ("openai_es", "snes")]
    assert list(phases[0]) == ["runs", "all", "sample", "forward", "communicate", "update", "other"]
    assert "same in every generation of every run: bytes received 1,000." in page.text
    assert [(row["key"], row["0"], row["3"]) for row in page.table("Configuration: what differs")] == [
        ("seed", "1", "2"),
        ("algo", "openai_es", "snes"),
    ]
    assert page.table("Device and versions")[0]["device"] == "cpu"
    assert page.links() == [f"./sweep/{number}/" for number in range(4)]
    anchors = {str(each["href"])[1:] for each in page.all("a") if str(each["href"]).startswith("#")}
    assert anchors == {each.get("id") for each in page.all("section")}


def test_a_page_asks_for_nothing_outside_of_it(sweep):
    page = sweep
    assert all(str(each["src"]).startswith("data:image/png;base64,") for each in page.all("img"))
    assert [each["href"] for each in page.all("link")] == ["data:,"]
    assert page.all("script") == []
    policy = next(found["content"] for found in page.all("meta") if found.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src")
    assert "http" not in policy


def test_names_of_runs_and_values_are_no_markup(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    made_run(
        folder / "<b>0", 5, "failed: </script><script>alert(2)</script>", finished=False, seed=1, algo="</script><script>alert(3)"
    )
    made_run(folder / "'\"1", 5, seed=1, algo="snes", whole=5)
    page = reported(folder)
    assert page.all("script") == page.all("b") == []
    assert all(str(each["src"]).startswith("data:image/png;base64,") for each in page.all("img"))
    row = page.table(FINAL)[1]
    assert (row["run"], row["algo"], row["reason"]) == (
        "<b>0", "</script><script>alert(3)", "</script><script>alert(2)</script>",
    )  # fmt: skip
    assert all((tmp_path / link).exists() for link in page.links())


def test_a_run_at_work_and_damaged_lines(blank, tmp_path):
    run = made_run(tmp_path / "run", 6, finished=False)
    lines = (run / "metrics.csv").read_text().splitlines()
    lines[2] = "2,0.5,oops" + ",1" * 10
    lines[4] = "4,0.5"
    (run / "metrics.csv").write_text("\n".join([*lines, "7,0.1"]))  # at work: the last line is half there
    with (run / "log.txt").open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        page = reported(run)
    assert "1 running" in page.text
    assert page.table(FINAL)[0]["state"] == "running"
    assert page.table(FINAL)[0]["generations"] == "6"
    assert "Lines of metrics.csv that could not be read and are left out: run (2)." in page.text
    (run / "metrics.csv").write_text("")
    assert "No generation is on file yet." in reported(run).text


def test_one_generation_is_a_sentence_not_figures_of_a_dot(tmp_path):
    page = reported(made_run(tmp_path / "run", 1, whole=1))
    assert page.figures() == []
    assert "In the one generation of every run: fitness mean -2." in page.text


def test_a_study_a_search_and_a_cluster(blank, tmp_path):
    study = reported(made_study(tmp_path / "study"))
    (image,) = study.all("img")  # of its picture in two formats, one; none through a link
    assert image["alt"] == "weak"
    assert b64decode(str(image["src"]).partition("base64,")[2]) == (tmp_path / "study" / "weak.svg").read_bytes()
    assert len(study.table("scaling.csv")) == 6
    assert "machine = some cpu" in study.text
    search = reported(made_search(tmp_path / "search"))
    assert any(text.startswith("best validation accuracy so far; last: search 0.9") for text in search.figures())
    assert [row["module"] for row in search.table("The 10 best by validation")] == ["3x3 5x5", "3x3"]
    assert "Candidates that failed: search 1; candidates.csv says why." in search.text
    made_run(tmp_path / "cluster", 5, whole=5)
    made_run(tmp_path / "cluster" / "peers" / "1", 5, whole=5, threads=1)
    (tmp_path / "cluster" / "secret").write_text("x")
    cluster = reported(tmp_path / "cluster")
    assert [row["run"] for row in cluster.table(FINAL)] == ["cluster", "cluster/peers/1"]
    assert not any("secret" in link for link in cluster.links())
    (tmp_path / "all").mkdir()
    (tmp_path / "cluster").rename(tmp_path / "all" / "cluster")
    assert [row["run"] for row in reported(tmp_path / "all").table(FINAL)] == ["cluster", "cluster/peers/1"]


def test_what_was_measured_once_is_in_the_results_alone(tmp_path):
    run = made_run(tmp_path / "one", 51)  # a test evaluation in generation 50
    assert "same in every generation of every run: bytes received 1,000." in reported(run).text


def test_a_line_is_the_mean_of_runs_that_have_the_generation():
    long, short = (np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 7, 1])), (np.array([2.0, 3]), np.array([3.0, -5]))
    places, mean, least, most = curves._over_runs([long, short])
    assert places.tolist() == [1, 2, 3, 4]
    assert mean.tolist() == [1, 2, 1, 1]
    assert least.tolist() == [1, 1, -5, 1]
    assert most.tolist() == [1, 3, 7, 1]
    assert len(curves._over_runs([long])) == 2  # no band


def test_runs_that_differ_in_their_seed_are_one_group(tmp_path):
    made_run(tmp_path / "0", 2, seed=1)
    made_run(tmp_path / "1", 2, seed=2)
    made_run(tmp_path / "2", 2, seed=1, sigma=0.5)
    groups = groups_of(runs_of(read_jobs(tmp_path)))
    assert [[run.name for run in group.runs] for group in groups] == [["0", "1"], ["2"]]
    assert [group.label for group in groups] == ["sigma=0.1 (2 seeds)", "sigma=0.5"]  # the first typed no sigma


def test_curves_over_wall_time_are_at_the_seconds_of_their_rows(blank, tmp_path):
    def drawn() -> list[float]:
        ((_, line),) = curves._lines(groups_of(runs_of(read_jobs(tmp_path))), ["fitness_mean"], timed=True)
        return list(line.x)

    run = made_run(tmp_path / "0", 4)
    seconds = read_metrics(run / "metrics.csv")["seconds"].cumsum()  # a run of an earlier version
    assert drawn() == seconds.tolist()
    lines = (run / "metrics.csv").read_text().splitlines()
    added = ["elapsed_seconds", "0.5", "2.25", "2.5", "9"]
    (run / "metrics.csv").write_text("".join(f"{line},{cell}\n" for line, cell in zip(lines, added, strict=True)))
    assert drawn() == [0.5, 2.25, 2.5, 9.0]
    assert any(text.endswith("after 9 s") for text in reported(tmp_path / "0").figures())


def test_a_single_run_says_what_it_is(blank, tmp_path):
    run = made_run(tmp_path / "0", 2)
    config = {"model": {"_target_": "neuro_cli.model.mnist.MNIST_10K"}, "task": {"_target_": "neuro_cli.task.digits.Digits"}}
    (run / ".hydra" / "config.yaml").write_text(json.dumps(config | {"algo": {"_target_": "neuro_cli.algo.snes.SNES"}}))
    (group,) = groups_of(runs_of(read_jobs(tmp_path)))
    assert group.label == "MNIST_10K on Digits, SNES"
    page = reported(tmp_path)
    assert "MNIST_10K on Digits, SNES" in page.text
    assert "All keys have the defaults of the command." in page.text
    assert [caption for caption, rows in page.tables if len(rows) < 2] == []  # no table of a head alone


@pytest.mark.parametrize(
    ("content", "generations", "damaged"),
    [
        ("", [], 0),
        ("generation,a\n", [], 0),
        ("generation,a\n1,2\n2,\n3,nan\n", [1, 2, 3], 0),
        ("generation,a\n1,2\n2,x\n2,1\n2,1\n1,1\n\n3,4", [1, 2], 4),
        ("generation,a\n1,2\n\x00\xff,2\n7,1,1\n9,1\n", [1, 9], 2),
        ("no head\n1,2\n", [], 2),
        ("generation,generation\n1,2\n", [], 2),
    ],
)
def test_metrics_are_read_line_by_line(tmp_path, content, generations, damaged):
    (tmp_path / "metrics.csv").write_text(content, encoding="latin-1")
    found = read_metrics(tmp_path / "metrics.csv")
    assert found["generation"].tolist() == generations
    assert found.damaged == damaged
    assert not np.isinf(found["a"]).any()
    assert len(read_metrics(tmp_path / "nowhere.csv")) == 0


def test_the_command_says_where_the_page_is(blank, tmp_path):
    config(tmp_path / "bench", {"what": "noise", "seed": 1}, what="noise")  # its page has no figures
    made_run(tmp_path / "run", 3)
    made_run(tmp_path / "more", 3, seed=2)
    done = well(neuro_inside("report", "bench", cwd=tmp_path))
    assert done.stdout.splitlines()[-1].startswith("neuro: wrote bench/report.html, ")
    again = neuro_inside("report", "bench", "file=pages.html", cwd=tmp_path)
    assert "neuro: wrote pages.html, " in again.stdout
    both = neuro_inside("report", "run", "more", cwd=tmp_path)
    assert "neuro: wrote report.html, " in both.stdout
    assert "2 runs of 2 folders" in Page((tmp_path / "report.html").read_text()).text
    alone = neuro_inside("report", "more", "html=false", cwd=tmp_path)
    assert "run  " in alone.stdout
    assert "report.html" not in alone.stdout
    assert not (tmp_path / "more" / "report.html").exists()


def test_the_command_refuses_in_one_line(tmp_path):
    made_run(tmp_path / "run", 3)
    (tmp_path / "mine.html").write_text("mine")
    told = one_line(neuro_inside("report", "run", "file=mine.html", cwd=tmp_path))
    assert told == "file=mine.html: exists and is no page of neuro report; give another name"
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert (
        one_line(neuro_inside("report", "run", "file=no/where.html", cwd=tmp_path)) == "file=no/where.html: there is no folder no"
    )
    assert "neuro report takes file, html" in one_line(neuro_inside("report", "run", "flie=x", cwd=tmp_path))
    assert "html=3: must be true or false" in one_line(neuro_inside("report", "run", "html=3", cwd=tmp_path))


def test_a_table_needs_no_library_of_figures():
    asking = (
        "import neuro_cli.cli.verbs.report, neuro_cli.report.table, sys; sys.exit(len({'matplotlib', 'torch'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", asking], timeout=240).returncode == 0
