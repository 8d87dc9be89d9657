"""Generations of random modules: fitnesses against a plain loop, and the same bits on any ranks, threads and after a resume."""

import copy
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from random_programs.members import FORMS, MEMBERS, SAMPLERS, SIGMA, algo_of, scores_seen
from random_programs.parts import FITNESSES
from random_programs.reference import INVALID, Batch, Case, alone, cast, compared, fitness
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.module.copies import copied
from neuro_cli.sampler import dense
from neuro_cli.scoring import batched
from neuro_cli.scoring.jobs import write_members

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.thread_ranks import on_ranks

SOME = (0, 1, 4, 7)  # members that are compared
Fitness = Callable[[nn.Module, Tensor, Tensor], Tensor]


@contextmanager
def places(case: Case) -> Iterator[str]:
    """Return a context in which compiled loops may serve small populations, and tensors may be followed in no pass."""
    before = dense.ENOUGH, batched.WATCHED
    dense.ENOUGH, batched.WATCHED = case.r.choice([0, 0, 2**20]), case.r.choice([1, 1000])
    try:
        yield f"enough {dense.ENOUGH}, watched {batched.WATCHED}"
    finally:
        dense.ENOUGH, batched.WATCHED = before


def sampler_of(case: Case) -> Any:
    """Return a random sampler with random arguments."""
    r, kinds = case.r, neuro.sampler
    antithetic = r.random() < 0.6
    made: list[Callable[[], Any]] = [
        lambda: kinds.LowRank(rank=r.choice([1, 2, 3, 5]), antithetic=antithetic),
        lambda: kinds.SignFlip(
            sides=r.choice(["both", "outputs", "inputs"]), directions_per_noise=r.choice([None, 1, 2]), antithetic=antithetic
        ),
        lambda: kinds.Permutation(
            sides=r.choice(["auto", "both", "outputs", "inputs"]), sparsity=r.choice([1.0, 0.5, 0.1]),
            directions_per_noise=r.choice([None, 2]), antithetic=antithetic,
        ),
        lambda: kinds.NoiseTable(size=2**18, antithetic=antithetic),
        lambda: kinds.Iid(antithetic=antithetic),
        lambda: kinds.Iid(antithetic=antithetic),
    ]  # fmt: skip
    return r.choice(made)()


def any_algo(case: Case, module: nn.Module, antithetic: bool) -> Any:
    return "pgpe" if antithetic and case.r.random() < 0.1 else algo_of(case, module, antithetic)


def held(case: Case, es: neuro.Evolution, loss: Fitness, batches: list[Batch], said: dict[str, Any]) -> str:
    """Run a generation on each batch and compare the members' fitnesses with those of a plain loop."""
    scores, asked, members = scores_seen(es), es._algo.ask, torch.empty(0)
    native, sides = es._numbers.precision, 2 if es._sampler.antithetic else 1

    def ask(generation: int) -> Any:
        nonlocal members
        proposal = asked(generation)
        members = torch.empty(MEMBERS, proposal.bases.shape[1])
        write_members(es._sampler, proposal, generation, range(MEMBERS), members)  # type: ignore[arg-type]
        return proposal

    es._algo.ask = ask  # type: ignore[method-assign]
    for generation, (inputs, targets) in enumerate(batches):
        before = copied(getattr(es.module, "_orig_mod", es.module))
        try:
            es.step(loss, inputs, targets)
        except neuro.UserError as error:
            return f"refused: {error}"
        layout, share = ParameterLayout(before, es._task.memory_format is torch.channels_last), len(inputs) * sides // MEMBERS

        def loop(dtype: torch.dtype) -> np.ndarray:
            values = []
            for which in SOME:
                low = which // sides * share  # noqa: B023
                rows = slice(low, low + share) if es._numbers.per_example else slice(None)  # noqa: B023

                def run(member: nn.Module, dtype: torch.dtype, rows: slice = rows) -> Tensor:
                    return loss(member, cast(inputs[rows], dtype), targets[rows]).double().mean()  # noqa: B023

                values.append(float(alone(before, layout, members[which], run, dtype)))  # noqa: B023
            return np.array(values)

        mine, single = scores[-1][list(SOME)], loop(native)
        result = compared(mine, single, single)
        if result != "right":
            result = compared(mine, single, loop(torch.float64))
        if result != "right":
            return f"{result}, {said}, {case.first}, generation {generation}" if result != "ill" else "ill"
    return "right"


def repeated(rows: Tensor) -> Tensor:
    """Return as many rows for each direction of noise."""
    return torch.cat([rows + 0.1 * one if rows.is_floating_point() else rows for one in range(MEMBERS)])


