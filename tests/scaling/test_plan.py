"""What a scaling study is asked to measure."""

import pytest
from support.configs import composed

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.runner.config import RunConfig
from neuro_cli.runner.options import Options
from neuro_cli.scaling.plan import Point, study_of


def study(*overrides: str):
    return study_of(Options(composed(*overrides, verb="scale")))


def test_points_of_weak_and_strong_scaling_are_measured_once():
    points = study("ranks=[1,2,4]", "populations=[4,16]", "strong=[16,2]", "methods=[replicated]").points(4)
    assert points == [Point("replicated", 4, population, "MNIST_3M") for population in (16, 64)]  # 2 members cannot serve 4 ranks


def test_a_point_is_a_training_run_with_its_method_and_network():
    made = study("fabrics=[ethernet_1g]", "methods=[replicated_sign_flip]", "project=true")
    config = made.point_config(Point("replicated_sign_flip", 2, 8), "ethernet_1g")
    RunConfig.of(config)
    assert config["population"] == 8
    assert config["ranks"] is None
    assert config["sampler"]["_target_"].endswith("SignFlip")
    assert config["distribution"]["_target_"].endswith("Replicated")
    assert config["fabric"]["name"] == "ethernet_1g"
    assert not {"known_methods", "populations", "rounds"} & config.keys()


def test_an_ensembles_population_is_its_members():
    made = study("algo=ensemble", "methods=[logits_pipelined,batch_parallel]", "strong=[6]", "populations=[]")
    config = made.point_config(Point("logits_pipelined", 2, 6), None)
    RunConfig.of(config)
    assert config["algo"]["size"] == 6
    assert config["distribution"]["_target_"].endswith("LogitsPipelined")
    with pytest.raises(ConfigError, match=r"^algo\.members=\[\.\.\.\]: neuro scale varies the number of members"):
        study("algo=ensemble", "methods=[logits_pipelined]", "algo.members=[{count:1}]")


def test_more_ranks_than_cores_are_known(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2})
    made = study()
    assert [made.crowded(ranks) for ranks in (1, 3, 4)] == [False, False, True]
    assert study("threads=2").crowded(2)


def test_projecting_emulates_nothing():
    assert not study("fabrics=[ethernet_1g,infiniband_fdr]", "project=true").networks["ethernet_1g"].emulate


def test_models_and_networks_that_are_only_projected_are_named():
    made = study("models=[CIF_900K,MNIST_3M]", "projected_fabrics=[infiniband_fdr,ethernet_1g]", "methods=[semi_updates_local]",
        "populations=[2]", "strong=[]")  # fmt: skip
    assert made.points(3) == [Point("semi_updates_local", 3, 6, model) for model in ("CIF_900K", "MNIST_3M")]
    config = made.point_config(made.points(3)[0], None)
    RunConfig.of(config)
    assert config["model"]["_target_"].endswith("CIF_900K")
    assert config["distribution"]["ranks_shaping"] == "local"
    assert not {"known_models", "models", "projected_fabrics"} & config.keys()
    assert list(made.networks) == ["native", "infiniband_fdr", "ethernet_1g"]
    assert made.unmeasured == {"infiniband_fdr", "ethernet_1g"}
    assert not made.networks["ethernet_1g"].emulate  # so it asks for no rights


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["models=[CIF_9M]"], "models=CIF_9M: no such one; did you mean CIF_8M"),
        (["projected_fabrics=[native]"], "projected_fabrics=native: it is among fabrics"),
        (["fabrics=[infiniband_fdr]", "projected_fabrics=[native]"], "projected_fabrics=native: it has no cost model to project"),
        (["ranks=[]"], r"ranks=\[\]: must be a list of integers"),
        (["methods=[semiupdates]"], "methods=semiupdates: no such one; did you mean semi_updates"),
        (["fabrics=[ethernet]"], "fabrics=ethernet: no such one; did you mean ethernet_"),
        (["populations=[]", "strong=[]"], r"populations=\[\]: nothing to measure"),
        (["methods=[logits_tree]"], "distribution=logits_tree: it trains ensembles"),
        (["algo=ensemble", "methods=[semi_updates]"], "distribution=semi_updates: algo=ensemble needs one of logits_allreduce"),
        (["population=8"], r"population=8: neuro scale varies it: give populations="),
        (["fabric=ethernet_1g"], r"fabric=.*: neuro scale compares several: give fabrics="),
        (["distribution=replicated"], r"distribution=.*: neuro scale compares several: give methods="),
        (
            ["fabrics=[infiniband_fdr]", "known_fabrics.infiniband_fdr.emulate=true"],
            r"fabric.rate=5.45e\+10: at most 1e\+10 bit/s can be emulated",
        ),
    ],
)
def test_bad_input_is_named(overrides, said):
    with pytest.raises((ConfigError, UserError), match=said):
        study(*overrides)
