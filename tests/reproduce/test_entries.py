"""Every entry of ``conf/table/``: it reads, its published values are those of the papers, and its commands are of neuro."""

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from neuro_cli.cli.overrides.check import checked
from neuro_cli.cli.verbs.reproduce import entries_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.reproduce.entry import SIZES, VERBS, RunSetting, entries_in, read_entry
from neuro_cli.reproduce.requirements import missing
from neuro_cli.reproduce.run import EntryRun

pytestmark = pytest.mark.usefixtures("kept_choices")

ENTRIES = entries_in(config_folder() / "table")


def typed_from_the_papers() -> dict[str, dict[str, float]]:
    """Published values by entry and row: a cell of a table has the name ``COLUMN, METHOD``."""
    found = {}
    for name, table in yaml.safe_load((Path(__file__).parent / "published.yaml").read_text()).items():
        columns = table.pop("columns", None)
        if columns is None:
            found[name] = {row: float(value) for row, value in table.items()}
        else:
            assert all(len(line) == len(columns) for line in table.values())
            found[name] = {
                f"{column}, {method}": line[place] for method, line in table.items() for place, column in enumerate(columns)
            }
    return found


def by_formula() -> dict[str, dict[str, float]]:
    """What the texts give as a formula or as two numbers, evaluated: shares of tables 3 and 4, and appendix A of NES."""
    found: dict[str, dict[str, float]] = {}
    for table, times in (("nes_table_3", "nes_table_1"), ("nes_table_4", "nes_table_2")):
        found[table] = {}
        for cell, value in PUBLISHED[table].items():
            column = cell.rpartition(", ")[0]
            found[table][f"{cell}, times unperturbed"] = value / PUBLISHED[times][f"{column}, Unperturbed"]
    chances = {f"dependence, {n} samples, b = {b}": 2.0 ** (n - b) for n, b in ((2, 6), (3, 6), (6, 8))}
    spans = {f"span, IID, a = {a}, b = {b}": float(a * b) for a, b in ((6, 5), (3, 8))}
    flipped = {f"span, flips of columns, a = {a}, b = {b}": float(b) for a, b in ((6, 5), (3, 8))}
    dots = {
        f"dot product, flips of columns, the text's 2 + b/4, a = {a}, b = {b}": 2 + b / 4 for a, b in ((16, 8), (8, 32), (32, 32))
    }
    return found | {"nes_appendix_a": chances | spans | flipped | dots}


PUBLISHED = typed_from_the_papers()
FORMULAS = by_formula()
PAPERS = {
    "nes": "An efficient GPU implementation of Natural Evolution Strategies for deep learning",
    "darwinn": "Malik, Petrica, Kapre, Blott, GECCO '20 Companion",
    "ensemble": "Distributed joint training of large ensembles with low communication overhead",
    "distributed": "Distributed Evolution",
    "search": "A Scalable Architecture for Parallel Deep Learning",
    "records": "the goals are this project's own",
}


@pytest.mark.parametrize("name", ENTRIES)
def test_published_values_are_those_of_the_paper(name):
    entry = read_entry(ENTRIES[name], "full")
    assert {row.name: row.published for row in entry.rows if row.published is not None} == pytest.approx(
        PUBLISHED.get(name, {}) | FORMULAS.get(name, {}), rel=1e-12
    )
    assert PAPERS[name.partition("_")[0]] in entry.source
    assert "not known to us" not in f"{entry.source} {entry.note}"


def test_all_names_every_entry():
    listed = yaml.safe_load((config_folder() / "table" / "all.yaml").read_text())["defaults"]
    assert listed == sorted(ENTRIES)


