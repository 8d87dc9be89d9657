"""Objects from configs: as Hydra makes them with ``_convert_: all``; the key that an error names, and the nearest argument."""

import copy
import sys
from functools import partial
from typing import Any, ClassVar

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.construct import ConstructionError, construct, located
from neuro_cli.factory.instantiate import make

pytestmark = pytest.mark.xdist_group("options")


class Call:
    """What a target was called with; equal to another call with the same."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self.args, self.kwargs) == (other.args, other.kwargs)

    __hash__ = None  # type: ignore[assignment]


class Refusing:
    """Fails in its constructor."""

    def __init__(self, size: int = 1) -> None:
        raise KeyError("no licence")


CALL, REFUSING = f"{__name__}.Call", f"{__name__}.Refusing"
INNER = {"_target_": CALL, "a": 1}


def as_hydra_does(node: dict[str, Any]) -> Any:
    return instantiate(OmegaConf.create({"_convert_": "all", **node}))


def shown(made: Any) -> Any:
    """Return an object as comparable values."""
    if isinstance(made, partial):  # Hydra's is a subclass
        return "partial", shown(made.func), shown(list(made.args)), shown(made.keywords)
    if isinstance(made, list | tuple):
        return [shown(value) for value in made]
    if isinstance(made, dict):
        return {str(name): shown(value) for name, value in made.items()}
    return (shown(made.args), shown(made.kwargs)) if isinstance(made, Call) else made


@pytest.mark.parametrize(
    "node",
    [
        {"a": 1, "b": [1, {"c": "x"}], "d": None, "e": {"f": 2.5, "g": [True]}},
        {"inner": INNER, "deep": {"list": [{"more": [INNER]}, 3]}},
        {"_args_": [1, INNER, [INNER]], "a": 2},
        {"_partial_": True, "a": INNER, "_args_": [4]},
        {"inner": {**INNER, "_partial_": True}, "_partial_": False},
        {"_convert_": "all", "inner": {**INNER, "_convert_": "all"}},
    ],
)
def test_a_call_is_that_of_hydra(node):
    node = {"_target_": CALL, **node}
    before = copy.deepcopy(node)
    assert shown(construct(node)) == shown(as_hydra_does(node))
    assert node == before


def test_no_object_shares_lists_with_the_config():
    node = {"_target_": CALL, "a": [1]}
    made = construct(node)
    made.kwargs["a"].append(2)
    assert node["a"] == [1]


def test_a_name_is_found_as_hydra_finds_it():
    from hydra.utils import get_object

    # a function and a module of one name; a class; a method; a module
    for path in ("torchvision.models.googlenet", "torch.nn.Linear", "torch.nn.Linear.from_float", "neuro_cli.core", CALL):
        if path != "torch.nn.Linear.from_float" or hasattr(nn.Linear, "from_float"):
            assert located(path) is get_object(path)
    assert callable(located("torchvision.models.googlenet"))


WRONG = [
    ({"_target_": "torch.optim.Adm"}, r"torch\.optim has no Adm; did you mean Adam or "),
    ({"_target_": "nowhere.Net"}, "No module named 'nowhere'"),
    ({"_target_": f"{CALL}.nothing"}, "type object 'Call' has no attribute 'nothing'"),
    ({"_target_": ".Net"}, "'.Net' is no dotted path"),
    ({"_target_": "neuro_cli.core"}, "expected a class or a function, got module"),
    ({"_target_": None}, "expected a class or a function, got NoneType"),
    ({"_target_": REFUSING}, "'no licence'"),
    ({"_target_": REFUSING, "sise": 2}, ".*unexpected keyword argument 'sise'; did you mean size"),
    (
        {"_target_": "torch.nn.functional.relu"},
        r".* missing 1 required positional argument: 'input'; \+model\S*\._partial_=true gives the function",
    ),
    ({"_target_": CALL, "_partial_": "yes"}, "_partial_ must be true or false, not 'yes'"),
    ({"_target_": CALL, "_recursive_": False}, "_recursive_ is not allowed: objects below"),
    ({"_target_": CALL, "_args_": {"a": 1}}, "_args_ must be a list, not {'a': 1}"),
    ({"_target_": CALL, "a": "???"}, "a is missing: give it a value"),
]
AROUND = [
    ("", lambda node: node),
    (".inner", lambda node: {"_target_": CALL, "inner": node}),
    # Hydra's key of it is inner.list[1], which nobody can type
    (".inner.list.1._args_.0", lambda node: {"_target_": CALL, "inner": {"list": [0, {**INNER, "_args_": [node]}]}}),
]


@pytest.mark.parametrize(
    ("more", "line", "key", "around"), [(*wrong, *AROUND[place % len(AROUND)]) for place, wrong in enumerate(WRONG)]
)
def test_an_error_names_the_key_of_the_failing_target(more, line, key, around):
    with pytest.raises(ConfigError, match=rf"^model{key}\._target_=\S+: {line}") as caught:
        make({"model": around(more)}, "model", nn.Module)
    assert "\n" not in str(caught.value)


def test_a_missing_argument_may_be_given_later():
    assert construct({"_target_": CALL, "_partial_": True, "a": "???"})(a=3) == Call(a=3)


def test_what_a_constructor_says_to_the_user_stays(monkeypatch):
    def refuse() -> None:
        raise UserError("size=3: must be even")

    monkeypatch.setattr(sys.modules[__name__], "Refusing", refuse)
    with pytest.raises(UserError, match=r"^size=3: must be even$"):
        make({"model": {"_target_": CALL, "x": {"_target_": REFUSING}}}, "model", nn.Module)
    with pytest.raises(ConstructionError) as caught:
        construct({"_target_": CALL, "x": {"_target_": REFUSING}})
    assert caught.value.key == "x"


class Judge:
    """Class that calls its functions with two arguments, and a factory of them."""

    functions: ClassVar = {"loss": 2, "metrics": 2}

    def __init__(self, loss: Any = None, metrics: Any = None, other: Any = None) -> None:
        self.loss, self.metrics, self.other = loss, metrics, other


def compared(outputs: float, targets: float, beta: float = 1.0) -> float:
    return beta * (outputs - targets)


def comparison(beta: float = 1.0) -> partial[float]:
    return partial(compared, beta=2 * beta)


HERE = __name__


def test_a_function_that_will_be_called_needs_no_partial():
    node = {"_target_": f"{HERE}.compared", "beta": 3.0}
    assert construct({"_target_": f"{HERE}.Judge", "loss": node}).loss(5, 4) == 3
    made = construct({"_target_": f"{HERE}.Judge", "metrics": {"a": node, "b": [{"_target_": f"{HERE}.comparison"}]}}).metrics
    assert (made["a"](5, 4), made["b"][0](5, 4)) == (3, 2)  # what can be called with what is given is called
    assert construct({"_target_": f"{HERE}.Judge", "loss": {"_target_": "torch.nn.MSELoss"}}).loss.reduction == "mean"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"other": {"_target_": f"{HERE}.compared"}}, "missing 2 required"),
        ({"loss": {"_target_": f"{HERE}.compared", "_partial_": False}}, "missing 2 required"),
        ({"loss": {"_target_": f"{HERE}.compared", "gamma": 1}}, "unexpected keyword argument 'gamma'"),
        ({"loss": {"_target_": f"{HERE}.Judge", "other": {"_target_": f"{HERE}.compared"}}}, "missing 2 required"),
    ],
)
def test_a_function_elsewhere_is_called(node, reason):
    with pytest.raises(ConstructionError) as caught:
        construct({"_target_": f"{HERE}.Judge", **node})
    assert reason in str(caught.value.__cause__)
