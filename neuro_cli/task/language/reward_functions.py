"""Rewards of answers in words: functions ``reward(prompt, answer, target, **options) -> number``, or numbers, which are averaged.

Imports neither torch nor the rest of neuro: processes that call rewards start quickly.
"""

import ast
import math
import operator
import re
import subprocess
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

Reward = Callable[..., Any]


def contains(prompt: str, answer: str, target: str) -> float:
    """Return 1 if the answer contains the target as separate words, else 0; a number is no part of a longer one."""
    target = target.strip()
    before, after = r"(?<!\w)", r"(?!\w)"
    if target[:1].isdigit():
        before += r"(?<!\d[.,])(?<!(?<!\w)[-\N{MINUS SIGN}])(?<!(?<!\w)\.)"
    if target[-1:].isdigit():
        after += r"(?![.,]\d)"
    return float(re.search(f"{before}{re.escape(target)}{after}", answer) is not None)


def pattern(prompt: str, answer: str, target: str, expression: str | None = None) -> float:
    """Return 1 if the complete answer fits the regular ``expression``, by default the problem's target, else 0."""
    return float(re.fullmatch(target if expression is None else expression, answer.strip(), re.DOTALL) is not None)


def program(prompt: str, answer: str, target: str, command: Sequence[str] = ()) -> float:
    """Return 1 if ``command`` ends with 0, else 0; its arguments may contain {prompt}, {answer} and {target}.

    The answer is its standard input too. Without braces it may be code, which the command then runs.
    """
    given = {"{prompt}": prompt, "{answer}": answer, "{target}": target}
    names = re.compile(r"\{(?:prompt|answer|target)\}")
    line = [names.sub(lambda found: given[found[0]], str(part)) for part in command]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return float(subprocess.run(line, input=answer.encode(), **quiet, check=False).returncode == 0)  # type: ignore[call-overload]


def expression(prompt: str, answer: str, target: str) -> float:
    """Return 1 if the answer is an expression with the numbers and the value of the target, 0.1 with its numbers, else 0."""
    try:
        mine, wanted = _parsed(answer), _parsed(target)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        return 0.0
    if sorted(mine[0]) != sorted(wanted[0]):
        return 0.0
    return 1.0 if math.isclose(mine[1], wanted[1], rel_tol=0, abs_tol=1e-9) else 0.1


_SIGNS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


def _parsed(text: str) -> tuple[list[int], float]:
    """Return the numbers of an expression and its value. Raises ValueError for other texts, and Python's errors."""
    numbers: list[int] = []

    def value(node: ast.AST) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
            return _SIGNS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            numbers.append(node.value)
            return float(node.value)
        raise ValueError("no expression of whole numbers")

    if len(text) > 200:
        raise ValueError("too long")
    return numbers, value(ast.parse(text.strip(), mode="eval").body)


# rewards by name; any other name is package.module.function
REWARDS: dict[str, Reward] = {each.__name__: each for each in (contains, pattern, program, expression)}


def reward_of(name: str) -> Reward:
    """Return the reward called ``name``, or the function of that dotted name. Raises Python's errors of an import."""
    if name in REWARDS:
        return REWARDS[name]
    module, _, function = name.rpartition(".")
    found: Any = getattr(import_module(module), function)
    if not callable(found):
        raise TypeError(f"{name} is no function")
    result: Reward = found
    return result