def test_an_entry_is_the_same_through_hydra():
    composed = checked("reproduce", ["table=all", "size=full"]).composed
    assert composed is not None
    config = OmegaConf.to_container(OmegaConf.masked_copy(composed, ["size", "with", "tables"]), resolve=True)
    assert {entry.name: entry for entry in entries_of(config["size"], config["tables"], config["with"])} == {
        name: read_entry(path, "full") for name, path in ENTRIES.items()
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_quick_is_a_part_of_full_and_short(name):
    quick, full = (read_entry(ENTRIES[name], size) for size in SIZES)
    assert {row.name for row in quick.rows} <= {row.name for row in full.rows}
    assert quick.minutes["quick"] <= 5
    assert any(row.expect for row in quick.rows)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_size_has_the_runs_that_its_rows_need(name):
    quick, full = (read_entry(ENTRIES[name], size) for size in SIZES)
    for entry in (quick, full):
        used = {row.run for row in entry.rows}
        assert {run.name for run in entry.runs} == used | {run.of for run in entry.runs if run.of}
    listed = yaml.safe_load(ENTRIES[name].read_text())["runs"]
    assert {run.name for run in full.runs} == set(listed)  # none is there for nothing


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_composes(name, size, tmp_path):
    entry = read_entry(ENTRIES[name], size)
    for run in entry.runs:
        cell = EntryRun(run, tmp_path / "runs", Path("data sets"))
        if run.verb in VERBS:
            checked(run.verb, [*cell.overrides, *run.gpu])
        assert cell.command.startswith(f"neuro {run.verb} ")
        assert all(row.file.endswith((".csv", ".json")) for row in entry.rows)


def test_paths_of_export_and_predict_are_as_typed_and_others_as_hydra_reads_them():
    def overrides(verb: str, *texts: str) -> tuple[str, ...]:
        return EntryRun(RunSetting("x", verb, "one", texts, (), {}), Path("a run"), Path("data sets")).overrides

    assert overrides("export", "file=$kept/net.pt") == ("file=a run/x.kept/net.pt",)
    assert overrides("predict", "$root/a.png", "top=2", "output=$kept/x.json") == (
        "data sets/a.png",
        "top=2",
        "output=a run/x.kept/x.json",
    )
    assert overrides("evaluate", "output=$kept/x.json") == ("output='a run/x.kept/x.json'",)


def test_what_a_machine_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert missing({"cores": 2}, tmp_path) == "2 ranks need 2 cores, this machine has 1"
    assert missing({"cores": 1}, tmp_path) == ""
    assert missing({"data": "MNIST/raw"}, tmp_path) == f"there is no MNIST/raw in root={tmp_path}"
    assert missing({"packages": {"no_such_package": "rl"}}, tmp_path) == "no_such_package is not installed: pip install '.[rl]'"
    monkeypatch.setattr("neuro_cli.reproduce.requirements.has_gpu", lambda: False)
    assert missing({"cores": 1, "gpu": True}, tmp_path) == "there is no GPU"
    monkeypatch.setattr(
        "neuro_cli.fabric.emulation.netns.missing_rights", lambda: "the process lacks CAP_NET_ADMIN (run as root)"
    )
    assert missing({"emulation": True}, tmp_path).startswith("no emulated network: the process lacks CAP_NET_ADMIN")
    monkeypatch.setattr(
        "neuro_cli.launch.launcher.launcher", lambda: (_ for _ in ()).throw(UserError("ranks: there is no mpiexec"))
    )
    assert missing({"mpi": True}, tmp_path) == "ranks: there is no mpiexec"


WRONG = [
    ("title: [", "it is no YAML"),
    ("title: x", "source is missing"),
    ("sauce: x", "sauce: no such key; did you mean source?"),
    (
        "runs: {a: {verb: doctor}}",
        "runs.a.verb=doctor: must be one of train, bench, scale, search, evolve, resume, evaluate, report, export, predict",
    ),
    ("runs: {a: {verb: evaluate}}", "runs.a.of=None: resume, evaluate, report, export, predict need the name"),
    ("runs: {a: {verb: report, of: b}, b: {verb: train}}", "runs.a.of=b: must be a run before it"),
    ("figures: {b: [x.svg]}", "figures.b: no such run; valid are a"),
    ("runs: {a: {verb: train, needs: {core: 2}}}", "runs.a.needs: core: no such key; did you mean cores"),
    ("rows: []", "rows must have names of their own, at least one row for size=quick"),
    ("rows: [{name: r}]", "rows.0: run is missing"),
    ("row: {published: null, run: b}", "r: run b: no such run; valid are a"),
    ("row: {published: null, expect: [{at_most: published}]}", "r: an expectation of the published value, and none is published"),
    ("row: {published: null, expect: [{at_most: s}]}", "r: s: no such row; valid are r"),
    ("row: {published: null, expect: [{times: 3}]}", "rows.0.expect: must have one of at_most, at_least, near"),
]


@pytest.mark.parametrize(("line", "told"), WRONG)
def test_a_wrong_entry_is_refused_in_a_line(tmp_path, line, told):
    lines = {
        "title": "title: t",
        "source": "source: s",
        "minutes": "minutes: {quick: 1, full: 1}",
        "runs": "runs: {a: {verb: train}}",
        "row": "row: {published: null}",
        "rows": "rows: [{name: r, run: a, file: f.csv, value: v, quantity: q}]",
    }
    key = line.partition(":")[0]
    if line == "title: x":
        del lines["source"]
    lines[key] = line
    if key == "row":  # of its own, so that the row has no other value
        lines["rows"] = "rows: [{name: r, file: f.csv, value: v, quantity: q" + (", run: a}]" if "run" not in line else "}]")
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(lines.values()))
    with pytest.raises(UserError) as refused:
        read_entry(path, "quick")
    assert told in str(refused.value)
    assert str(refused.value).startswith("table=")
