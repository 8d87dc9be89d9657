"""What users type, before Hydra sees it."""

import pytest

from neuro_cli.cli.options.groups import groups
from neuro_cli.cli.overrides.check import checked
from neuro_cli.cli.overrides.grammar import parse_plain
from neuro_cli.core.errors import UserError

# groups that one verb alone has
VERBS = {"election": "evolve", "selection": "evolve", "pool": "search", "strategy": "search"}


@pytest.mark.parametrize("group", sorted(set(groups()) - {"experiment"}))
def test_an_option_is_chosen_with_a_plus_too(group):
    option = groups()[group][-1]
    assert checked(VERBS.get(group, "train"), [f"+{group}={option}"]).overrides[-1] == f"{group}={option}"


@pytest.mark.parametrize(("prefix", "chosen"), [("", "nes_table_1"), ("+", "[nes_table_1,ensemble_figure]"), ("", "all")])
def test_entries_are_options_of_reproduce_alone(prefix, chosen):
    assert checked("reproduce", [f"{prefix}table={chosen}"]).overrides[-1] == f"table={chosen}"
    with pytest.raises(UserError, match="table"):
        checked("train", [f"{prefix}table={chosen}"])


def test_a_flag_stands_anywhere():
    for words in (["-m", "+algo=snes,genetic", "seed=1,2"], ["+algo=snes,genetic", "-m", "seed=1,2"]):
        ready = checked("train", words)
        assert ready.overrides == ["hydra.job.name=train", "algo=snes,genetic", "seed=1,2"]
        assert ready.sweeps
        assert not ready.shows


def test_an_existing_key_takes_a_plus_and_a_new_dotted_one_keeps_it():
    assert checked("train", ["+seed=4"]).overrides[-1] == "seed=4"
    assert checked("train", ["+algo.optimizer.betas=[0.9,0.99]"]).overrides[-1] == "+algo.optimizer.betas=[0.9,0.99]"


def test_a_key_of_hydra_takes_a_plus_whether_it_exists_or_not():
    ready = checked("train", ["+hydra.job.name=mine", "+hydra.job.env_set.MINE=1"])
    assert ready.overrides[1:] == ["++hydra.job.name=mine", "++hydra.job.env_set.MINE=1"]
    assert ready.composed.hydra.job.env_set.MINE == "1"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["+alg=snes"], r"\+alg=snes: no such group or key; did you mean algo\?"),
        (["algorithm=snes"], r"algorithm=snes: no such key; did you mean algo\?"),
        (["algo=sness"], r"algo=sness: no such option; did you mean snes or xnes\?"),
        (["-m", "algo=snes,opena_es"], r"algo=opena_es: no such option; did you mean openai_es"),
        (["model=MNIST_3"], r"model=MNIST_3: no such option; did you mean MNIST_"),
        (["task=imagenet"], r"task=imagenet: no such option; "),
        (["sead=3"], r"sead=3: no such key; did you mean seed"),
        (["algo.sigm=3"], r"algo.sigm=3: no such key; did you mean algo.sigma.*; a new one is added with \+algo.sigm="),
        (["training.epocs=3"], r"training.epocs=3: no such key; valid are algo, batch_size, [\w, ]+, weights$"),
        (["stop.qqqqqqqqqqqqq=3"], r"stop.qqqqqqqqqqqqq=3: no such key; valid are stop.at, stop.metric; a new one"),
        (["checkpoint.evry=3"], r"checkpoint.evry=3: no such key; did you mean checkpoint.every"),
        (["+algo.optimiser.lr=3"], r"\+algo.optimiser.lr=3: no such key algo.optimiser; did you mean algo.optimizer"),
        (["algo=snes", "algo.optimizer.lr=3"], r"algo.optimizer.lr=3: no such key"),
    ],
)
def test_a_misspelt_word_names_the_nearest(arguments, line):
    with pytest.raises(UserError, match=f"^{line}") as caught:
        checked("train", arguments)
    assert "\n" not in str(caught.value)


def test_plain_arguments_are_parsed_as_hydra_does():
    assert parse_plain("generations=5") == ("generations", 5)
    assert parse_plain("time_limit=null") == ("time_limit", None)
    with pytest.raises(UserError, match=r"one plain key=value is allowed here; a list is written trust=\[A,B\]$"):
        parse_plain("trust=a,b")


def test_a_file_is_an_option_of_its_group(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "found.yaml").write_text("_target_: neuro_cli.model.mnist.MNIST_10K\noutputs: 12\n")
    first, second = (str(tmp_path / folder / "found.yaml") for folder in ("a", "b"))
    assert checked("train", [f"model={first}", "model.outputs=11"]).overrides[-2:] == ["model=found", "model.outputs=11"]
    assert checked("train", ["-m", f"+model={first},MNIST_30K,{second}"]).overrides[-1] == "model=found,MNIST_30K,found_2"


def test_a_file_that_is_no_option_is_refused_in_a_line(tmp_path):
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "bare.yaml").write_text("outputs: 10")
    (tmp_path / "torn.yaml").write_text("outputs: [")
    for name, reason in (
        ("none", "it cannot be read: No such file or directory"),
        ("list", "an option is a file of keys, _target_ among them"),
        ("bare", "an option is a file of keys, _target_ among them"),
        ("torn", "it is no YAML: "),
    ):
        with pytest.raises(UserError) as caught:
            checked("train", [f"model={tmp_path}/{name}.yaml"])
        assert str(caught.value).startswith(f"model={tmp_path}/{name}.yaml: {reason}")
        assert "\n" not in str(caught.value)


def test_a_class_by_its_name_alone_has_no_values_of_another_option():
    typed = ["algo._target_=my.CEM", "algo.elite=0.5"]
    alone = checked("train", typed)
    assert alone.composed is not None
    assert dict(alone.composed.algo) == {"_target_": "my.CEM", "elite": 0.5}
    again = checked("train", alone.overrides[1:]).composed
    assert again is not None
    assert again.algo == alone.composed.algo, "a second check changes nothing"
    kept = checked("train", ["algo=snes", "algo._target_=my.SNES"]).composed
    assert kept is not None
    assert kept.algo.learning_rate == 1.0, "a chosen option keeps its values"
