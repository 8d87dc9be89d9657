"""Measure algorithms on COCO's bbob functions: ours beside pycma, evosax and EvoTorch.

    pip install coco-experiment==2.8.2                      # in the environment of each package
    python scripts/coco_bench.py run neuro:cma_es out.csv   # or pycma:full, evosax:SNES, evotorch:XNES
    python scripts/coco_bench.py table out.csv other.csv    # ERT by function, pairs as `pairs` says
    python scripts/coco_bench.py plot curves.svg out.csv other.csv

Every solver starts at the same points (uniform in [-4, 4]) with step size 2 and population 4 + 3 ln D, made even; what does not
adapt its step size has 0.5, and optimizers of torch and of optax the same rate. All compute in float64. A row of the file is one
run: evaluations at which each target was reached. Solvers that restart are named so (`+`).

`run ... --seed 2` adds runs with other first points and random numbers. `table` pools the seeds of a solver, `table --apart`
compares each two seeds. `luck` tells what a table would say of a solver and itself, by two lots drawn from its own runs.
"""

import argparse
import contextlib
import csv
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

TARGETS = [10.0**e for e in (1, 0, -1, -2, -3, -5, -8)]
SIGMA, INNER = 2.0, 4.0
LIMITS = ("tolfun", "tolfunhist", "tolx", "tolfacupx", "condition", "tolxstagnation", "flat")
STILL, RATE, SPEED = 0.5, 0.1, 0.15  # step size that stays, rate of Adam, and of ClipUp
PAIRS = [
    ("neuro:cma_es+", "pycma:full+"), ("neuro:sep_cma_es+", "pycma:diagonal+"),
    ("neuro:cma_es", "evosax:CMA_ES"), ("neuro:sep_cma_es", "evosax:Sep_CMA_ES"), ("neuro:snes", "evosax:SNES"),
    ("neuro:xnes", "evosax:xNES"), ("neuro:cr_fm_nes", "evosax:CR_FM_NES"), ("neuro:openai_es", "evosax:Open_ES"),
    ("neuro:pgpe", "evosax:PGPE"), ("neuro:ars", "evosax:ARS"), ("neuro:genetic", "evosax:SimpleGA"),
    ("neuro:cma_es", "evotorch:CMAES"), ("neuro:snes", "evotorch:SNES"), ("neuro:xnes", "evotorch:XNES"),
    ("neuro:pgpe", "evotorch:PGPE"),
]  # fmt: skip


class EndedError(Exception):
    """Budget spent or last target reached."""


class Counted:
    """Function of a problem that counts, notes when targets are reached, and raises EndedError."""

    def __init__(self, problem: Any, budget: int) -> None:
        self.problem, self.budget, self.optimum = problem, budget, _optimum(problem)
        self.evaluations, self.best, self.reached = 0, math.inf, list[int]()

    def __call__(self, point: np.ndarray) -> float:
        if self.evaluations >= self.budget:
            raise EndedError
        value = float(self.problem(np.asarray(point, np.float64)))
        self.evaluations += 1
        self.best = min(self.best, value - self.optimum)
        while len(self.reached) < len(TARGETS) and self.best <= TARGETS[len(self.reached)]:
            self.reached.append(self.evaluations)
        if len(self.reached) == len(TARGETS):
            raise EndedError
        return value


