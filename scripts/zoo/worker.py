"""A process of ``scripts/module_zoo.py``: a line of JSON in, the name of a zoo or a family to try, a line of JSON out."""

import json
import os
import resource
import sys
import time
import warnings
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

MEMORY = 12 * 2**30  # bytes of address space


def facts() -> dict[str, str]:
    """The processor, the date, and the version of torch."""
    from neuro_cli.core.machine.processor import cores, processor

    return {"machine": f"{processor()}, {cores()}", "torch": version("torch")}


def answer(subjects: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Families of a zoo, or the outcomes of one of them."""
    import checks
    from subjects import zoos

    if asked["zoo"] not in subjects:
        subjects[asked["zoo"]] = {subject.family: subject for subject in zoos()[asked["zoo"]]()}
    of_zoo = subjects[asked["zoo"]]
    if "family" not in asked:
        return {
            "families": list(of_zoo),
            "names": [subject.names for subject in of_zoo.values()],
            # versions of packages are in the names of their networks
            "version": "" if asked["zoo"] in ("packages", "pretrained") else version(asked["zoo"]),
            **facts(),
        }
    subject, begun = of_zoo[asked["family"]], time.perf_counter()
    row = {"names": subject.names, "model": subject.model, "shrunk": subject.shrunk}
    row["input"] = "x".join(map(str, subject.inputs(1).shape[1:]))
    try:
        row["model"] = subject.model or type(checks.made(subject)).__name__
        row["parameters"] = checks.fits(subject, asked["examples"])
        outcomes = checks.outcomes(subject, asked["sampler"], asked["members"], asked["examples"])
    except Exception as error:  # the network itself, or what is wrong here
        outcomes = dict.fromkeys(checks.KINDS, checks.Outcome("not run", None, checks.brief(error)))
    return row | {kind: asdict(outcome) for kind, outcome in outcomes.items()} | {"seconds": time.perf_counter() - begun}


def main() -> None:
    # what a network prints must not come among the answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    subjects: dict[str, Any] = {}
    for line in sys.stdin:
        print(json.dumps(answer(subjects, json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
