"""Sweeps by Optuna: search space, failed and pruned trials, and the study in its file, which a resumed sweep continues."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from support.inside import neuro_inside, one_line, well

from neuro_cli.cli.sweep.trials import distribution_of
from neuro_cli.core.errors import ConfigError

pytestmark = pytest.mark.skipif(find_spec("optuna") is None, reason="optuna is not installed")

SMALL = ("population=8", "batch_size=8", "generations=2", "threads=1", "evaluate.every=1", "hydra.sweep.dir=sweep")
OPTUNA = ("hydra/sweeper=optuna", "hydra.sweeper.direction=maximize")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval(0.01,0.1)", lambda optuna: optuna.FloatDistribution(0.01, 0.1)),
        ("int(interval(1,8))", lambda optuna: optuna.IntDistribution(1, 8)),
        ("tag(log,interval(1e-4,1e-1))", lambda optuna: optuna.FloatDistribution(1e-4, 1e-1, log=True)),
        ("tag(log,int(interval(1,512)))", lambda optuna: optuna.IntDistribution(1, 512, log=True)),
        ("range(1,9,2)", lambda optuna: optuna.IntDistribution(1, 9, step=2)),
        ("range(0.0,1.0,0.25)", lambda optuna: optuna.FloatDistribution(0.0, 1.0, step=0.25)),
        ("choice(snes,openai_es)", lambda optuna: optuna.CategoricalDistribution(["snes", "openai_es"])),
        ("1,2,1", lambda optuna: optuna.CategoricalDistribution(["1", "2"])),
        ("shuffle(range(1,4))", lambda optuna: optuna.CategoricalDistribution(["1", "2", "3"])),
    ],
)
def test_search_space(text: str, expected: Callable[[Any], object]) -> None:
    from optuna import distributions  # late: it takes a quarter of a second

    (override,) = OverridesParser.create().parse_overrides([f"a.b={text}"])
    assert distribution_of(override) == expected(distributions)


def test_no_search_space_is_a_line() -> None:
    (override,) = OverridesParser.create().parse_overrides(["a.b=tag(log,interval(0.0,1.0))"])
    with pytest.raises(ConfigError, match=r"^a\.b=tag\(log,interval\(0\.0,1\.0\)\): "):
        distribution_of(override)


def trials(folder: Path) -> list[dict[str, object]]:
    """Return number, state and value of the trials in the journal of ``folder``, by Optuna's own reader."""
    import optuna

    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "study.journal")))
    (name,) = optuna.get_all_study_names(storage)
    found = optuna.load_study(study_name=name, storage=storage).get_trials()
    return [{"number": each.number, "state": each.state.name, "value": each.value, "params": each.params} for each in found]


def test_a_failed_trial_is_one_and_a_kill_repeats_no_draw(tmp_path: Path) -> None:
    """One of two values is refused by the command; the journal is cut before the last result, as a kill cuts it."""
    arguments = (*OPTUNA, "hydra.sweeper.n_trials=3", "algo.sigma=choice(0.02,-1)")
    done = well(neuro_inside("train", "-m", *SMALL, *arguments, cwd=tmp_path))
    assert "algo.sigma=-1" in done.stderr
    sweep = tmp_path / "sweep"
    before = trials(sweep)
    assert {(each["state"], each["params"]["algo.sigma"]) for each in before} == {("COMPLETE", "0.02"), ("FAIL", "-1")}
    results = yaml.safe_load((sweep / "optimization_results.yaml").read_text())
    assert results["best_value"] == max(each["value"] for each in before if each["value"] is not None)
    lines = (sweep / "study.journal").read_text().splitlines(keepends=True)
    told = [number for number, line in enumerate(lines) if json.loads(line)["op_code"] == 6]  # states of trials
    (sweep / "study.journal").write_text("".join(lines[: told[-1]]))
    assert trials(sweep)[2]["state"] == "RUNNING"
    again = well(neuro_inside("resume", "sweep", cwd=tmp_path))
    assert trials(sweep) == before
    assert "[1]" not in again.stdout


def test_a_pruned_trial_stops_and_counts_as_one(tmp_path: Path) -> None:
    more = (
        "hydra.sweeper.n_trials=1",
        "hydra.sweeper.pruner.name=threshold",
        "+hydra.sweeper.pruner.lower=2",
        "generations=90000",
    )
    well(neuro_inside("train", "-m", *SMALL, *OPTUNA, *more, "algo.sigma=interval(0.01,0.1)", cwd=tmp_path))
    (trial,) = trials(tmp_path / "sweep")
    assert trial["state"] == "PRUNED"
    assert "(pruned); continue with" in (tmp_path / "sweep" / "0" / "log.txt").read_text()


def test_a_diverged_trial_does_not_end_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    from neuro_cli.cli.sweep import pruning

    monkeypatch.setattr(pruning, "metric_of", lambda run: SimpleNamespace(name="loss"))
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    pruned = []
    for number, value in enumerate((1, 2, "inf", 50)):
        run, trial = tmp_path / str(number), study.ask()
        run.mkdir()
        (run / "metrics.csv").write_text(f"generation,loss\n1,{value}\n")
        with pruning.Pruning(study, {trial: run}) as watched:
            pass
        pruned.append(trial.number in watched.pruned)
        study.tell(trial, float(value))
    assert pruned[3], "a trial far behind the median of 1, 2 and a diverged one continues"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "hydra.sweeper.direction=None: must be one of minimize, maximize"),
        (
            ("hydra.sweeper.direction=maximize", "hydra.sweeper.sampler.name=tpee"),
            "hydra.sweeper.sampler.name=tpee: did you mean tpe?",
        ),
        (("hydra.sweeper.direction=maximize", "hydra.sweeper.n_jobs=0"), "hydra.sweeper.n_jobs=0: must be"),
        (("hydra.sweeper.direction=maximize", "+hydra.sweeper.sampler.x=0"), "hydra.sweeper.sampler.name=tpe: "),
        (
            ("hydra.sweeper.direction=maximize", "hydra.sweeper.sampler.name=grid"),
            "hydra.sweeper.sampler.name=grid: lists all points: leave out hydra/sweeper=optuna for that",
        ),
    ],
)
def test_bad_settings_are_a_line(arguments: tuple[str, ...], line: str, tmp_path: Path) -> None:
    done = neuro_inside("train", "-m", *SMALL, "hydra/sweeper=optuna", *arguments, "algo.sigma=interval(0.01,0.1)", cwd=tmp_path)
    assert one_line(done).startswith(line)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["null", "study.db"])
def test_an_interrupted_sweep_draws_what_an_undisturbed_one_draws(storage: str, tmp_path: Path) -> None:
    """In batches of two, by TPE beyond its first random trials."""
    arguments = (
        *OPTUNA,
        "hydra.sweeper.n_jobs=2",
        "+hydra.sweeper.sampler.n_startup_trials=3",
        f"hydra.sweeper.storage={storage}",
    )
    tables = []
    for name, counts in (("whole", (8,)), ("parts", (4, 8))):
        (tmp_path / name).mkdir()
        for count in counts:
            more = (*arguments, f"hydra.sweeper.n_trials={count}", "algo.sigma=interval(0.01,0.1)", "seed=choice(1,2)")
            for record in ("sweep.json", "multirun.yaml"):  # else the folder is that of another command
                (tmp_path / name / "sweep" / record).unlink(missing_ok=True)
            well(neuro_inside("train", "-m", *SMALL, *more, cwd=tmp_path / name))
        tables.append(yaml.safe_load((tmp_path / name / "sweep" / "optimization_results.yaml").read_text()))
    assert tables[0] == tables[1]
