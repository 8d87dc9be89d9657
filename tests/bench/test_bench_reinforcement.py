"""The table of minutes to a mean return: its plan, its rows, its continuation; slow: a tiny cell of every column."""

import json
import math
import re
import sys

import pytest
from omegaconf import OmegaConf
from support.configs import composed
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of
from support.worlds import neuro

from neuro_cli.bench import reinforcement as bench
from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.reinforcement import COLUMNS, FIELDS, IDENTITY, Reinforcement, plan, table
from neuro_cli.bench.stopwatch import Evaluation, Timed, Trial
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import config_folder
from neuro_cli.core.metric import RETURN
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.runner.config import section

pytest.importorskip("gymnasium")


def settings(**changes):
    node = composed(verb="bench")["reinforcement"] | {"only": ["lunar_lander"], "seeds": [1, 2]} | changes
    return section(Reinforcement, node, "reinforcement.")


def row_of(cell: Trial, ended: str = "goal", minutes: float = 1.0, best: float = 210.0) -> dict[str, str]:
    values = (ended, minutes, best, best - 5, 3, 2_000_000, "here")
    return cell.identity | {name: str(value) for name, value in zip(FIELDS[7:], values, strict=True)}


def test_a_cell_is_a_command_that_anyone_can_type():
    cells = plan(settings(columns=["openai_es", "evolve"]))
    assert [(cell.setting, cell.seed) for cell in cells] == [("openai_es", 1), ("openai_es", 2), ("evolve", 1), ("evolve", 2)]
    assert cells[1].program[:4] == ("neuro_cli", "train", "ranks=2", "distribution=replicated")
    assert cells[2].program[:4] == ("neuro_cli", "evolve", "task=lunar_lander", "cluster.local_peers=2")
    for cell in cells:
        assert {f"seed={cell.seed}", "stop.metric=mean_return", "stop.at=200", "task.evaluation_episodes=100"} <= set(
            cell.program
        )


@pytest.mark.parametrize("task", OmegaConf.load(config_folder() / "bench.yaml")["reinforcement"]["tasks"])
def test_every_task_has_the_columns_that_the_issue_asks_for(task):
    cells = plan(settings(only=[task]))
    assert {"evolve", "openai_es", "ddpg"} <= {cell.setting for cell in cells}
    for cell in cells:
        if cell.setting != "ddpg":
            config = composed(*cell.program[2:], verb=cell.program[1])
            assert config["task"]["evaluation_episodes"] == 100
            assert config["task"]["id"] == composed(f"task={task}")["task"]["id"]
        else:
            setting = json.loads(cell.program[1])
            assert setting["ddpg"].keys() == composed(verb="bench")["reinforcement"]["ddpg"].keys()


def test_the_common_setting_is_one_for_all_tasks_and_the_registered_thresholds_are_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    tasks = list(settings().tasks)
    cells = plan(settings(only=None, setting="common", threshold="registered", minutes=3, seeds=[1], columns=list(COLUMNS)))
    assert {cell.setting for cell in cells} == {"dises", "evolve", "openai_es", "ddpg"}
    assert len(cells) == 4 * len(tasks)
    assert {cell.minutes for cell in cells} == {3}
    for column in ("dises", "evolve", "openai_es"):
        programs = {}
        for cell in cells:
            if cell.setting == column:
                config = composed(*cell.program[2:], verb=cell.program[1])
                task = config.pop("task")
                assert cell.goal == config["stop"]["at"] == gymnasium.spec(task["id"]).reward_threshold
                assert task["step_bonus"] == 0
                config["stop"] = None
                programs[cell.task] = json.dumps(config, sort_keys=True)
        assert set(programs) == set(tasks)
        assert len(set(programs.values())) == 1, column
    learners = [json.loads(cell.program[1]) for cell in cells if cell.setting == "ddpg"]
    assert all(setting["ddpg"] == settings().ddpg for setting in learners)
    assert [setting["task"]["options"] for setting in learners] == [{"continuous": True}, {}, {}, {}, {}]