def made(case: Case, loss: Fitness, layout: str) -> tuple[nn.Module, nn.Module, list[Batch], str] | None:
    """Return the module in a random form, itself without torch.compile, batches of its type, and the form; None if invalid."""
    case.make(case.r.choice(["zero", "equal", "unequal", "unequal"]))
    if case.module is None:
        return None
    form = case.r.choice(["plain", "plain", *FORMS])
    module = FORMS[form](case, case.module)
    native, plain = next(module.parameters()).dtype, getattr(module, "_orig_mod", module)
    batches = [(cast(inputs, native), targets) for inputs, targets in case.batches]
    if layout == "per_example":
        batches = [(repeated(inputs), repeated(targets)) for inputs, targets in batches]
    try:
        with torch.no_grad():
            loss(copied(plain), *batches[1])
    except INVALID:
        return None
    return module, plain, batches, form


def settings(case: Case) -> str:
    """Every algorithm, sampler's arguments and layout; forms of the module; fitnesses that look at several examples."""
    loss = case.r.choice([fitness, fitness, *FITNESSES])
    with places(case) as said:
        layout = case.r.choice(["shared_batch", "shared_batch", "per_example"])
        got = made(case, loss, layout)
        if got is None:
            return "invalid"
        module, plain, batches, form = got
        options: dict[str, Any] = {"threads": case.r.choice([1, 2]), "layout": layout}
        if form == "plain" and case.r.random() < 0.2:
            options["precision"] = "bfloat16"
            try:
                with torch.no_grad():
                    loss(copied(plain).bfloat16(), cast(batches[1][0], torch.bfloat16), batches[1][1])
            except INVALID:  # the module itself has no bfloat16
                return "invalid"
        told = {"places": said, "form": form, "loss": loss.__name__, **options}
        try:
            sampler = sampler_of(case)
            algo = any_algo(case, plain, sampler.antithetic)
            told |= {"sampler": vars(sampler).copy(), "algo": algo if isinstance(algo, str) else type(algo).__name__}
            own = {"sigma": SIGMA} if isinstance(algo, str) else {}
            es = neuro.Evolution(module, algo=algo, sampler=sampler, population=MEMBERS, seed=case.seed, **options, **own)
        except neuro.UserError as error:
            return f"refused: {error}"
        return held(case, es, loss, batches, told)


def ranks(case: Case) -> str:
    """The same bits on one, two and three ranks, on other threads, and after a state of two generations went to another run."""
    with places(case) as said:
        loss = case.r.choice([fitness, fitness, *FITNESSES])
        layout, shared = case.r.choice(["shared_batch", "per_example"]), case.r.random() < 0.5
        got = made(case, loss, layout)
        if got is None:
            return "invalid"
        module, plain, batches, form = got
        sampler = case.r.choice(SAMPLERS)
        algo = any_algo(case, plain, sampler != "iid")
        closure = layout == "shared_batch" and case.r.random() < 0.3
        method = case.r.choice(["auto", "replicated", "chromosome_updates"])
        told = {"places": said, "form": form, "loss": loss.__name__, "sampler": sampler, "layout": layout, "closure": closure}
        told |= {"algo": algo if isinstance(algo, str) else type(algo).__name__, "shared_pass": shared, "distribution": method}
        own = {"sigma": SIGMA} if isinstance(algo, str) else {}

        def run(world: Any, threads: int, generations: range, state: bytes | None = None) -> tuple[bytes, bytes]:
            es = neuro.Evolution(
                copied(module), algo=copy.deepcopy(algo), sampler=sampler, population=MEMBERS, seed=case.seed,
                threads=threads, layout=layout, shared_pass=shared, distribution=method, world=world, **own,
            )  # fmt: skip
            if state is not None:
                es.load_state_dict(torch.load(io.BytesIO(state), weights_only=True))
            for generation in generations:
                inputs, targets = batches[generation]
                given = (inputs, targets)
                if closure:
                    es.step(lambda member: loss(member, *given).double().mean())  # noqa: B023
                else:
                    es.step(loss, inputs, targets)
            saved = io.BytesIO()
            torch.save(es.state_dict(), saved)
            centre = es.centre.numpy().tobytes()
            es.close()
            return centre, saved.getvalue()

        try:
            centre, _ = run(None, 1, range(4))
            _, state = run(None, 2, range(2))
            later = run(None, 1, range(2, 4), state)
            several = [on_ranks(size, lambda world: run(world, case.r.choice([1, 2]), range(4))) for size in (2, 3)]
            resumed = on_ranks(2, lambda world: run(world, 1, range(2, 4), state))
        except neuro.UserError as error:
            return f"refused: {error}"
        kinds = {"resumed": [later], "2 ranks": several[0], "3 ranks": several[1], "resumed on 2": resumed}
        off = [kind for kind, all_of in kinds.items() if any(one[0] != centre for one in all_of)]
        return f"wrong: other bits {off}, {told}, {case.first}" if off else "right"
