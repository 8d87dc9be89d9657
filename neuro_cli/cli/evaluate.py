"""``neuro evaluate``."""

from neuro_cli.cli.arguments import names, run_arguments
from neuro_cli.cli.overrides import parse_plain
from neuro_cli.core.checks import thread_count
from neuro_cli.core.errors import ConfigError, no_exit

EVALUATE_KEYS = ("checkpoint", "trust", "task.root", "task.download", "task.evaluation_episodes", "device", "threads")


def evaluate_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.evaluate import evaluate

    options = run_arguments("evaluate", arguments)
    generation, trust, changes = None, [], {}
    for text in options.overrides:
        key, value = parse_plain(text)
        if key == "checkpoint":
            generation = value
        elif key == "trust":
            trust = names(value)
        elif key in EVALUATE_KEYS:
            changes[key] = thread_count(key, value) if key == "threads" and value is not None else value
        else:
            raise ConfigError(key, value, f"evaluate takes {', '.join(EVALUATE_KEYS)}")
    with no_exit():
        evaluate(options.run, generation, trust, changes)
    return 0
