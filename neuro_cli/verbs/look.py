"""Verbs that look at what is there: ``neuro evaluate``, ``report``, ``doctor``."""

import argparse
from pathlib import Path

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.overrides import parse_plain
from neuro_cli.verbs.arguments import Parser, names, run_arguments
from neuro_cli.verbs.table import HELP

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
            changes[key] = integer(key, value, 1) if key == "threads" and value is not None else value
        else:
            raise ConfigError(key, value, f"evaluate takes {', '.join(EVALUATE_KEYS)}")
    evaluate(options.run, generation, trust, changes)
    return 0


def report_verb(arguments: list[str]) -> int:
    from neuro_cli.report.sweep import report as table

    parser = Parser("neuro report", description=HELP["report"])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders of runs and sweeps")
    table(parser.parse_args(arguments).folders)
    return 0


def doctor_verb(arguments: list[str]) -> int:
    from neuro_cli.runner.doctor import doctor

    parser = argparse.ArgumentParser("neuro doctor", description=HELP["doctor"], exit_on_error=False)
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise UserError(f"{' '.join(unknown)}: neuro doctor takes no arguments")
    return doctor()
