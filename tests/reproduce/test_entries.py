"""Every entry of ``conf/table/``: it reads, its published values are those that were noted, and its commands are of neuro."""

import shutil
from pathlib import Path

import pytest
import yaml

from neuro_cli.cli.overrides import checked
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.reproduce.entry import SIZES, entries_in, read_entry
from neuro_cli.reproduce.requirements import missing
from neuro_cli.reproduce.run import EntryRun

ENTRIES = entries_in(config_folder() / "table")

# the values that were known when the project began, and those of NESgpu's README; all others are null: "not known to us"
PUBLISHED = {
    "nes_table_1": {
        "linear 512, iid": 43,
        "linear 512, antithetic": 22,
        "linear 512, sign_flip": 2.5,
        "linear 512, permutation": 2.9,
        "linear 512, permutation 10 % (NESgpu)": 2.52,
        "linear 256, iid (NESgpu)": 14.85,
        "linear 256, permutation (NESgpu)": 3.41,
        "linear 1024, iid (NESgpu)": 44.86,
        "linear 1024, permutation (NESgpu)": 2.72,
    },
    "nes_table_2": {
        "256 channels at 8x8, iid": 11,
        "256 channels at 8x8, antithetic": 6.6,
        "256 channels at 8x8, sign_flip": 2.07,
        "256 channels at 8x8, permutation": 2.09,
        "256 channels at 8x8, permutation 10 %": 1.29,
        "64 channels at 32x32, iid (NESgpu)": 3.35,
        "64 channels at 32x32, permutation (NESgpu)": 2.51,
        "64 channels at 32x32, permutation 10 % (NESgpu)": 2.19,
    },
    "distributed_evolution_table": {
        f"{environment}, {column}": minutes
        for environment, cells in {
            "LunarLander": (0.67, 5.67, 45),
            "BipedalWalker": (9.5, 47, 240),
            "Ant": (70, 778, 406),
            "HalfCheetah": (326, 672, 762),
            "Hopper": (68, 302, 278),
        }.items()
        for column, minutes in zip(("DisES", "ES", "DDPG"), cells, strict=True)
    },
    "ensemble_figure": {"logits for 20 examples of 10 classes": 200, "logits, Wide ResNet 28-12": 200},
}
PAPERS = {
    "nes": "An efficient GPU implementation of natural evolution strategies",
    "darwinn": "Petrica et al., GECCO 2020",
    "ensemble": "Distributed Joint Training of Large Ensembles with Low Communication Overhead",
    "distributed": "Distributed Evolution",
    "search": "A Scalable Architecture for Parallel Deep Learning",
}


def test_all_entries_are_there():
    assert set(ENTRIES) == {
        *(f"nes_table_{number}" for number in (1, 2, 3, 4)),
        *("nes_appendix_a", "darwinn_figure_2_weak", "darwinn_figure_2_strong"),
        *("ensemble_figure", "distributed_evolution_table", "search_figure"),
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_published_values_are_the_known_ones_and_have_their_source(name):
    entry = read_entry(ENTRIES[name], "full")
    assert {row.name: row.published for row in entry.rows if row.published is not None} == PUBLISHED.get(name, {})
    assert PAPERS[name.partition("_")[0]] in entry.source
    if name not in PUBLISHED or any(row.published is None and row.quantity == entry.rows[0].quantity for row in entry.rows):
        assert "not known to us" in entry.source


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
        assert {run.name for run in entry.runs} == {row.run for row in entry.rows}
    listed = yaml.safe_load(ENTRIES[name].read_text())["runs"]
    assert {run.name for run in full.runs} == set(listed)  # none is there for nothing


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_composes(name, size, tmp_path):
    entry = read_entry(ENTRIES[name], size)
    for run in entry.runs:
        cell = EntryRun(run, tmp_path / "runs", Path("data sets"))
        checked(run.verb, [*cell.overrides, *run.gpu])
        assert cell.command.startswith(f"neuro {run.verb} ")
        assert all(row.file.endswith((".csv", ".json")) for row in entry.rows)


def test_what_a_machine_lacks_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert missing({"cores": 2}, tmp_path) == "2 ranks need 2 cores, this machine has 1"
    assert missing({"cores": 1}, tmp_path) == ""
    assert missing({"data": "MNIST/raw"}, tmp_path) == f"there is no MNIST/raw in root={tmp_path}"
    assert (
        missing({"packages": {"no_such_package": "rl"}}, tmp_path)
        == "no_such_package is not installed: pip install 'neuro-cli[rl]'"
    )
    monkeypatch.setattr("neuro_cli.reproduce.requirements.has_gpu", lambda: False)
    assert missing({"cores": 1, "gpu": True}, tmp_path) == "there is no GPU"
    monkeypatch.setattr(
        "neuro_cli.fabric.emulation.kernel.missing_rights", lambda: "the process lacks CAP_NET_ADMIN (run as root)"
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
    ("minutes: {quick: 1}", "minutes: full is missing"),
    ("runs: {a: {verb: evaluate}}", "runs.a.verb=evaluate: must be one of train, bench, scale, search"),
    ("runs: {a: {verb: train, quick: seed=1}}", "runs.a: overrides must be a list of texts key=value"),
    ("runs: {a: {verb: train, needs: {core: 2}}}", "runs.a.needs: core: no such key; did you mean cores"),
    ("rows: []", "rows must have names of their own, at least one row for size=quick"),
    ("rows: [{name: r}]", "rows.0: run is missing"),
    ("row: {published: many}", "rows.0.published=many: must be a number, or null where it is not known to us"),
    ("row: {published: null, run: b}", "r: run b: no such run; valid are a"),
    ("row: {published: null, expect: [{at_most: published}]}", "r: an expectation of the published value, which is not known"),
    ("row: {published: null, expect: [{at_most: s}]}", "r: s: no such row; valid are r"),
    ("row: {published: null, expect: [{above: 3}]}", "rows.0.expect: above: no such key"),
    ("row: {published: null, expect: [{times: 3}]}", "rows.0.expect: must have one of at_most, at_least, near"),
    ("row: {published: null, reduce: best}", "rows.0.reduce=best: must be one of median, mean"),
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


def test_a_row_of_full_is_not_of_quick(tmp_path):
    shutil.copy(ENTRIES["nes_table_1"], tmp_path / "mine.yaml")
    quick, full = (read_entry(tmp_path / "mine.yaml", size) for size in SIZES)
    assert len(quick.rows) < len(full.rows)
    assert quick.run("layers").overrides[-1] == "repeats=5"
