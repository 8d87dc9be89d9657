#!/usr/bin/env python3
"""Cost of members of a pretrained language model: time over plain inference, in pairs of one process, and memory of a run.

A pair is plain inference of n rows, then one pass in which each row is another member; processor seconds of one thread. A pair of
score is a generation of experiment=smollm_additions scored one by one, then in shared passes; one of blocks is plain inference by
floats, then by the blocks of a GGUF file. Memory is the largest proportional set size of all processes of a run, read each 50 ms,
and the same of plain inference.

Usage: bench_language.py MODEL forward|generate|score|blocks|memory [--dtype bfloat16] [--trainable all] [--quantised]
    [--members 16 64] [--pairs 5]
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.model.huggingface import DTYPES, HuggingFace
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.perturbed import PerturbedForward

SIGMA, TOKENS, PROMPT = 1e-3, 32, "12 + 35 = 47\n23 + 44 = 67\n51 + 18 ="


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def speed(args: argparse.Namespace) -> None:
    """Print the ratios of members' passes, or of generation, to plain ones."""
    torch.set_num_threads(1)
    model = HuggingFace(args.model, trainable=args.trainable, dtype=args.dtype, quantised=args.quantised)
    layout, dtype = ParameterLayout(model), DTYPES[args.dtype]
    centre = layout.flatten(model)
    candidate = Candidate(model, layout, dtype, torch.device("cpu"))
    candidate.flat.copy_(centre)
    module: Any = candidate.ready()
    for each in (model, module):
        each.pretrained.generation_config.eos_token_id = None  # all rows have as many tokens
    for members in args.members:
        pairs = pairs_of(args, module, layout, members)
        ratios = sorted(b / a for a, b in pairs)
        print(
            f"{args.what} {args.trainable} {args.dtype} members={members}: plain {median(a for a, _ in pairs):.2f} s, "
            f"members {median(b for _, b in pairs):.2f} s, ratio {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
            flush=True,
        )


def pairs_of(args: argparse.Namespace, module: Any, layout: ParameterLayout, members: int) -> list[tuple[float, float]]:
    """Return pairs of seconds: of plain rows, and of as many members."""
    sampler, rows = LowRank(), MemberBatch([SIGMA, -SIGMA], members // 2, 1)
    sampler.bind(Noise(1, layout.size, torch.device("cpu"), Threads(1)), members, layout)
    tokens = torch.randint(1000, 30000, (members, TOKENS), generator=torch.Generator().manual_seed(1))
    prompts = module.tokenizer([PROMPT], return_tensors="pt")
    prompt, mask = with_mark([prompts[key].repeat(members, 1) for key in ("input_ids", "attention_mask")])  # as scorers do
    places = torch.full((members, 1), TOKENS - 1)

    @torch.no_grad()
    def plain() -> None:
        module(tokens, places) if args.what == "forward" else module.generate(prompt, mask, args.new)

    def many() -> None:
        noise = sampler.perturbation(0, 0, rows, DTYPES[args.dtype])
        with PerturbedForward(module, layout, noise):
            plain()

    plain(), many()
    return [(seconds(plain), seconds(many)) for _ in range(args.pairs)]


def blocks(args: argparse.Namespace) -> None:
    """Print ratios of plain passes by the blocks of a GGUF file to those by floats, and how far their logits differ."""
    torch.set_num_threads(1)
    models: list[Any] = [HuggingFace(args.model, dtype=args.dtype, quantised=quantised) for quantised in (False, True)]
    for model in models:
        model.pretrained.generation_config.eos_token_id = None
    prompts = models[0].tokenizer([PROMPT], return_tensors="pt")
    for rows in args.members:
        tokens = torch.randint(1000, 30000, (rows, TOKENS), generator=torch.Generator().manual_seed(1))
        prompt = [prompts[key].repeat(rows, 1) for key in ("input_ids", "attention_mask")]
        passes = {
            "forward": lambda model, tokens=tokens, rows=rows: model(tokens, torch.full((rows, 1), TOKENS - 1)),
            "generate": lambda model, prompt=prompt: model.generate(*prompt, args.new),
        }
        for what, work in passes.items():
            with torch.no_grad():
                floats, few = (work(model).float() for model in models)  # loads what is mapped, too
                pairs = [[seconds(lambda model=model: work(model)) for model in models] for _ in range(args.pairs)]  # noqa: B023
            ratios, times = sorted(b / a for a, b in pairs), [median(column) for column in zip(*pairs, strict=True)]
            print(
                f"blocks {what} {args.dtype} rows={rows}: floats {times[0]:.2f} s, blocks {times[1]:.2f} s, ratio "
                f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); largest difference "
                f"{(floats - few).abs().max():.1e} of {floats.abs().max():.1f}",
                flush=True,
            )


