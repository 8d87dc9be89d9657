"""Process that calls a reward: a line of JSON for every answer on its standard input, one with the reward on its output.

    python -P -m neuro_cli.task.language.reward_worker SPEC

SPEC: JSON with the ``path`` of imports, the ``name`` of the reward and its ``options``. Its first line says that it is ready.
"""

import json
import math
import os
import sys
from typing import Any

from neuro_cli.task.language.reward_functions import Reward, reward_of

LONGEST = 200  # letters of an error


def main() -> None:
    """Answer until the standard input ends."""
    spec = json.loads(sys.argv[1])
    asked, answers = _own_channels()
    sys.path[:] = spec["path"]
    try:
        reward = reward_of(spec["name"])
    except BaseException as error:  # an import may raise anything
        _say(answers, {"error": _text(error)})
        return
    _say(answers, {"ready": True})
    for line in asked:
        _say(answers, _answer(reward, json.loads(line), spec["options"]))


def _own_channels() -> tuple[Any, Any]:
    """Return input and output for messages; a reward that reads or prints uses other ones."""
    asked, answers = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return asked, answers


def _answer(reward: Reward, asked: list[str], options: dict[str, Any]) -> dict[str, Any]:
    try:
        number = _mean(reward(*asked, **options))
    except Exception as error:  # the user's function may raise anything
        return {"error": _text(error)}
    return {"reward": number} if math.isfinite(number) else {"error": f"it gives {number}"}


def _mean(given: Any) -> float:
    """Return a number, or the mean of numbers in a list, an array or a tensor, such as one for each place of an answer."""
    given = given.tolist() if hasattr(given, "tolist") else given
    return float(given) if not isinstance(given, list | tuple) else sum(map(float, given)) / len(given)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
