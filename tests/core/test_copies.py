"""Copies of modules that deepcopy alone refuses, and memory for numbers that share it."""

import threading
import warnings
import weakref
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied, own_memory, state_of
from neuro_cli.core.module.precision import in_precision


def weight_norm() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):
        return nn.utils.weight_norm(nn.Linear(3, 2))


@pytest.mark.parametrize("make", [weight_norm, lambda: prune.l1_unstructured(nn.Linear(3, 2), "weight", 0.5)])
def test_a_computed_weight_is_copied(make):
    module, x = make(), torch.ones(1, 3)
    made = copied(module)
    assert torch.equal(made(x), module(x))
    with torch.no_grad():
        next(made.parameters()).add_(1.0)
        first = next(module.parameters())
    assert not torch.equal(next(made.parameters()), first)


def test_what_cannot_be_copied_is_one_line():
    module = nn.Linear(3, 2)
    module.lock = threading.Lock()
    with pytest.raises(UserError, match=r"^model: Linear cannot be copied, as every member needs a copy: .*lock") as found:
        copied(module)
    assert "\n" not in str(found.value)


def test_expanded_tensors_get_memory_of_their_own():
    module = nn.Linear(3, 2)
    module.bias = nn.Parameter(torch.ones(1).expand(2))
    module.register_buffer("scale", torch.ones(1, 1).expand(2, 3))
    layout = ParameterLayout(module)
    layout.load(module, torch.arange(8.0))
    assert module.bias.tolist() == [6.0, 7.0]
    own_memory(state_of(module))
    module.scale[0, 0] = 2.0
    assert module.scale.sum() == 7.0


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_are_copied(layout):
    """Deepcopy refuses rows and columns that are compressed, and sparse parameters."""
    module = nn.Linear(3, 2)
    module.register_buffer("links", getattr(torch.eye(3), layout)())
    module.nodes = [getattr(torch.eye(3), layout)()]
    module.fixed = nn.Parameter(getattr(torch.eye(3), layout)(), requires_grad=False)
    made = copied(module)
    for one, other in ((made.links, module.links), (made.nodes[0], module.nodes[0]), (made.fixed, module.fixed)):
        assert one is not other
        assert one.layout is other.layout
        assert torch.equal(one.to_dense(), other.to_dense())
    assert type(made.fixed) is nn.Parameter
    made.links.values().fill_(7.0) if layout != "to_sparse" else made.links._values().fill_(7.0)
    assert torch.equal(module.links.to_dense(), torch.eye(3))


def constants() -> nn.Module:
    module = nn.Linear(3, 2)
    module.register_buffer("phase", torch.tensor([1j, 2.0]))
    module.register_buffer("exact", torch.full((2,), 1 / 3, dtype=torch.float64))
    module.register_buffer("places", torch.arange(2))
    module.fixed = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
    return module


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float64])
def test_a_precision_leaves_complex_and_wide_constants(precision):
    module = in_precision(constants(), precision)
    assert module.weight.dtype == precision
    assert module.phase.dtype == (torch.complex128 if precision == torch.float64 else torch.complex64)
    assert module.phase.tolist() == [1j, 2.0]
    assert module.exact.tolist() == [1 / 3, 1 / 3]
    assert module.fixed.dtype == torch.float64
    assert module.places.dtype == torch.int64


class Memory:
    """Object of a package, with what a pass computed."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors


def test_computed_and_sparse_tensors_in_objects_of_a_package_are_copied():
    """A sparse variational process of gpytorch keeps its last distribution in an object."""
    module = nn.Linear(3, 2)
    module.memory = Memory(module.weight * 2, torch.eye(3).to_sparse_csr(), module.weight)
    made = copied(module)
    computed, links, weight = made.memory.tensors
    assert torch.equal(computed, module.weight * 2)
    assert computed.is_leaf
    assert torch.equal(links.to_dense(), torch.eye(3))
    assert weight is made.weight


class Tied(nn.Module):
    """A head that is a function of the embedding, held in one of ``WAYS``."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.calls = calls = []

        def head(x, weight=self.embedding.weight):
            calls.append(len(x))
            return x @ (weight if way == "default" else self.embedding.weight).T

        @torch.no_grad()
        def decorated(x):
            return head(x)

        functions = {"decorated": decorated, "partial": partial(lambda f, x: f(x), head), "method": self.method}
        self.heads = {"head": [functions.get(way, head)]}
        if way == "hook":
            self.embedding.register_forward_hook(lambda module, inputs, outputs: (outputs, head(outputs))[0])
        self.plain = nn.functional.relu

    def method(self, x):
        return x @ self.embedding.weight.T

    def forward(self, x):
        return self.heads["head"][0](self.embedding(x))


@pytest.mark.parametrize("way", ["attribute", "default", "decorated", "partial", "hook", "method"])
def test_functions_of_a_copy_compute_with_its_own_numbers(way):
    module, x = Tied(way), torch.arange(4)
    before = module(x)
    made = copied(copied(module))
    with torch.no_grad():
        made.embedding.weight.mul_(2.0)
    torch.testing.assert_close(made(x), 4 * before, rtol=0, atol=0)
    torch.testing.assert_close(module(x), before, rtol=0, atol=0)
    assert made.plain is module.plain


def test_a_function_of_a_copy_keeps_what_else_it_holds():
    module, seen = nn.Linear(2, 2), []
    module.see = lambda: seen.append(module)
    module.count = lambda: len(seen)
    made = copied(module)
    made.see()
    assert seen == [made]
    assert made.count is module.count
    assert made.see.__qualname__ == module.see.__qualname__


def test_a_function_of_a_copy_fills_the_copys_table():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    module.seen = seen = {}
    module[0].register_forward_hook(lambda part, given, made: seen.update(made=made))
    made = copied(module)
    made(torch.ones(1, 2))
    assert torch.equal(made.seen["made"], made[0](torch.ones(1, 2)))
    assert not seen


def test_a_weak_reference_of_a_copy_is_to_the_copys_part():
    module, other = nn.Sequential(nn.Linear(2, 2)), nn.Linear(1, 1)
    module.first, module.other = weakref.ref(module[0]), weakref.ref(other)
    made = copied(module)
    assert made.first() is made[0]
    assert made.other() is other


def test_weak_tables_and_proxies_of_a_copy_are_of_the_copys_parts():
    module, other = nn.Sequential(nn.Linear(2, 2)), nn.Linear(1, 1)
    module.by_name, module.every = weakref.WeakValueDictionary(a=module[0], b=other), weakref.WeakSet([module[0], other])
    module.number = weakref.WeakKeyDictionary({module[0]: 1, other: 2})
    module.__dict__["near"], module.__dict__["far"] = weakref.proxy(module[0]), weakref.proxy(other)
    made = copied(module)
    assert made.by_name["a"] is made[0]
    assert made.by_name["b"] is other
    assert set(made.every) == {made[0], other}
    assert made.number == {made[0]: 1, other: 2}
    assert made.near.weight is made[0].weight
    assert made.far.weight is other.weight


def test_a_weak_reference_to_who_holds_a_module_stays():
    class Trainer:
        """Its copy would be nobody's, and gone at once."""

    trainer, module = Trainer(), nn.Sequential(nn.Linear(2, 2))
    trainer.module = module
    module.trainer, module.__dict__["seen"] = weakref.ref(trainer), weakref.proxy(trainer)
    made = copied(module)
    assert made.trainer() is trainer
    assert made.seen.module is module
