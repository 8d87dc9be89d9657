"""Registry of verbs: a line of help for each, and its module, which is imported only when the verb is called."""

import importlib
from collections.abc import Callable

from neuro_cli.core.machine.garbage import no_search

HELP = {
    "train": "Train a network. Options by Hydra: neuro train --help",
    "bench": "Measure: neuro bench layer",
    "scale": "Measure weak and strong scaling over networks, and project beyond this machine.",
    "evolve": "Train one model by an elastic cluster of peers, started or joined; neuro evolve export RUN",
    "reproduce": "Reproduce tables and figures of the papers; without arguments: a list of them.",
    "search": "Evolve the module of a convolutional network; candidates are trained side by side.",
    "resume": "Resume a run from its last checkpoint, on any number of ranks, or a sweep: what is finished stays.",
    "evaluate": "Score a run's trained network on the test set.",
    "export": "Write a run's trained network as safetensors, .pt or ONNX: neuro export RUN file=net.onnx",
    "predict": "Name the classes of images by a run's trained network: neuro predict RUN IMAGE ...",
    "report": "Summarise runs, sweeps, searches and studies as a table, sweep.csv and one page, report.html.",
    "doctor": "Check this machine's setup: what is there, what is missing and the command that fixes it.",
    "completion": "Print the script by which a shell completes commands: neuro completion bash|zsh|fish",
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
    "export": "export",
    "predict": "export",
    "report": "report",
    "doctor": "doctor",
    "completion": "completion",
    # internal: what other commands start
    "start": "train",
    "peer": "evolve",
}


def verb(name: str) -> Callable[[list[str]], int]:
    """Function ``NAME_verb``, from arguments to exit code. Raises KeyError for an unknown name."""
    with no_search():
        module = importlib.import_module(f"neuro_cli.cli.{MODULES[name]}")
    found: Callable[[list[str]], int] = getattr(module, f"{name}_verb")
    return found


def listed() -> dict[str, str]:
    """Verbs for users, in the order of the help, with one line for each."""
    return {name: line for name, line in HELP.items() if " " not in name}
