"""The commands of tests get the config that Hydra composes."""

import pytest
from omegaconf import OmegaConf

from neuro_cli.cli.options.groups import groups
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides.check import compose_whole
from neuro_cli.cli.overrides.grammar import override_of
from support.composing import kept_whole
from support.inside import neuro_inside, well


@pytest.mark.parametrize(
    ("verb", "texts"),
    [
        (
            "train",
            ("population=8", "algo=snes", "algo.sigma=0.3", "hydra.run.dir=there", "seed=${population}", "task.fitness='a b'"),
        ),
        ("train", ("+experiment=mnist_30k", "algo.optimizer.lr=1e-3", "evaluate.every=2", "time_limit=null")),
        ("train", ("algo=ensemble", "algo.members=[{model:blog_cnn,optimizer:{lr:-1}}]", "model._target_=my.Net")),
        ("train", ("sead=3",)),
        ("train", ("algo=snes", "+algo.optimizer.eps=1e-3")),
        ("evolve", ("cluster.local_peers=1", "cluster.bind=null", "election=takeover")),
        ("search", ("strategy=random", "pool.workers=1", "hydra.run.dir=x")),
        ("train", ("model._target_=my.Net", "+algo.optimizer.eps=1e-3", "sampler=low_rank", "sampler.rank=2")),
        ("scale", ("ranks=[1,2]", "known_fabrics.infiniband_fdr.emulate=true", "fabrics=[]")),
    ],
)
def test_they_are_those_of_hydra(verb, texts):
    tree, known, overrides = ConfigTree(verb), groups(), [override_of(text) for text in texts]
    asked = tree, [f"hydra.job.name={verb}"], overrides, known
    for _ in range(2):  # composed, and kept
        (made, config), (wanted, whole) = kept_whole(*asked), compose_whole(*asked)
        assert made == wanted
        assert (config is None) == (whole is None)
        if config is not None:
            assert OmegaConf.to_container(config, resolve=False) == OmegaConf.to_container(whole, resolve=False)
            assert OmegaConf.is_struct(config) == OmegaConf.is_struct(whole)


@pytest.mark.parametrize("verb", ["reproduce", "train"])
def test_a_users_file_is_read_by_each_command(verb, tmp_path):
    group, key = ("table", "title") if verb == "reproduce" else ("model", "_target_")
    for name in ("first.One", "second.One"):
        (tmp_path / "mine.yaml").write_text(f"{key}: {name}\n")
        done = well(neuro_inside(verb, f"{group}=mine.yaml", "--cfg", "job", cwd=tmp_path))
        assert f"{key}: {name}" in done.stdout
