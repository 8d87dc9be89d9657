"""Whatever is wrong before a run begins, Hydra's own findings included, is one line; and the folder stays free."""

import pytest
from support.inside import neuro_inside, one_line, well

from neuro_cli.core.version import __version__

SMALL = ("population=8", "batch_size=16", "threads=1", "generations=2", "evaluate.every=1")


def test_a_traceback_comes_when_it_is_asked_for(tmp_path):
    done = neuro_inside("train", *SMALL, "population=3", cwd=tmp_path, NEURO_DEBUG="1")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == "neuro: error: population=3: antithetic pairs need an even population"


def test_a_mended_command_can_have_the_folder_of_the_refused_one(tmp_path):
    command = ("train", *SMALL, "hydra.run.dir=run")
    assert one_line(neuro_inside(*command, "population=7", cwd=tmp_path)).startswith("population=7: ")
    assert not (tmp_path / "run").exists()
    done = neuro_inside(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "summary.json").exists()
    assert "already contains a run" in one_line(neuro_inside(*command, cwd=tmp_path))


def test_the_users_files_in_the_folder_outlive_a_refused_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    one_line(neuro_inside("train", *SMALL, "population=7", "hydra.run.dir=run", cwd=tmp_path))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


RUN, SWEEP = ((), "hydra.run.dir"), (("-m",), "hydra.sweep.dir")


@pytest.mark.parametrize(
    ("name", "command"),
    [("metrics.csv", RUN), ("checkpoints", SWEEP), ("summary.json", RUN), ("multirun.yaml", RUN), (".hydra", SWEEP)],
)
def test_a_folder_that_a_run_has_written_to_is_not_written_to(name, command, tmp_path):
    flags, key = command
    (tmp_path / "run" / name).mkdir(parents=True)
    text = one_line(neuro_inside("train", *flags, *SMALL, f"{key}=run", cwd=tmp_path))
    assert text.startswith(f"{key}=run: already contains a run")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["run", f"run/{name}"]


def test_a_sweep_over_an_interval_needs_a_sweeper_that_draws(tmp_path):
    text = one_line(neuro_inside("train", "-m", *SMALL, "seed=interval(1,2)", cwd=tmp_path))
    assert text.startswith("seed=interval(1,2): has no list of values; hydra/sweeper=optuna draws from an interval")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_sweep_by_pattern(tmp_path):
    well(
        neuro_inside(
            "train", "-m", *SMALL, "+algo=glob(*es,exclude=[c*,x*])", "++algo.sigma=0.02", "hydra.sweep.dir=s", cwd=tmp_path
        )
    )
    targets = {path.parent.parent.name: path.read_text() for path in (tmp_path / "s").glob("*/.hydra/config.yaml")}
    assert {job: "SNES" in text for job, text in targets.items()} == {"0": False, "1": False, "2": True}  # the second: sep_cma_es
    assert all("sigma: 0.02" in text for text in targets.values())


LISTS = """
from torch import nn

class Layers(nn.Sequential):
    def __init__(self, widths, shape):
        assert type(widths) is list and type(shape) is dict, "plain lists and dicts, as any class may ask for"
        sizes = [64] + widths
        super().__init__(nn.Flatten(), *[nn.Linear(a, b) for a, b in zip(sizes, widths)])
        assert shape["classes"] == widths[-1]
"""


def test_a_users_class_gets_plain_lists_and_dicts(tmp_path):
    (tmp_path / "nets_of_lists.py").write_text(LISTS)
    setting = ("train", *SMALL, "model._target_=nets_of_lists.Layers", "+model.widths=[16,10]")
    well(neuro_inside(*setting, "+model.shape={classes:10}", cwd=tmp_path))
    text = one_line(neuro_inside(*setting, "+model.shape={classes:9}", cwd=tmp_path))
    # a constructor's error may have no text of its own
    assert text == "model._target_=nets_of_lists.Layers: AssertionError"


CHECKED = """
from torch import nn

class Checked(nn.Linear):
    def __init__(self):
        super().__init__(64, 10)

    def forward(self, images):
        assert images.shape[1:] == (3, 4, 4), "colour images of 4x4, please"
"""


def test_a_module_that_checks_its_input_itself(tmp_path):
    (tmp_path / "nets_that_check.py").write_text(CHECKED)
    text = one_line(neuro_inside("train", *SMALL, "model._target_=nets_that_check.Checked", cwd=tmp_path))
    assert text == ("model=Checked, task=Digits: the model does not take 1x8x8 examples: colour images of 4x4, please")


@pytest.mark.parametrize(("mode", "run"), [((), "run"), (("hydra.mode=MULTIRUN", "hydra.sweep.dir=sweep"), "sweep/0")])
def test_a_mode_of_hydra_may_be_typed(tmp_path, mode, run):
    setting = ("generations=1", "population=4", "batch_size=8", "threads=1", "hydra.run.dir=run")
    well(neuro_inside("train", *setting, *mode, cwd=tmp_path))
    assert (tmp_path / run / "summary.json").exists()


def test_help_of_a_verb_and_the_version_wherever_it_is_asked_for(tmp_path):
    asked = well(neuro_inside("help", "search", cwd=tmp_path))
    assert asked.stdout.startswith("neuro search: choose options of groups (strategy=random")
    assert asked.stdout == neuro_inside("search", "--help", cwd=tmp_path).stdout
    for arguments in (("--version",), ("train", "--version"), ("report", "--version"), ("evolve", "generations=1", "--version")):
        assert neuro_inside(*arguments, cwd=tmp_path).stdout == f"neuro {__version__}\n"
    assert "did you mean train?" in one_line(neuro_inside("help", "trian", cwd=tmp_path))


def test_help_of_two_words(tmp_path):
    for words in (("evolve", "export"), ("search", "certs"), ("search", "status")):
        asked = well(neuro_inside("help", *words, cwd=tmp_path))
        assert asked.stdout.startswith(f"usage: neuro {' '.join(words)} ")


@pytest.mark.parametrize("verb", ["start", "peer"])
def test_a_verb_that_other_commands_start_says_so(verb, tmp_path):
    usage = f"usage: neuro {verb} RUN (internal; neuro resume RUN continues a run)"
    assert one_line(neuro_inside(verb, cwd=tmp_path)) == f"the following arguments are required: RUN; {usage}"
    assert usage in one_line(neuro_inside(verb, "a", "b", cwd=tmp_path))
    assert neuro_inside("help", verb, cwd=tmp_path).stdout.startswith(usage)
    assert one_line(neuro_inside(verb, "nowhere", cwd=tmp_path)).startswith("nowhere: not a neuro run")
    assert not list(tmp_path.iterdir())


def test_hydras_own_help(tmp_path):
    flags = neuro_inside("train", "--hydra-help", cwd=tmp_path).stdout
    assert "--config-dir" in flags
    assert "\nhydra/launcher: basic, " in flags
