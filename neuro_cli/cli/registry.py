"""Registry of verbs: a line of help for each, and its module, which a call of the verb imports."""

import importlib
from collections.abc import Callable

from neuro_cli.core.errors import UserError
from neuro_cli.core.messages.did_you_mean import nearest

HELP = {
    "train": "Train a network. neuro train --help lists options and keys.",
    "bench": "Measure speed, memory or accuracy: neuro bench KIND. neuro bench --help lists the kinds.",
    "scale": "Measure weak and strong scaling over ranks, and project it to more ranks and other networks.",
    "evolve": "Train one model by a cluster of peers that may join and leave. neuro evolve export RUN writes the model.",
    "apply": "Compute a tuned model again from its base and a ledger: neuro apply LEDGER MODEL",
    "reproduce": "Reproduce tables and figures of the papers. Without arguments: list them.",
    "search": "Search the architecture of a convolutional network by evolution, with candidates trained in parallel.",
    "resume": "Resume a run from its last checkpoint, on any number of ranks, or the unfinished jobs of a sweep.",
    "evaluate": "Score a run's trained network on the test set.",
    "export": "Write a run's trained network as safetensors, .pt or ONNX: neuro export RUN file=net.onnx",
    "predict": "Classify images and rows with a run's trained network: neuro predict RUN FILE ...",
    "report": "Summarise runs, sweeps, searches and studies in a table, sweep.csv and one page, report.html.",
    "doctor": "Check the installation on this machine, and print a command for each missing part.",
    "completion": "Print a completion script for your shell: neuro completion bash|zsh|fish",
    "evolve export": "Write the model of a peer, or its ledger for neuro apply, even while the peer runs.",
}
# verbs in the module of another one; the last two are internal, and other commands start them
SHARED = {"apply": "evolve", "predict": "export", "start": "train", "peer": "evolve"}


def verb(name: str) -> Callable[[list[str]], int]:
    """Return the function ``NAME_verb``, from arguments to exit code. Raises UserError for an unknown name."""
    if name not in (*listed(), *SHARED):
        raise UserError(f"{name}: no such verb; {nearest(name, listed())}")
    module = importlib.import_module(f"neuro_cli.cli.verbs.{SHARED.get(name, name)}")
    return getattr(module, f"{name}_verb")


def listed() -> dict[str, str]:
    """Return the verbs for users, in the order of the help, with one line for each."""
    return {name: line for name, line in HELP.items() if " " not in name}