def test_dises_is_algorithm_1():
    (cell,) = plan(settings(columns=["dises"], setting="common", seeds=[1]))
    config = composed(*cell.program[2:], verb="evolve")
    assert config["selection"] == {"_target_": "neuro_cli.selection.maximum.Maximum"}
    assert config["sampler"]["antithetic"] is False
    assert config["cluster"]["local_iterations"] == 1


def test_a_median_takes_seeds_that_did_not_arrive_for_slower():
    cells = plan(settings(columns=["evolve"], seeds=[1, 2, 3, 4, 5]))
    ends = [("goal", 0.5), ("budget", 15), ("goal", 3.0), ("goal", 1.5), ("itself", 2)]
    line = table([row_of(cell, *end) for cell, end in zip(cells, ends, strict=True)], {"lunar_lander": {"evolve": 0.67}})[0]
    assert line[:4] == ("lunar_lander to 200", "evolve", "3 of 5", "3.00 (0.50 to not reached)")
    assert line[-2:] == ("2.00", "0.67 min")
    (continuous, _) = plan(settings(columns=["ddpg"]))
    assert json.loads(continuous.program[1])["task"]["options"] == {"continuous": True}
    assert table([row_of(continuous)], {})[0][1] == "ddpg (continuous)"
    even = table([row_of(cell, *end) for cell, end in zip(cells[:2], ends[:2], strict=True)], {})[0]
    assert even[2:4] == ("1 of 2", "not reached in 7.8")  # the middle of the time that was tried


def test_a_trial_that_ends_before_its_first_look_is_a_row_that_says_so(tmp_path, monkeypatch):
    (cell,) = plan(settings(columns=["evolve"], seeds=[1], evaluate_every=3))
    assert "evaluate.every=3" in cell.program
    monkeypatch.setattr(bench, "timed", lambda *_: Timed(minutes=0.1, ended="budget"))  # no checkpoint either
    row, looks = bench._play(cell, tmp_path / "run")
    assert (row["ended"], row["best_return"], row["fresh_return"], looks) == ("budget", "nan", "nan", [])
    line = table([row], {})[0]
    assert line[2:6] == ("0 of 1", "not reached in 0.1", "no evaluation in time", "no evaluation in time")


@pytest.mark.parametrize("column", ["evolve", "ddpg"])
def test_a_trial_that_was_killed_after_a_look_is_a_row(column, tmp_path, monkeypatch):
    """It was in an iteration longer than the patience: evaluated, and nothing kept."""
    seen = Timed([Evaluation(0.05, -21.0, 1000.0)], 2000.0, 0.1, "budget")
    monkeypatch.setattr(bench, "timed", lambda *_: seen)
    row, looks = bench._play(Trial(IDENTITY, "bipedal_walker", column, 1, RETURN, 300.0, 0.1, (), 4), tmp_path / "killed")
    assert looks == seen.evaluations
    assert (row["ended"], row["best_return"], row["fresh_return"], row["looks"]) == ("budget", "-21.0", "nan", "1")


