"""Run folders as neuro leaves them, made up in no time."""

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = (
    "generation", "fitness_mean", "fitness_best", "train_loss", "test_accuracy", "seconds", "seconds_sample", "seconds_forward",
    "seconds_communicate", "seconds_update", "bytes_sent", "bytes_received", "candidates_per_second",
)  # fmt: skip
BEGUN = "650 parameters, population 8, 1 ranks"


def row(generation: int, level: float, numbers: random.Random) -> list[Any]:
    fitness = -2.3 * math.exp(-generation / 300) + level + 0.1 * numbers.random()
    phases = [0.01, 0.2 + 0.05 * numbers.random(), 0.05 * numbers.random(), 0.03]
    looked = 1.0 + fitness / 2.4 if generation % 50 == 0 else ""
    total = sum(phases) + 0.01
    return [generation, fitness, fitness + 0.2, -fitness, looked, total, *phases, 1000 + numbers.randrange(9), 1000, 8 / total]


def config(run: Path, whole: Mapping[str, Any], **overrides: Any) -> None:
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "config.yaml").write_text(json.dumps(whole))
    (run / ".hydra" / "overrides.yaml").write_text(json.dumps([f"{key}={value}" for key, value in overrides.items()]))


def made_run(run: Path, generations: int, *said: str, whole: int = 10, finished: bool = True, **overrides: Any) -> Path:
    """A training run of ``overrides`` (``seed`` among them) that was asked for ``whole`` generations and has ``generations``."""
    options = {"seed": 1, "algo": "openai_es", "sigma": 0.1} | overrides
    config(run, {"generations": whole, "ranks": 2, **options}, **overrides)
    numbers = random.Random(str(overrides))
    rows = [row(generation, options["seed"] / 10, numbers) for generation in range(1, generations + 1)]
    lines = [",".join(map(str, cells)) + "\n" for cells in (COLUMNS, *rows)]
    (run / "metrics.csv").write_text("".join(lines))
    messages = [f"2026-01-02 03:04:05,678 INFO neuro_cli.run_folder.record: {message}\n" for message in (BEGUN, *said)]
    (run / "log.txt").write_text("".join(messages))
    (run / "checkpoints").mkdir()
    for name in (f"{generations:08d}.safetensors", f"{generations:08d}.member-0.ab.safetensors", "state.json"):
        (run / "checkpoints" / name).touch()
    if finished:
        summary = {"test_accuracy": 0.75, "generations": generations, "wall_seconds": 3.0, "candidates_per_second": 20.0}
        machine = {"ranks": 2, "device": "cpu", "threads": 1, "versions": {"torch": "2.15.0"}, "git_revision": "ab" * 20}
        (run / "summary.json").write_text(json.dumps(summary | machine))
    return run


SCALING = (
    "scaling,fabric,emulated,method,scale,ranks,source,seconds_middle,seconds_least,seconds_most,"
    "efficiency_middle,efficiency_least,efficiency_most,machine"
)


def made_study(run: Path) -> Path:
    """Of ``neuro scale``: two methods, measured on one and two ranks, projected for four."""
    config(run, {"known_methods": {}, "seed": 1})
    rows = [SCALING]
    for method in ("semi_updates", "chromosome_updates"):
        rows.append(f"weak,native,False,{method},4,1,measured,0.08,0.07,0.09,1.0,1.0,1.0,some cpu")
        rows.append(f"weak,native,False,{method},4,2,measured,0.1,0.09,0.12,0.8,0.7,0.9,some cpu")
        rows.append(f"weak,native,False,{method},4,4,projected,0.16,0.16,0.16,0.5,0.5,0.5,some cpu")
    (run / "scaling.csv").write_text("\n".join(rows) + "\n")
    (run / "weak.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path d="M0 0h8v8z"/></svg>')
    (run / "weak.png").write_bytes(b"the same in another format")
    (run / "linked.svg").symlink_to("/etc/passwd")
    return run


def made_search(run: Path) -> Path:
    """Of ``neuro search``: three candidates, one of which failed."""
    made_run(run, 2, whole=2)
    rows = ["candidate,generation,origin,module,layers,parameters,validation_accuracy,test_accuracy,seconds,worker,error"]
    rows += ["1,0,random,3x3,1,650,0.8,0.7,1.5,local-1,", "2,0,random,5x5,1,900,,,0.1,local-2,out of memory"]
    rows += ["3,1,crossover,3x3 5x5,2,950,0.9,0.85,2.5,local-1,"]
    (run / "candidates.csv").write_text("\n".join(rows) + "\n")
    return run