def _optimum(problem: Any) -> float:
    """Return the best value, of two decimals: COCO writes the place where it is into a file and tells it in no other way."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        return round(float(problem(np.loadtxt("._bbob_problem_best_parameter.txt"))), 2)


def population_of(size: int) -> int:
    population = 4 + int(3 * math.log(size))
    return population + population % 2


def neuro(name: str) -> Callable[..., None]:
    from torch.optim import Adam

    import neuro_cli

    algo, restarts = name.removesuffix("+"), "ipop" if name.endswith("+") else "none"
    rules = neuro_cli.Stopping()
    if restarts == "none":  # no rule ends a run, as in evosax and EvoTorch
        rules = neuro_cli.Stopping(generations=10**9, stagnation=0, noeffect=False, **dict.fromkeys(LIMITS))

    def solve(function: Counted, point: Callable[[np.random.Generator], np.ndarray], size: int, seed: int) -> None:
        population = population_of(size)
        algos, adam = neuro_cli.algo, partial(Adam, lr=RATE)
        chosen: Any = {
            "genetic": lambda: algos.Genetic(STILL, population // 2),
            "openai_es": lambda: algos.OpenAIES(STILL, adam),
            "ars": lambda: algos.ARS(STILL, max(1, population // 4), adam),
            "pgpe": lambda: algos.PGPE(SIGMA, optimizer=partial(algos.ClipUp, lr=SPEED)),
        }.get(algo, lambda: algo)()
        neuro_cli.AskTell(
            point, algo=chosen, sigma=SIGMA if chosen is algo else None, population=population, seed=seed, minimise=True,
            stopping=rules, restarts=restarts, most_restarts=30,
        ).run(function)  # fmt: skip

    return solve


def pycma(name: str) -> Callable[..., None]:
    import cma

    def solve(function: Counted, point: Callable[[np.random.Generator], np.ndarray], size: int, seed: int) -> None:
        rng, population = np.random.default_rng(seed), population_of(size)
        for run in range(30 if name.endswith("+") else 1):
            options = {"popsize": population * 2**run, "verbose": -9, "seed": seed + 1000 * run + 1}
            es = cma.CMAEvolutionStrategy(point(rng), SIGMA, {**options, "CMA_diagonal": name.startswith("diagonal")})
            while not es.stop():
                points = es.ask()
                es.tell(points, [function(x) for x in points])

    return solve


def evosax(name: str) -> Callable[..., None]:
    import jax
    import jax.numpy as jnp
    import optax
    from evosax import algorithms
    from evosax.core.optimizer import clipup

    jax.config.update("jax_enable_x64", True)
    made: dict[int, Any] = {}
    more = {
        "PGPE": {"optimizer": clipup(learning_rate=SPEED, max_velocity=2 * SPEED)},
        "SimpleGA": {"std_schedule": optax.constant_schedule(STILL)},
    }
    adam = {"optimizer": optax.adam(RATE), "std_schedule": optax.constant_schedule(STILL)}
    chosen: dict[str, Any] = more.get(name, adam if name in ("Open_ES", "ARS") else {})

    def solve(function: Counted, point: Callable[[np.random.Generator], np.ndarray], size: int, seed: int) -> None:
        if size not in made:
            algo = getattr(algorithms, name)(population_size=population_of(size), solution=jnp.zeros(size), **chosen)
            made[size] = algo, jax.jit(algo.ask), jax.jit(algo.tell)
        algo, ask, tell = made[size]
        params = algo.default_params
        params = params.replace(std_init=SIGMA) if hasattr(params, "std_init") else params
        start = jnp.asarray(point(np.random.default_rng(seed)))
        key = jax.random.key(seed)
        if hasattr(algo, "init_population") or "opulation" in type(algo).__mro__[1].__name__:
            members = start + SIGMA * jax.random.normal(key, (population_of(size), size))
            state = algo.init(key, members, jnp.asarray([function(x) for x in np.asarray(members)]), params)
        else:
            state = algo.init(key, start, params)
        while True:
            key, one, two = jax.random.split(key, 3)
            points, state = ask(one, state, params)
            state, _ = tell(two, points, jnp.asarray([function(x) for x in np.asarray(points)]), state, params)

    return solve


def evotorch(name: str) -> Callable[..., None]:
    import logging

    import torch
    from evotorch import Problem, algorithms

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)

    def solve(function: Counted, point: Callable[[np.random.Generator], np.ndarray], size: int, seed: int) -> None:
        def each(points: Any) -> torch.Tensor:
            # torch.tensor makes float32 of a float: 1e-8 would be lost next to the best value
            return torch.tensor([function(x) for x in points.as_subclass(torch.Tensor).numpy()], dtype=torch.float64)

        problem = Problem("min", each, solution_length=size, dtype=torch.float64, initial_bounds=(-INNER, INNER), seed=seed,
                          vectorized=True)  # fmt: skip
        start = torch.from_numpy(point(np.random.default_rng(seed)))
        more = {"center_learning_rate": SPEED, "stdev_learning_rate": 0.1} if name == "PGPE" else {}
        searcher = getattr(algorithms, name)(problem, stdev_init=SIGMA, popsize=population_of(size), center_init=start, **more)
        while True:
            searcher.step()

    return solve


SOLVERS = {"neuro": neuro, "pycma": pycma, "evosax": evosax, "evotorch": evotorch}


def run(options: argparse.Namespace) -> None:
    """Run a solver on all functions, and append a row for each run to the file; runs in the file are left out."""
    import cocoex

    package, name = options.solver.split(":")
    solve = SOLVERS[package](name)
    where = f"instance_indices: {options.instances} dimensions: {options.dimensions} function_indices: {options.functions}"
    path, lot = Path(options.file), options.seed
    done = {tuple(row[:5]) for row in csv.reader(path.open())} if path.exists() else set()
    for problem in cocoex.Suite("bbob", "", where):
        function, size, instance = problem.id_function, problem.dimension, problem.id_instance
        if (options.solver, str(function), str(size), str(instance), str(lot)) in done:
            continue
        counted, seed = Counted(problem, options.budget * size), 100_000 * lot + 1000 * function + instance
        first = np.random.default_rng([function, size, instance, lot]).uniform(-INNER, INNER, size)

        def point(
            rng: np.random.Generator, counted: Counted = counted, first: np.ndarray = first, size: int = size
        ) -> np.ndarray:
            # the same for every solver, however often it asks before its first evaluation
            return rng.uniform(-INNER, INNER, size) if counted.evaluations else first

        try:
            solve(counted, point, size, seed)
        except (EndedError, FloatingPointError, OverflowError, ValueError, ArithmeticError) as error:
            if not isinstance(error, EndedError):
                print(options.solver, function, size, instance, type(error).__name__, error, file=sys.stderr)
        reached = [*counted.reached, *[""] * (len(TARGETS) - len(counted.reached))]
        with path.open("a") as file:
            own = options.solver, function, size, instance, lot, options.budget, counted.evaluations
            csv.writer(file).writerow([*own, *reached])


# by solver, function, dimension, then by seed and instance: budget, hits
Runs = dict[tuple[str, int, int], dict[tuple[int, int], tuple[int, list[float]]]]


def read(paths: list[str], apart: bool = False, most: int | None = None) -> Runs:
    """Return the runs of files; ``apart``: each seed of a solver is a solver of its own, named "SOLVER #SEED".

    ``most``: runs are cut after this many evaluations per dimension, None: at the end.
    """
    runs: Runs = defaultdict(dict)
    for path in paths:
        for solver, function, size, instance, seed, budget, spent, *hits in csv.reader(Path(path).read_text().splitlines()):
            unspent = max(int(spent), int(budget) * int(size))  # what ended early spends the rest in vain
            end = unspent if most is None else min(unspent, most * int(size))
            row = end, [float(hit) if hit and int(hit) <= end else math.inf for hit in hits]
            name, at = (f"{solver} #{seed}", 0) if apart else (solver, int(seed))
            runs[name, int(function), int(size)][at, int(instance)] = row
    return runs


def pairs_of(solvers: set[str], apart: bool) -> list[tuple[str, str]]:
    """Return the pairs of PAIRS that have runs; ``apart``: of each two seeds, and each solver's seeds with each other."""
    if not apart:
        return [pair for pair in PAIRS if set(pair) <= solvers]
    bare = {name.split(" ")[0] for name in solvers}
    wanted = [*PAIRS, *((one, one) for one in sorted(bare))]
    every = list(product(sorted(solvers), repeat=2))
    return [(a, b) for pair in wanted for a, b in every if a != b and (a.split(" ")[0], b.split(" ")[0]) == pair]