def score(args: argparse.Namespace) -> None:
    """Print members a processor second of both scorers, and the seconds of their starts."""
    from neuro_cli.algo.base import Proposal
    from neuro_cli.core.clock import Clock
    from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
    from neuro_cli.scoring.batched import BatchedScorer
    from neuro_cli.scoring.members import MemberScorer
    from neuro_cli.task.language.reward import Reward

    torch.set_num_threads(1)
    cpu, model = torch.device("cpu"), HuggingFace(args.model, trainable=args.trainable, dtype=args.dtype)
    layout = ParameterLayout(model)
    centre = layout.flatten(model)
    for members in args.members:
        sampler, task = LowRank(), Reward(tokenizer=args.model, shots=2, together=4)
        sampler.bind(Noise(1, layout.size, cpu, Threads(1)), members, layout)
        task.load(input_shape=None, device=cpu, seed=1, batch_size=members // 2)
        settings = ScoringSettings(
            module=model, layout=layout, task=task, device=cpu, precision=DTYPES[args.dtype], threads=Threads(1), clock=Clock(),
            batch_size=members // 2, sampler=sampler, per_example=True,
        )  # fmt: skip

        def generation(scorer: PopulationScorer, members: int = members) -> None:
            scorer.scores(Proposal.around(centre, 0.01), 0, range(members))

        started = []
        scorers = [MemberScorer(settings, centre)]
        started.append(seconds(lambda: scorers.append(BatchedScorer(settings, centre))))  # noqa: B023
        for scorer in scorers:
            generation(scorer)
        pairs = [[seconds(lambda scorer=scorer: generation(scorer)) for scorer in scorers] for _ in range(args.pairs)]
        ratios = sorted(one / many for one, many in pairs)
        single, shared = (members / median(column) for column in zip(*pairs, strict=True))
        print(
            f"score {args.trainable} {args.dtype} members={members}: {single:.1f} a second one by one, {shared:.1f} shared, "
            f"{median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f}); trial {started[0]:.1f} s",
            flush=True,
        )


def memory(args: argparse.Namespace) -> None:
    """Print the most memory of plain inference, of a run of one rank, and of one of two by MPI or as forks."""
    run = [
        sys.executable, "-m", "neuro_cli", "train", "+experiment=smollm_additions", f"model.path={args.model}",
        f"model.trainable={args.trainable}", f"precision={args.dtype}", "population=16", "batch_size=8", "generations=2",
        "evaluate.every=100", "task.test_size=16", "task.count=200", f"model.quantised={args.quantised}",
    ]  # fmt: skip
    inference = [sys.executable, __file__, args.model, "inference", "--dtype", args.dtype, *["--quantised"] * args.quantised]
    base = sum(most(inference))
    print(f"inference {base:.0f} MB", flush=True)
    for words in (["ranks=null"], ["ranks=2"], ["ranks=1", "fabric=gloo"], ["ranks=2", "fabric=gloo"]):
        each = most([*run, *words, "threads=1"])
        made, parts = sum(each), " + ".join(f"{one:.0f}" for one in each if one > 10)
        print(
            f"run with {' '.join(words)}, {args.trainable} {args.dtype}: {made:.0f} MB ({parts}), {made / base:.2f} of inference",
            flush=True,
        )


def inference(args: argparse.Namespace) -> None:
    """Answer rows as transformers alone does."""
    torch.set_num_threads(1)
    model = HuggingFace(args.model, dtype=args.dtype, quantised=args.quantised).pretrained.to(DTYPES[args.dtype])
    with torch.no_grad():
        for _ in range(5):
            model(input_ids=torch.randint(1000, 30000, (32, 32)), use_cache=False)


def most(command: list[str]) -> list[float]:
    """Return the proportional set sizes of ``command`` and its children, in megabytes, when their sum was largest."""
    process, largest = subprocess.Popen(command, stdout=subprocess.DEVNULL), [0.0]
    while process.poll() is None:
        largest = max(largest, [size(one) / 1024 for one in family(process.pid)], key=sum)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return largest


def family(parent: int) -> list[int]:
    """Return a process and all of its children."""
    found = [parent]
    for one in found:
        for thread in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, thread.read_text().split())
            except OSError:
                continue
    return found


def size(process: int) -> int:
    """Return the kilobytes of a process; a page that n processes share counts as an n-th."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("what", choices=["forward", "generate", "score", "blocks", "memory", "inference"])
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--trainable", default="norms")
    parser.add_argument("--quantised", action="store_true")
    parser.add_argument("--members", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--new", type=int, default=32)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    {"memory": memory, "inference": inference, "score": score, "blocks": blocks}.get(given.what, speed)(given)
