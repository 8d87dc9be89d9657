"""Root keys of a run: a line of YAML and a field each, from which checks, resume and help follow."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from support.configs import composed

from neuro_cli.cli.options.groups import groups
from neuro_cli.cli.options.help import keys_of as comments_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import config_folder
from neuro_cli.run_folder.identity import flatten
from neuro_cli.runner.config import RESUME_KEYS, RunConfig, bounded, check_early, key, keys_of, resumable

TRAIN = config_folder() / "train.yaml"


@dataclass(frozen=True, kw_only=True)
class Patient(RunConfig):
    """Keys of a run and one more."""

    patience: int = key(bounded(1), resumable=True)


def wider_file(folder: Path) -> Path:
    """The file of ``neuro train`` with a line for the new key."""
    path = folder / "train.yaml"
    path.write_text(TRAIN.read_text() + "patience: 3  # evaluations without an improvement until the run ends\n")
    return path


def test_a_line_and_a_field_are_a_key_that_is_checked_resumable_and_documented(tmp_path):
    file = wider_file(tmp_path)
    config = composed() | {"patience": OmegaConf.load(file)["patience"]}
    assert Patient.of(config).patience == 3
    assert set(resumable(Patient)) - set(resumable()) == {"patience"}
    assert comments_of(file)["patience"] == "evaluations without an improvement until the run ends"
    for refuse in (Patient.of, lambda wrong: check_early(wrong, Patient)):
        with pytest.raises(ConfigError, match="patience=0: must be an integer >= 1"):
            refuse({**config, "patience": 0})
    with pytest.raises(UserError, match="patience: it is missing in the config"):
        Patient.of(composed())


def test_every_key_of_the_file_is_a_field_with_a_comment():
    options = {*groups(), "defaults"}
    node = {name: value for name, value in OmegaConf.to_container(OmegaConf.load(TRAIN)).items() if name not in options}
    leaves = list(flatten(node))
    assert sorted(leaves) == sorted(keys_of())
    comments = comments_of(TRAIN)
    assert [name for name in leaves if not (comments.get(name) or comments.get(name.partition(".")[0]))] == []


def test_a_folder_of_a_version_without_a_key_has_its_default():
    config = composed()
    for name in ("cuda_graphs", "stop"):
        del config[name]
    del config["checkpoint"]["best"]
    read = RunConfig.of(config)
    assert (read.cuda_graphs, read.stop.metric, read.stop.at, read.checkpoint.best) == (False, None, None, False)


@pytest.mark.parametrize("name", ["seed", "device", "checkpoint.keep", "evaluate.every"])
def test_a_key_that_every_version_had_may_not_be_missing(name):
    config = composed()
    group, _, inner = name.rpartition(".")
    del (config[group] if group else config)[inner]
    with pytest.raises(UserError, match=f"{name}: it is missing in the config"):
        RunConfig.of(config)


@pytest.mark.parametrize(("group", "names"), [("stop", "stop.metric, stop.at"), ("evaluate", "evaluate.every")])
def test_a_value_in_place_of_keys_is_refused(group, names):
    with pytest.raises(ConfigError, match=f"{group}=5: it has keys of its own: {names}"):
        RunConfig.of(composed() | {group: 5})


def test_more_ranks_than_work_are_refused():
    with pytest.raises(ConfigError, match="ranks=129: must be an integer from 1 to 128"):
        RunConfig.of(composed("ranks=129"))


def test_an_early_check_passes_over_what_refers_to_other_keys_or_is_absent():
    check_early({"seed": "${population}", "population": 4, "checkpoint": {}})
    with pytest.raises(ConfigError, match=r"checkpoint\.keep=0"):
        check_early({"seed": "${population}", "checkpoint": {"keep": 0}})


def test_what_resume_may_change_of_the_root():
    assert [name for name in keys_of() if name not in RESUME_KEYS] == [
        "seed", "population", "batch_size", "layout", "precision", "weights", "pace.since", "pace.end",
    ]  # fmt: skip