def ert(runs: list[tuple[int, list[float]]], target: int) -> float:
    """Expected running time: evaluations of all runs until the target, or all of them, over the number of successes."""
    hits = [hits[target] for _, hits in runs]
    spent = sum(min(hit, budget) for hit, (budget, _) in zip(hits, runs, strict=True))
    return spent / max(0.5, sum(math.isfinite(hit) for hit in hits))  # without a success: half a one


def ratio(
    runs: Runs, mine: str, other: str, function: int, rng: np.random.Generator | None = None, lot: int | None = None
) -> float:
    """Geometric mean of ERT ratios over dimensions and targets that one of both reaches, on their common instances.

    ``rng``: draw each one's instances with replacement, for a bootstrap, ``lot`` of them, None: as many as there are. NaN where
    nothing is common or reached.
    """
    logs = []
    for size in sorted({key[2] for key in runs}):
        both = [runs.get((solver, function, size), {}) for solver in (mine, other)]
        common = sorted(both[0].keys() & both[1].keys())
        every = np.arange(len(common))
        draws = [every if rng is None or not common else rng.choice(every, lot or len(common)) for _ in both]
        ours, theirs = ([one[common[place]] for place in drawn] for one, drawn in zip(both, draws, strict=True))
        for target in range(len(TARGETS)):
            if any(math.isfinite(hits[target]) for _, hits in ours + theirs):
                logs.append(math.log(ert(ours, target) / ert(theirs, target)))
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _surely_worse(runs: Runs, mine: str, other: str, function: int) -> bool:
    """Return whether 95 % of bootstraps are above 1.1."""
    rng = np.random.default_rng(function)
    drawn = [ratio(runs, mine, other, function, rng) for _ in range(100)]
    return sum(each > 1.1 for each in drawn) >= 95


