"""The configs of tests are those that Hydra composes of the same overrides."""

import pickle

import pytest
from omegaconf import OmegaConf

from support.configs import chosen, composed


@pytest.mark.parametrize(
    ("verb", "overrides"),
    [
        ("train", ("population=8", "algo=snes", "algo.sigma=0.3", "seed=${population}")),
        (
            "train",
            ("model._target_=my.Net", "task.fitness='a b'", "+algo.optimizer.eps=1e-3", "sampler=low_rank", "sampler.rank=2"),
        ),
        ("train", ("algo=ensemble", "algo.members=[{model:blog_cnn,optimizer:{lr:-1}},{model:MNIST_10K}]", "time_limit=null")),
        ("scale", ("ranks=[1,2]", "known_fabrics.infiniband_fdr.emulate=true", "fabrics=[]", "threads=2")),
        ("search", ("strategy=random", "pool.workers=1", "seed=5")),
    ],
)
def test_they_are_those_of_hydra(verb, overrides):
    assert composed(*overrides, verb=verb) == OmegaConf.to_container(pickle.loads(chosen(verb, overrides)), resolve=True)