def test_a_stopped_table_goes_on_with_the_cells_that_are_left(tmp_path, monkeypatch, capsys):
    played, failing = [], True

    def play(cell, folder):
        if failing and len(played) == 1:
            raise KeyboardInterrupt
        played.append(cell)
        looks = [Evaluation(0.5, -20.0, 1e5), Evaluation(1.0, 210.0, 2e6)]
        return {name: text for name, text in row_of(cell).items() if name != "machine"}, looks

    monkeypatch.setattr(bench, "_play", play)
    chosen = ("only=[lunar_lander]", "columns=[openai_es]", "seeds=[1,2,3]", f"results={tmp_path / 'table.csv'}")
    config = BenchConfig.of(composed(*(f"reinforcement.{one}" for one in chosen), verb="bench"))
    with pytest.raises(KeyboardInterrupt):
        bench.bench_reinforcement(config, tmp_path)
    failing = False
    bench.bench_reinforcement(config, tmp_path)
    assert [cell.seed for cell in played] == [1, 2, 3]
    assert "3 of 3" in capsys.readouterr().out
    curve = [(row["seed"], row["minute"], row["steps"], row["mean_return"]) for row in rows_of(tmp_path / "table_curves.csv")]
    assert curve == [
        (str(seed), *look) for seed in (1, 2, 3) for look in (("0.500", "100000", "-20.0"), ("1.000", "2000000", "210.0"))
    ]
    assert "lunar_lander to 200" in (tmp_path / "returns.svg").read_text()
    config.plain["reinforcement"]["tasks"]["lunar_lander"]["goal"] = 150
    config.plain["reinforcement"]["seeds"] = [1]
    bench.bench_reinforcement(config, tmp_path)  # another goal is another cell
    assert len(played) == 4
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(UserError, match="its columns are others"):
        bench.bench_reinforcement(config, tmp_path)


def test_what_is_missing_or_wrong_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    line = one_line(neuro_inside("bench", "reinforcement", "reinforcement.columns=[ddpg]", "hydra.run.dir=bench", cwd=tmp_path))
    assert line == "reinforcement.columns=[ddpg]: stable-baselines3 is not installed: pip install '.[baselines]'"
    assert not (tmp_path / "outputs").exists()
    for change, said in (
        ({"columns": ["dqn"]}, "reinforcement.columns=dqn: must be one of dises, evolve, openai_es, ars, ddpg"),
        ({"only": ["pong"]}, "reinforcement.only=pong: must be one of lunar_lander, "),
        ({"setting": "best"}, "reinforcement.setting=best: must be one of tuned, common"),
        ({"threshold": "low"}, "reinforcement.threshold=low: must be one of ours, registered"),
        ({"minutes": 0}, "reinforcement.minutes=0: must be a number > 0"),
        ({"seeds": []}, "reinforcement.seeds=[]: must be a non-empty list"),
    ):
        with pytest.raises(UserError, match="^" + re.escape(said)):
            plan(settings(**change))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_tiny_cell_of_every_column(tmp_path):
    """A goal that the first look reaches, and one that none does."""
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("msgpack")
    short = ("reinforcement.seeds=[3]", "reinforcement.episodes=3", "reinforcement.ddpg.look=100", "reinforcement.columns=")
    tiny = ("bench", "reinforcement", "reinforcement.only=[lunar_lander]", "reinforcement.results=table.csv", *short[:3])
    goals = {"easy": (-10_000, 4, "[evolve,openai_es,ddpg]"), "hard": (10_000, 0.5, "[openai_es]")}
    for name, (goal, minutes, columns) in goals.items():
        task = "reinforcement.tasks.lunar_lander"
        more = (f"{task}.goal={goal}", f"{task}.minutes={minutes}", short[3] + columns, f"hydra.run.dir={name}")
        well(neuro(*tiny, *more, cwd=tmp_path, timeout=800))
    rows = rows_of(tmp_path / "table.csv")
    assert [(row["column"], row["ended"]) for row in rows] == [
        ("evolve", "goal"), ("openai_es", "goal"), ("ddpg", "goal"), ("openai_es", "budget"),
    ]  # fmt: skip
    for row in rows[:3]:
        assert int(row["looks"]) == 1
        assert 0 < float(row["minutes"]) < 4
        assert math.isfinite(float(row["fresh_return"]))
        assert float(row["fresh_return"]) != float(row["best_return"])  # other episodes
    assert float(rows[3]["minutes"]) == pytest.approx(0.5, abs=0.1)
    for column in ("evolve", "openai_es"):  # what is confirmed is what the look saw, after evaluate.every of conf/bench.yaml
        store = CheckpointStore(tmp_path / "easy" / f"lunar_lander_{column}_3", keep=1)
        assert store.load(None).generation == 5
