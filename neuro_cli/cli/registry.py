"""The verbs: what each is for, and the module that has it, which is imported when it is called and not before."""

import importlib
from collections.abc import Callable

HELP = {
    "train": "Train a network. Options by Hydra: neuro train --help",
    "bench": "Measure: neuro bench generation",
    "scale": "Measure weak and strong scaling over networks, and project beyond this machine.",
    "evolve": "Be a peer of a cluster that trains one model by passing seeds; neuro evolve export RUN",
    "reproduce": "The papers' tables and figures beside ours; without arguments: which there are.",
    "search": "Evolve the module of a convolutional network; candidates are trained side by side.",
    "resume": "Go on with a run from its last checkpoint, on any number of ranks.",
    "evaluate": "Score a run's trained network on the test set.",
    "report": "A table over runs, sweeps, searches and studies, sweep.csv, and all of it as one page, report.html.",
    "doctor": "Say what this machine has, what is missing and the command that fixes it.",
    "evolve export": "Write the model of a peer as safetensors, also while the peer works.",
}
MODULES = {
    "train": "train",
    "bench": "bench",
    "scale": "scale",
    "evolve": "evolve",
    "reproduce": "reproduce",
    "search": "search",
    "resume": "resume",
    "evaluate": "evaluate",
    "report": "report",
    "doctor": "doctor",
    # internal: what other commands start
    "start": "train",
    "peer": "evolve",
}


def verb(name: str) -> Callable[[list[str]], int]:
    """The function ``NAME_verb``: arguments to exit code. Raises KeyError for a name that is none."""
    module = importlib.import_module(f"neuro_cli.cli.{MODULES[name]}")
    found: Callable[[list[str]], int] = getattr(module, f"{name}_verb")
    return found


def listed() -> dict[str, str]:
    """The verbs of users, in the order of the help, with a line for each."""
    return {name: line for name, line in HELP.items() if " " not in name}
