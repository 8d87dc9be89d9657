"""Checks of the options' values before torch is imported.

An option checks its arguments in its constructor, and importing its class takes torch with it. Its source has the same checks
as text: ``number("algo.sigma", sigma, above=0.0)``. Those that the constructor makes in any case, of an argument as it was given
and with constant bounds, are made here; all others, and those of the user's own classes, wait for the class.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import neuro_cli
from neuro_cli.core import checks
from neuro_cli.core.lazy import LazyModule

CHECKS = dict.fromkeys(("boolean", "integer", "number", "number_or", "one_of"), checks)
CHECKS |= {"shaping_of": LazyModule("neuro_cli.core.shaping")}  # NumPy comes with it
SOURCES = Path(neuro_cli.__file__).parents[1]
# what may not be evaluated, or not once
CONDITIONAL: tuple[type[ast.AST], ...] = (
    *(ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.FunctionDef, ast.ClassDef, ast.BoolOp),
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


class _NotConstantError(Exception):
    """An expression whose value the source does not say."""


class _Check(NamedTuple):
    """Check of an ``argument`` by a ``function``, which a constructor in ``module`` calls."""

    module: str
    function: str
    argument: str
    call: ast.Call


def check_options(config: Mapping[str, Any]) -> None:
    """Check the options of a config whose references are not resolved. Raises ConfigError."""
    _check_node(config)
    node: Any = config
    for part in ("algo", "optimizer", "lr"):
        node = node.get(part) if isinstance(node, Mapping) else None
    if node != "auto" and _is_given(node):  # its class is torch's or the user's, whose source is not read
        checks.number("algo.optimizer.lr", node, low=0.0)


def _check_node(node: Any) -> None:
    """Check the arguments of each ``_target_`` of ours in ``node``."""
    if isinstance(node, Mapping):
        module, _, name = str(node.get("_target_")).rpartition(".")
        for check in _checks_of(module, name):
            _make(check, node)
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        _check_node(value)


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and (value == "???" or "${" in value))


def _make(check: _Check, given: Mapping[str, Any]) -> None:
    value, call = given.get(check.argument), check.call
    if not _is_given(value):
        return
    try:
        key, *bounds = (_constant(each, check.module, given) for each in (call.args[0], *call.args[2:]))
        more = {str(each.arg): _constant(each.value, check.module, given) for each in call.keywords}
    except _NotConstantError:
        return
    getattr(CHECKS[check.function], check.function)(key, value, *bounds, **more)


@cache
def _checks_of(module: str, name: str) -> list[_Check]:
    """Return the checks that the constructor of a class makes in any case of its arguments as they are given."""
    home, node = _defined(module, name)
    if not isinstance(node, ast.ClassDef):
        return []
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    above = [check for base in bases for check in _checks_of(home, base)]
    constructor = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if constructor is None:
        return above
    stored = {each.id for each in ast.walk(constructor) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    given = {each.arg for each in (*constructor.args.args, *constructor.args.kwonlyargs)} - stored
    result: list[_Check] = []
    for call in _calls(constructor.body):
        names = [each.id for each in (*call.args, *(more.value for more in call.keywords)) if isinstance(each, ast.Name)]
        function = ast.unparse(call.func)
        if function == "super().__init__":
            result += [check for check in above if check.argument in given.intersection(names)]
        elif function in CHECKS and len(call.args) > 1 and ast.unparse(call.args[1]) in given:
            result.append(_Check(home, function, ast.unparse(call.args[1]), call))
    return result


def _calls(statements: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls that the statements make in any case, whatever they do where an argument is None."""
    for statement in statements:
        if any(isinstance(each, ast.Return) for each in ast.walk(statement)):
            return
        yield from _within(statement)


def _within(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, CONDITIONAL):
        return
    if isinstance(node, ast.IfExp):  # X if argument is None else Y
        is_none = isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Is)
        yield from _within(node.orelse if is_none else node.test)
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _within(child)


def _constant(node: ast.expr, module: str, given: Mapping[str, Any]) -> Any:
    """Return the value of an expression of constants; ``given``: arguments that a formatted text may name."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple():
            return tuple(_constant(each, module, given) for each in node.elts)
        case ast.JoinedStr():
            return "".join(str(_constant(each, module, given)) for each in node.values)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in given:
            return given[name]
        case ast.Name(id=name):
            home, found = _defined(module, name)
            if isinstance(found, ast.expr):
                return _constant(found, home, {})
    raise _NotConstantError


def _defined(module: str, name: str) -> tuple[str, ast.AST | None]:
    """Return the class of a name, or the expression of its value, and the module of ours that defines it."""
    for node in _source(module):
        match node:
            case ast.ClassDef() if node.name == name:
                return module, node
            case ast.ImportFrom():
                for each in node.names:
                    if name == (each.asname or each.name):
                        return _defined(str(node.module), each.name)
            case ast.Assign():
                for target in node.targets:
                    if ast.unparse(target) == name:
                        return module, node.value
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):  # ONE, OTHER = "one", "other"
                        for element, value in zip(target.elts, node.value.elts, strict=False):
                            if ast.unparse(element) == name:
                                return module, value
    return module, None


@cache
def _source(module: str) -> list[ast.stmt]:
    """Return the statements of one of our modules; none of another's, whose source is not read."""
    place = SOURCES.joinpath(*module.split("."))
    files = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
    if not module.startswith("neuro_cli.") or not files:
        return []
    return ast.parse(files[0].read_text(encoding="utf-8")).body
