"""Fitnesses far from 0 that differ by little, as energies and sums of money do: learnt from as those near 0 are."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support.configs import OF_ANY_FITNESS
from support.thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.library.named import option

FAR = 1e8  # float32 has numbers 8 apart there
EXAMPLES = 6
FORMS = ("told", "closure", "examples", "shared pass")
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("replicated", {}), ("chromosome_updates", {}), ("semi_updates", {}), ("semi_updates", {"ranks_shaping": "local"})
]  # fmt: skip


def quality(outputs: Tensor) -> Tensor:
    """Of outputs (.., 4): negative squares in steps of 2**-20, which float64 holds beside FAR."""
    return -((outputs.double() - 1).square().sum(-1) * 2**20).round() / 2**20


def centre_of(
    world: Any, form: str, far: float, algo: str = "openai_es", method: str = "replicated", keys: Any = None
) -> np.ndarray:
    made = option("algo", algo, PopulationAlgorithm, 4, {"parents": 3} if algo == "genetic" else {})
    chosen = option("distribution", method, object, 4, keys)
    net = nn.Linear(2, 4)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.5)
    inputs, offsets = torch.ones(EXAMPLES, 2), torch.full((EXAMPLES,), far, dtype=torch.float64)

    def of_examples(member: nn.Module, batch: Tensor, targets: Tensor) -> Tensor:
        return quality(member(batch)) + targets

    shared = form == "shared pass"
    options: dict[str, Any] = {"algo": made, "distribution": chosen, "shared_pass": shared}
    with Evolution(net, population=12, sampler="sign_flip" if shared else "antithetic", world=world, threads=1, **options) as es:
        for _ in range(3):
            if form == "told":
                es.tell([float(quality(member(inputs[0]))) + far for member in es.ask()])
            elif form == "examples":
                es.step(of_examples, inputs, offsets)
            else:
                es.step(lambda member: quality(member(inputs)) + far)
        return es.centre.numpy()


# the form decides how fitnesses reach the algorithm, the algorithm what it does with them: each form meets some of them
@pytest.mark.parametrize(("algo", "form"), [(algo, FORMS[place % 4]) for place, algo in enumerate(OF_ANY_FITNESS)])
def test_every_algorithm_learns_far_from_0_as_it_does_near(algo, form):
    [near], [far] = (on_ranks(1, partial(centre_of, form=form, far=offset, algo=algo)) for offset in (0.0, FAR))
    assert np.ptp(near) > 0
    np.testing.assert_allclose(far, near, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "keys", "form"),
    [*((*way, form) for way, form in zip(METHODS, FORMS, strict=True)), ("data_parallel", {}, "examples")],
)
def test_every_method_sends_what_ranks_need(method, keys, form):
    [near, other], [far, another] = (
        on_ranks(2, partial(centre_of, form=form, far=offset, method=method, keys=keys)) for offset in (0.0, FAR)
    )
    assert np.ptp(near) > 0
    assert np.array_equal(near, other)
    assert np.array_equal(far, another)
    np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-6)
