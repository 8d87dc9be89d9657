"""Random modules in every use that this project makes of a module, against plain loops and autograd.

    python scripts/random_modules.py 0 200                          # 200 programs; the exit code is the number that differ
    python scripts/random_modules.py 0 200 --through gradient       # the same ones in another use
    python scripts/random_modules.py 0 200 --of wide                # others, of more kinds
    python scripts/random_modules.py 82 83 --print                  # one, with its source

``--through``: what a program's module is used in, with random options:

    step         a fitness of a batch in ``Evolution.step``, with a random sampler, layout and number of threads
    settings     the same with random algorithms, arguments of samplers, forms of the module, fitnesses of several examples
    closure      closures of ``Evolution`` with several calls, penalties, hooks, modes; with a shared pass or without
    perturbed    several calls in the context ``neuro.perturbed``, some inside of another module's
    gradient     the mean of many estimates of ``neuro.ForwardGradient``
    ranks        the same bits on one, two and three ranks, other threads, and after a state went to another run

``--of``: plain | wide, operations and outputs of more kinds | rare, what few packages do | chains, of linear layers, with
batches at the edges of their loops. The other batches are of 16 examples (in a third of the programs all zero, in another all
equal), of 16 three times as large, of 32 and of 8. A plain loop copies the module for each member, writes the member's
parameters and calls it. "ill": the loop's own rounding decides; "steps": the gradient is not that of a smooth loss; "invalid":
a program does not run by itself.
"""

import argparse
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable

import torch
from random_programs.chains import Chains
from random_programs.gradient import gradient
from random_programs.held import Held
from random_programs.members import closure, perturbed, step
from random_programs.program import Program
from random_programs.rare import Rare
from random_programs.reference import Case
from random_programs.runs import ranks, settings
from random_programs.wide import Wide

ALL = step, settings, closure, perturbed, gradient, ranks
KINDS: dict[str, type[Program]] = {"plain": Program, "wide": Wide, "rare": Rare, "chains": Chains, "held": Held}
USES: dict[str, Callable[[Case], str]] = {use.__name__: use for use in ALL}


def main() -> int:
    """Print the programs that are not right, and how many of each verdict. Returns the number that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("stop", type=int)
    parser.add_argument("--through", choices=USES, default="step")
    parser.add_argument("--of", choices=KINDS, default="plain")
    parser.add_argument("--print", action="store_true", help="with the sources")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("neuro_cli").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    found: Counter[str] = Counter()
    for seed in range(options.first, options.stop):
        case = Case(seed, KINDS[options.of])
        try:
            result = USES[options.through](case)
        except Exception as error:  # nothing but a UserError, which is a refusal
            result = f"wrong: {type(error).__name__}: {error}"
        found[result.partition(":")[0]] += 1
        if options.print or result.startswith("wrong"):
            print(seed, result, case.program.source(), sep="\n", flush=True)
    print(", ".join(f"{count} {name}" for name, count in sorted(found.items())))
    return min(found["wrong"], 125)


if __name__ == "__main__":
    sys.exit(main())
