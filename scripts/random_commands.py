"""Random commands of ``neuro train``: the same parameters on 1, 2 and 3 ranks, and after SIGKILL and ``neuro resume``.

    python scripts/random_commands.py 0 40              # 40 draws; the exit code is the number that fail
    python scripts/random_commands.py 17 18 --keep DIR  # one, with the folders of its runs

A draw is valid options of task, model, algorithm, sampler, distribution, layout, threads, optimizer, shaping, schedules and
checkpoints. A run on one rank is killed between two generations and resumed on another number of ranks. A line for each failure
has the draw's number and its command. "refused": on every number of ranks. Sums of ``data_parallel``, ``semi_updates`` and
rounded wires depend on the number of ranks, so these are left out.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.forked import Forked
from support.inside import Done, neuro_in_one_world
from support.tables import sha_of
from support.worlds import clean_environment

GENERATIONS = 5
RANKS = (1, 2, 3)
WAIT = 240.0  # seconds for a run that is to be killed
SCHEDULES = ("constant", "linear", "cosine", "exponential")
SHAPINGS = ("centred_rank", "nes_utilities", "z_score", "centred", "raw")
PAIRS = ("pair_z_score", "pair_rank", "pair_rank_cubed")
OPTIMIZERS = {
    "torch.optim.SGD": ("+algo.optimizer.momentum=0.9", "+algo.optimizer.nesterov=true +algo.optimizer.momentum=0.5", ""),
    "torch.optim.Adam": ("+algo.optimizer.amsgrad=true", "+algo.optimizer.betas=[0.5,0.9]", ""),
    "torch.optim.AdamW": ("+algo.optimizer.weight_decay=0.1", ""),
    "torch.optim.RMSprop": ("+algo.optimizer.centered=true", ""),
    "torch.optim.NAdam": ("",),
    "torch.optim.Adagrad": ("",),
    "torch.optim.Rprop": ("",),
    "neuro_cli.algo.clipup.ClipUp": ("",),
}


class Draw:
    """Options of a command from the random numbers of ``seed``."""

    def __init__(self, seed: int) -> None:
        self.r, self.seed = random.Random(seed), seed
        self.words = [f"seed={seed}", f"generations={GENERATIONS}", "checkpoint.every=1", f"threads={self.r.choice([1, 2])}"]
        self.antithetic, self.by_examples = True, True
        self.maybe(0.3, "checkpoint.keep=1")
        self.maybe(0.3, "checkpoint.best=true")
        self.add(f"evaluate.every={self.r.choice([1, 2, 3])}")
        self.maybe(0.2, "evaluate.start=true")
        task: Callable[[], None] = self.r.choice([self.digits, self.digits, self.digits, self.text, self.environment])
        task()
        self.sampled()
        self.algorithm()
        self.add(f"population={self.r.choice([8, 12, 20])}")
        self.distributed()

    def add(self, *words: str) -> None:
        self.words += [word for each in words for word in each.split()]

    def maybe(self, share: float, *words: str) -> None:
        if self.r.random() < share:
            self.add(*words)

    def digits(self) -> None:
        models = ["model=mlp_policy model.hidden=[9]", "model=module_cnn model.filters=3", "model=mlp_policy model.hidden=[8,8]"]
        models += [
            "model=module_cnn model.filters=2 model.batch_norm=true",
            "model=int8_mlp",
            "model=spiking",
            "model=ternary_cnn",
        ]
        self.add("task=digits", self.r.choice(models), f"batch_size={self.r.choice([40, 120])}")
        self.maybe(0.2, "task.fitness=accuracy")
        self.maybe(0.2, "task.shift=1")
        self.precision()

    def text(self) -> None:
        self.add("task=text", "model=char_gpt", "model.width=8 model.depth=1 model.heads=2 task.context=8")
        self.add(f"batch_size={self.r.choice([40, 120])}", "task.evaluation_batch=2000", "task.test_share=0.01")
        self.maybe(0.3, "task.fitness=accuracy")
        self.precision()

    def precision(self) -> None:
        self.maybe(0.15, "precision=bfloat16")
        self.maybe(0.15, "weights=bfloat16")
        self.maybe(0.25, "layout=per_example")

    def environment(self) -> None:
        self.by_examples = False
        name = self.r.choice(["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"])
        self.add("task=gymnasium", f"task.id={name}", "task.max_steps=40", "task.evaluation_episodes=4")
        self.add(self.r.choice(["model=small_policy", "model=mlp_policy model.hidden=[5]", "model=gru_policy model.hidden=4"]))
        self.maybe(0.3, "task.normalise=false")
        self.maybe(0.3, "task.common_episodes=true")
        self.maybe(0.3, "task.episodes=2")
        self.maybe(0.2, "task.frame_stack=2")
        self.maybe(0.2, "task.simulator=gymnasium")
        self.maybe(0.2, f"task.environments={self.r.choice([1, 3])}")

    def sampled(self) -> None:
        name = self.r.choice(["antithetic", "iid", "low_rank", "sign_flip", "permutation", "noise_table", "activation"])
        if name == "activation" and not self.by_examples:
            name = "antithetic"
        self.add(f"sampler={name}")
        if name == "low_rank":
            self.add(f"sampler.rank={self.r.choice([1, 3])}")
        if name in ("sign_flip", "permutation"):
            self.maybe(0.5, f"sampler.sides={self.r.choice(['both', 'outputs', 'inputs'])}")
            self.maybe(0.4, f"sampler.directions_per_noise={self.r.choice([1, 2])}")
        if name == "permutation":
            self.maybe(0.5, "sampler.sparsity=0.3")
        if name == "noise_table":
            self.add("sampler.size=300000")
        if name == "activation":
            self.add(f"sampler.draws={self.r.choice([2, 3])}", f"sampler.schedule={self.r.choice(['one', 'all', 'auto'])}")
            self.add(f"sampler.correction={self.r.choice(['always', 'auto', 'never'])}")
            self.maybe(0.3, "sampler.control_variates=false sampler.correction=auto")
            self.maybe(0.3, "sampler.space=outputs")
        self.antithetic = name not in ("iid",)
        if name not in ("antithetic", "iid") and self.r.random() < 0.25:
            self.antithetic = False
            self.add("sampler.antithetic=false")
        self.activation = name == "activation"

    def algorithm(self) -> None:
        names = ["openai_es"] * 4 + ["snes", "genetic", "sep_cma_es", "xnes", "cma_es", "random_vote"]
        names += ["pgpe", "ars", "cr_fm_nes", "openai_es_policy"] if self.antithetic else []
        name = "forward_gradient" if self.activation else self.r.choice(names)
        if name == "random_vote" and not self.by_examples:
            name = "snes"
        self.add(f"algo={name}")
        shaped = name in ("openai_es", "openai_es_policy", "snes", "pgpe", "forward_gradient")
        if shaped and not (name == "snes" and self.r.random() < 0.5):
            pairs = PAIRS if name.startswith("openai") else PAIRS[:2]
            self.maybe(0.6, f"algo.shaping={self.r.choice([*SHAPINGS, *(pairs if self.antithetic else ())])}")
        if name in ("openai_es", "pgpe", "ars", "forward_gradient"):
            kind = self.r.choice(list(OPTIMIZERS))
            self.add(f"algo.optimizer._target_={kind}", self.r.choice(OPTIMIZERS[kind]), "algo.optimizer.lr=0.01")
            self.maybe(0.25, "algo.average=0.6")
            self.maybe(0.4, f"algo.lr_schedule.kind={self.r.choice(SCHEDULES)}")
            self.maybe(0.2, "algo.lr_schedule.warmup=2")
        if name in ("openai_es", "forward_gradient"):
            self.maybe(0.4, f"algo.sigma_schedule.kind={self.r.choice(SCHEDULES)}")
            self.maybe(0.2, "algo.weight_decay=0.01")
        if name == "openai_es":
            self.maybe(0.15, f"algo.adapt.sigma={self.r.choice(['csa', 'psr'])}")
            self.maybe(0.15, "algo.adapt.lr=snr")
            self.maybe(0.1, "algo.sigma=auto algo.optimizer.lr=auto")
        if name == "ars":
            self.maybe(0.5, "algo.top=2")
        if name == "genetic":
            self.add(f"algo.parents={self.r.choice([1, 3])}")
        self.maybe(0.2, "algo.non_finite=worst")

    def distributed(self) -> None:
        methods = ["auto", "auto", "replicated", "replicated distribution.share_node=true", "chromosome_updates"]
        methods += ["chromosome_updates distribution.overlap=true"]
        self.method = f"distribution={self.r.choice(methods)}".split()

    def command(self, folder: str, ranks: int) -> list[str]:
        """Return the words of a run on ``ranks``."""
        method = self.method if ranks > 1 else ["distribution=local"]
        return ["train", *self.words, *method, f"hydra.run.dir={folder}"]


def killed(draw: Draw, folder: Path, cwd: Path) -> bool:
    """Run the draw on one rank and kill it after a random number of generations; True where it ended before."""
    after = draw.r.randint(1, GENERATIONS - 1)
    words = [sys.executable, "-m", "neuro_cli", *draw.command(folder.name, 1)]
    silent = subprocess.DEVNULL
    with Forked(words, cwd=cwd, env=clean_environment(), stdout=silent, stderr=silent) as process:
        deadline = time.monotonic() + WAIT
        while process.poll() is None and time.monotonic() < deadline:
            if len(list((folder / "checkpoints").glob("*.safetensors"))) and _rows(folder) >= after:
                process.kill()
                break
            time.sleep(0.002)
        process.kill()
    return (folder / "summary.json").exists()


def _rows(folder: Path) -> int:
    file = folder / "metrics.csv"
    return file.read_text().count("\n") - 1 if file.exists() else 0


def tried(draw: Draw, cwd: Path) -> str:
    """Return what is wrong with a draw's runs, "right" or "refused"."""
    names = {ranks: f"{draw.seed}-{ranks}" for ranks in RANKS}
    lines = [draw.command(names[ranks], ranks) for ranks in RANKS]
    try:
        done: list[Done] = neuro_in_one_world(*lines, cwd=cwd, ranks=RANKS)
    except AssertionError as error:
        return f"wrong: {str(error)[-300:]}"
    codes = [each.returncode for each in done]
    if codes != [0, 0, 0]:
        said: Any = [each.stderr.strip().splitlines()[-1:] for each in done if each.returncode]
        same = set(codes) == {2}
        return f"refused: {said[0]}" if same else f"wrong: exit codes {codes}: {said}"
    shas = [sha_of(cwd / names[ranks]) for ranks in RANKS]
    if len(set(shas)) > 1:
        return f"wrong: parameters {shas}"
    if killed(draw, cwd / f"{draw.seed}-killed", cwd):
        return "right, never killed"
    on = draw.r.choice(RANKS)
    more = [] if on == 1 else draw.method
    try:
        [resumed] = neuro_in_one_world(["resume", f"{draw.seed}-killed", *more], cwd=cwd, ranks=on)
    except AssertionError as error:
        return f"wrong: resume on {on} ranks {str(error)[-300:]}"
    if resumed.returncode:
        return f"wrong: resume on {on} ranks: {resumed.stderr.strip().splitlines()[-1:]}"
    sha = sha_of(cwd / f"{draw.seed}-killed")
    return "right" if sha == shas[0] else f"wrong: resumed on {on} ranks {sha}, not {shas[0]}"


def main() -> int:
    """Print the draws that fail, and how many of each verdict. Returns the number that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("stop", type=int)
    parser.add_argument("--keep", type=Path, help="folder of the runs")
    parser.add_argument("--print", action="store_true", help="all draws")
    options = parser.parse_args()
    cwd = options.keep or Path(tempfile.mkdtemp(prefix="commands"))
    cwd.mkdir(exist_ok=True)
    found: Counter[str] = Counter()
    for seed in range(options.first, options.stop):
        draw = Draw(seed)
        verdict = tried(draw, cwd.absolute())
        found[verdict.partition(":")[0]] += 1
        if options.print or verdict.startswith("wrong"):
            print(seed, verdict, "neuro", *draw.command("FOLDER", 2), flush=True)
    if options.keep is None:
        shutil.rmtree(cwd)
    print(", ".join(f"{count} {name}" for name, count in sorted(found.items())))
    return min(found["wrong"], 125)


if __name__ == "__main__":
    sys.exit(main())