def table(options: argparse.Namespace) -> None:
    """Print, for each pair, the ratio of ERT by function."""
    runs = read(options.files, options.apart, options.cut)
    solvers, sizes = {key[0] for key in runs}, sorted({key[2] for key in runs})
    print("| ours, other | dimensions | at most 1.1 | surely above | " + " | ".join(f"f{f}" for f in range(1, 25)) + " |")
    print("|---" * 28 + "|")
    for mine, other in pairs_of(solvers, options.apart):
        ratios = [ratio(runs, mine, other, function) for function in range(1, 25)]
        sure = sum(_surely_worse(runs, mine, other, function) for function in range(1, 25))
        cells = " | ".join("" if math.isnan(r) else f"{r:.2f}" for r in ratios)
        where = ", ".join(str(size) for size in sizes if all((one, 24, size) in runs for one in (mine, other)))
        print(f"| {mine}, {other} | {where} | {sum(r <= 1.1 for r in ratios)} | {sure} | {cells} |")
    print("\n| solver | " + " | ".join(f"{size}-D" for size in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    for solver in sorted(solvers):
        shares = [_share(runs, solver, size) if (solver, 24, size) in runs else "" for size in sizes]
        print(f"| {solver} | " + " | ".join(shares) + " |")


def luck(options: argparse.Namespace) -> None:
    """Print how many functions have a ratio of at most 1.1 where a solver is compared with itself, by lots of its own runs."""
    runs, rng = read(options.files), np.random.default_rng(1)
    print("| solver | dimensions | runs a function and dimension, drawn from | at most 1.1 | 5 to 95 of 100 | at least 20 |")
    print("|---" * 6 + "|")
    for solver in sorted({key[0] for key in runs}):
        sizes = sorted({key[2] for key in runs if key[0] == solver})
        had = min(len(rows) for key, rows in runs.items() if key[0] == solver)
        counts = [
            sum(ratio(runs, solver, solver, function, rng, options.runs) <= 1.1 for function in range(1, 25))
            for _ in range(options.draws)
        ]
        low, high = np.percentile(counts, [5, 95])
        where, enough = ", ".join(map(str, sizes)), 100 * np.mean(np.array(counts) >= 20)
        print(
            f"| {solver} | {where} | {options.runs}, {had} | {np.mean(counts):.1f} | {low:.0f} to {high:.0f} | {enough:.0f} % |"
        )


def _share(runs: Runs, solver: str, size: int) -> str:
    """Share of (run, target) pairs that were reached, in percent."""
    hits = [
        math.isfinite(h)
        for key, rows in runs.items()
        if (key[0], key[2]) == (solver, size)
        for _, row in rows.values()
        for h in row
    ]
    return f"{100 * sum(hits) / len(hits):.0f}" if hits else ""


def plot(options: argparse.Namespace) -> None:
    """Draw ECDFs: share of (function, instance, target) reached over evaluations / D, a panel for each dimension."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    runs = read(options.files)
    sizes = sorted({key[2] for key in runs})
    figure, panels = plt.subplots(1, len(sizes), figsize=(3.6 * len(sizes), 4.2), sharey=True, squeeze=False)
    for size, panel in zip(sizes, panels[0], strict=True):
        for number, solver in enumerate(sorted({key[0] for key in runs})):
            hits = [
                h / size
                for key, rows in runs.items()
                if (key[0], key[2]) == (solver, size)
                for _, row in rows.values()
                for h in row
            ]
            if hits:
                at = np.sort(hits)
                style = {"neuro": "-", "pycma": "--", "evosax": ":", "evotorch": "-."}[solver.split(":")[0]]
                panel.step(at, np.arange(1, len(at) + 1) / len(at), style, where="post", color=f"C{number % 10}", label=solver)
        panel.set(xscale="log", xlabel="evaluations / D", title=f"{size}-D", xlim=(1, None), ylim=(0, 1))
    panels[0][0].set_ylabel("share of targets reached")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="lower center", ncol=5, fontsize=7, frameon=False)
    figure.tight_layout(rect=(0, 0.2, 1, 1))
    figure.savefig(options.picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("run")
    one.add_argument("solver")
    one.add_argument("file")
    one.add_argument("--functions", default="1-24")
    one.add_argument("--dimensions", default="2,5,10,20")
    one.add_argument("--instances", default="1-3")
    one.add_argument("--seed", type=int, default=0, help="first points and random numbers")
    one.add_argument("--budget", type=int, default=1000, help="evaluations per dimension")
    one.set_defaults(call=run)
    two = verbs.add_parser("table")
    two.add_argument("files", nargs="+")
    two.add_argument("--apart", action="store_true", help="each two seeds of a solver and of its pair")
    two.add_argument("--cut", type=int, default=None, help="evaluations per dimension after which runs are cut")
    two.set_defaults(call=table)
    four = verbs.add_parser("luck")
    four.add_argument("files", nargs="+")
    four.add_argument("--runs", type=int, default=15, help="of a function and dimension in a lot")
    four.add_argument("--draws", type=int, default=200)
    four.set_defaults(call=luck)
    three = verbs.add_parser("plot")
    three.add_argument("picture")
    three.add_argument("files", nargs="+")
    three.set_defaults(call=plot)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
