#!/usr/bin/env bash
# A newcomer's first hour in a fresh environment: all that the README promises, each step with what it checks.
#
#   scripts/newcomer.sh [--wheel | --env VENV] [FOLDER]      # default: a folder in TMPDIR; it must not exist yet
#   scripts/newcomer.sh --from STEP [--env VENV] FOLDER      # a step's number and those after it, in the folder of an earlier try
#
# --wheel builds a wheel and installs that, without it the checkout is installed. --env takes an environment that is there, and
# what it imports as neuro_cli. PYTHON (python3) makes the environment; GENERATIONS (400) is the length of the first run, below 400
# its accuracy is not checked. Prints each command with a $ before it and what it says: the transcript. It ends at the first step
# that is not as promised. The folder is left; it has the environment (some GB) and the runs.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
wheel="" environment="" from=1
while [[ ${1:-} == --* ]]; do
  case $1 in
    --wheel) wheel=1 ;;
    --env)
      environment=$(cd "$2" && pwd)
      shift
      ;;
    --from)
      from=$2
      [[ $from =~ ^[1-9][0-9]*$ ]] || { echo "--from $from: must be the number of a step" >&2 && exit 2; }
      shift
      ;;
    *) echo "$1: must be --wheel, --env VENV or --from STEP" >&2 && exit 2 ;;
  esac
  shift
done
folder=${1:-$(mktemp -u "${TMPDIR:-/tmp}/newcomer-XXXXXX")}
[[ $from == 1 ]] && mkdir "$folder"
folder=$(cd "$folder" && pwd)
cd "$folder"
generations=${GENERATIONS:-400}
small=(population=8 batch_size=16 threads=1)
few=("${small[@]}" generations=3)
count=0

checks() { # what the function $2 shows
  count=$((count + 1))
  ((count >= from)) || return 0
  printf '\n== %s. %s\n' "$count" "$1"
  "$2"
}
anew() { # runs of this step: an earlier try's are removed
  (cd outputs 2>/dev/null && rm -rf "$@") || true
}
say() { printf '\n$ %s\n' "$*"; }
step() {
  say "$@"
  local begun=$SECONDS
  "$@"
  echo "[$((SECONDS - begun)) s]"
}
wrong() { # exit code 2, one line with the text $1, and nothing new below this folder
  local text=$1 before after said code=0
  shift
  say "$@"
  before=$(find . -not -path './venv/*' -not -name .lock | sort)
  said=$("$@" 2>&1) || code=$?
  after=$(find . -not -path './venv/*' -not -name .lock | sort)
  echo "$said"
  [[ $code == 2 && $said == "neuro: error: "*"$text"* && $(wc -l <<< "$said") == 1 && $before == "$after" ]] ||
    { echo "[exit code $code; expected 2, one line with '$text', and no new file]"; exit 1; }
}
has() { python -c 'import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))' "$@"; }

installed() {
  unset PYTHONPATH
  step "${PYTHON:-python3}" -m venv venv
  export PATH="$folder/venv/bin:$PATH"
  if [[ -n $wheel ]]; then
    step pip wheel --quiet --no-deps --wheel-dir wheels "$checkout"
    step pip install --quiet "$(echo wheels/*.whl)[all]"
  else
    step pip install --quiet "$checkout[all]"
  fi
}

if [[ -n $environment ]]; then
  export PATH="$environment/bin:$PATH"
else
  checks "installation in a fresh environment" installed
  [[ $from == 1 ]] || { unset PYTHONPATH && export PATH="$folder/venv/bin:$PATH"; }
fi
step neuro --version
step neuro doctor

cat > stopped.py << 'PROGRAM'
"""python stopped.py SIGNAL FILE LINES COMMAND...: sends SIGNAL to the command when FILE has more than LINES lines."""
import pathlib, signal, subprocess, sys, time

name, file, lines, command = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
print("\n$", *command, f"   # then {name}", flush=True)
# a background job of a script would ignore Ctrl-C, so Python starts it
run = subprocess.Popen(command)
deadline = time.monotonic() + 1200
while run.poll() is None and time.monotonic() < deadline and not (file.exists() and file.read_bytes().count(b"\n") > lines):
    time.sleep(0.05)
run.send_signal(getattr(signal, name))
code = run.wait(600)
print(f"[ended with exit code {code}]", flush=True)
sys.exit(code not in ((0,) if name == "SIGINT" else (-signal.SIGKILL,)))
PROGRAM
cat > bits.py << 'PROGRAM'
"""python bits.py RUN ...: all runs have the same bits, every generation once."""
import csv, json, pathlib, sys

runs = [pathlib.Path(name) for name in sys.argv[1:]]
hashes = {json.loads((run / "summary.json").read_text())["parameters_sha256"] for run in runs}
assert len(hashes) == 1, hashes
for run in runs:
    made = [int(row["generation"]) for row in csv.DictReader((run / "metrics.csv").open())]
    assert made == list(range(1, len(made) + 1)), (run, made)
print(f"[the same bits: {', '.join(map(str, runs))}]")
PROGRAM

interrupted() {
  anew whole first killed
  first=(neuro train "generations=$generations" checkpoint.every=10)
  step "${first[@]}" hydra.run.dir=outputs/whole
  python stopped.py SIGINT outputs/first/metrics.csv $((generations / 4)) "${first[@]}" hydra.run.dir=outputs/first
  step neuro resume outputs/first
  python stopped.py SIGKILL outputs/killed/metrics.csv $((generations / 4)) "${first[@]}" hydra.run.dir=outputs/killed
  step neuro resume outputs/killed
  python bits.py outputs/whole outputs/first outputs/killed
  step neuro evaluate outputs/first output=scores.json
  python - "$generations" << 'PROGRAM'
import json, sys

found = json.load(open("scores.json"))["test_accuracy"]
assert int(sys.argv[1]) < 400 or found > 0.9, found
print(f"[test accuracy {found:.4f}]")
PROGRAM
}

ranks() {
  anew one two ranks
  step neuro train "${small[@]}" generations=6 hydra.run.dir=outputs/one
  step mpiexec -n 2 neuro train "${small[@]}" generations=6 hydra.run.dir=outputs/two
  step neuro train "${small[@]}" generations=6 ranks=2 hydra.run.dir=outputs/ranks
  python bits.py outputs/one outputs/two outputs/ranks
}

sweep() {
  anew undisturbed sweep
  sweep=(neuro train -m "${small[@]}" generations=40 checkpoint.every=5 algo=openai_es,snes seed=1,2)
  step "${sweep[@]}" hydra.sweep.dir=outputs/undisturbed
  python stopped.py SIGKILL outputs/sweep/1/metrics.csv 8 "${sweep[@]}" hydra.sweep.dir=outputs/sweep
  step neuro resume outputs/sweep
  for job in 0 1 2 3; do python bits.py "outputs/sweep/$job" "outputs/undisturbed/$job"; done
  step neuro report outputs/sweep
  python - << 'PROGRAM'
import csv

states = [row["state"] for row in csv.DictReader(open("outputs/sweep/sweep.csv"))]
assert states == ["finished"] * 4, states
assert "<html" in open("outputs/sweep/report.html").read()
PROGRAM
}

own() {
  anew net mine table options
  cat > my_package.py << 'PROGRAM'
import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Net(nn.Sequential):
    def __init__(self):
        log.warning("a network of my own")
        super().__init__(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))


class Mine(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1, 8, 8), index % 10 / 10), index % 10


def table():
    inputs = torch.linspace(-1, 1, 200).reshape(50, 4)
    return inputs, inputs.sum(1, keepdim=True)
PROGRAM
  mkdir -p options/sampler options/experiment
  printf '_target_: neuro_cli.sampler.iid.Iid\nantithetic: true\n' > options/sampler/mine.yaml
  printf '# @package _global_\nalgo:\n  sigma: 0.1\n' > options/experiment/tuned.yaml
  step neuro train "${few[@]}" model._target_=my_package.Net hydra.run.dir=outputs/net
  grep -q "WARNING my_package: a network of my own" outputs/net/log.txt
  wrong "it runs code of my_package" neuro evaluate outputs/net
  step neuro evaluate outputs/net trust=my_package
  step neuro train "${few[@]}" model._target_=my_package.Net task=dataset task.train._target_=my_package.Mine \
    task.test._target_=my_package.Mine hydra.run.dir=outputs/mine
  step neuro train "${few[@]}" model=mlp_policy task=dataset task.train._target_=my_package.table \
    task.test._target_=my_package.table task.loss._target_=torch.nn.MSELoss hydra.run.dir=outputs/table
  step neuro train "${few[@]}" --config-dir options sampler=mine +experiment=tuned hydra.run.dir=outputs/options
  grep -q "sigma: 0.1" outputs/options/.hydra/config.yaml
}

exported() {
  step neuro export outputs/first file=net.safetensors
  step neuro export outputs/first file=net.pt
  if has onnx onnxscript; then step neuro export outputs/first file=net.onnx; fi
  python - << 'PROGRAM'
import torch
from PIL import Image
from safetensors.torch import load_file
from sklearn.datasets import load_digits

from neuro_cli import load

model = load("outputs/first")
for state in (load_file("net.safetensors"), torch.load("net.pt", weights_only=True), load_file("outputs/first/model.safetensors")):
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
assert not model.training
Image.fromarray((load_digits().images[0] * 15).astype("uint8")).save("digit.png")
PROGRAM
  step neuro predict outputs/first digit.png top=3 output=classes.json
}

loggers() {
  anew logged wandb
  loggers=csv
  if has tensorboard; then loggers+=,tensorboard; fi
  step neuro train "${few[@]}" "logger=[$loggers]" hydra.run.dir=outputs/logged
  step neuro train "${few[@]}" logger=wandb logger.mode=offline hydra.run.dir=outputs/wandb
  test -d outputs/wandb/wandb
}

ensemble() {
  anew ensemble ensemble_2
  step neuro train algo=ensemble algo.size=2 generations=3 threads=1 hydra.run.dir=outputs/ensemble
  step neuro train algo=ensemble algo.size=2 generations=3 threads=1 ranks=2 hydra.run.dir=outputs/ensemble_2
  python - << 'PROGRAM'
import json

losses = [json.load(open(f"outputs/{name}/summary.json"))["test_loss"] for name in ("ensemble", "ensemble_2")]
assert abs(losses[0] - losses[1]) < 1e-3, losses
PROGRAM
  step neuro evaluate outputs/ensemble
}

search() {
  anew search best
  search=(neuro search training.epochs=1 max_layers=2 pool.workers=2)
  step "${search[@]}" trainings=3 hydra.run.dir=outputs/search
  step neuro resume outputs/search trainings=4
  step neuro train "${few[@]}" model=outputs/search/best/best_1.yaml hydra.run.dir=outputs/best
}

evolve() {
  anew evolve
  step neuro evolve cluster.local_peers=2 population=8 batch_size=16 threads=1 generations=5 hydra.run.dir=outputs/evolve
  step neuro evolve export outputs/evolve file=peer.safetensors
}

reinforcement() {
  anew cartpole
  step neuro train task=gymnasium task.id=CartPole-v1 population=8 generations=2 threads=1 task.evaluation_episodes=4 \
    hydra.run.dir=outputs/cartpole
}

library() {
  step python "$checkout/docs/examples/digits.py"
  cp state.pt alone.pt
  step mpiexec -n 2 python "$checkout/docs/examples/digits.py"
  python - << 'PROGRAM'
import torch

alone, shared = (torch.load(name, weights_only=True)["tensors"]["parameters"] for name in ("alone.pt", "state.pt"))
assert torch.equal(alone, shared)
PROGRAM
}

tab() {
  # shellcheck disable=SC2016
  step bash -c 'eval "$(neuro completion bash)"; COMP_LINE="neuro res" COMP_POINT=9; _neuro; [[ ${COMPREPLY[*]} == "resume " ]]'
  # shellcheck disable=SC2016
  step bash -c '[[ $(neuro completion query "neuro export outputs/first fi") == "file=" ]]'
}

data_owner() {
  anew table f1 weighted
  cat > people.py << 'PROGRAM'
import numpy as np
import pandas as pd
import torch


def rows(count):
    draw = np.random.default_rng(0)
    kinds = draw.choice(3, count, p=[0.6, 0.25, 0.15])
    numbers = draw.normal(size=(count, 6)) + 2 * np.eye(6)[kinds]
    return numbers.astype("float32"), kinds


def frame(count=300):
    numbers, kinds = rows(count)
    towns = np.array(["Bern", "Rom"])[np.arange(count) % 2]
    return pd.DataFrame(numbers, columns=list("abcdef")).assign(town=towns, kind=np.array(["cat", "dog", "owl"])[kinds])


def dates(count=300):
    return frame(count).assign(day=pd.Timestamp("2024-01-31"))[["day", "kind"]]


def gaps(count=300):
    return frame(count).assign(a=None, town=None)


def f1(outputs, targets):
    from sklearn.metrics import f1_score

    return f1_score(targets, outputs.argmax(1), average="macro")


def weighted(outputs, targets):
    weight = torch.tensor([1.0, 2.0, 4.0])
    return torch.nn.functional.cross_entropy(outputs, targets, weight=weight, reduction="none")


if __name__ == "__main__":
    frame().to_csv("table.csv", index=False)
    rows = frame(5).drop(columns="kind")
    rows[rows.columns[::-1]].to_csv("rows.csv", index=False)  # columns have names, so that their order is free
    np.save("rows.npy", pd.get_dummies(rows).to_numpy("float32"))
    rows.assign(town="Oslo").to_csv("strange.csv", index=False)
PROGRAM
  step python people.py
  mine=(neuro train task=dataset model=mlp_policy population=32 batch_size=64 threads=1 generations=40 algo.sigma=0.1 algo.optimizer.lr=0.1)
  step "${mine[@]}" task.train=table.csv task.test=table.csv hydra.run.dir=outputs/table
  step neuro predict outputs/table rows.csv rows.npy output=kinds.json
  wrong "column town has 'Oslo', which it had not in training" neuro predict outputs/table strange.csv
  mine+=(task.train._target_=people.frame task.test._target_=people.frame)
  step "${mine[@]}" task.metrics=people.f1 task.fitness=f1 hydra.run.dir=outputs/f1
  step "${mine[@]}" task.loss._target_=people.weighted hydra.run.dir=outputs/weighted
  wrong "column day is datetime64" "${mine[@]}" task.train._target_=people.dates task.test._target_=people.dates
  wrong "task.fields=kidn: no such column; did you mean kind?" "${mine[@]}" 'task.fields=[a,kidn]'
  wrong "columns a, town have empty cells" "${mine[@]}" task.train._target_=people.gaps task.test._target_=people.gaps
  wrong "as a metric of a whole batch: task.metrics=" "${mine[@]}" task.loss=people.f1
  step neuro report outputs/table outputs/f1 outputs/weighted
  if has onnx onnxscript; then step neuro export outputs/f1 file=f1.onnx trust=people && test -s f1.onnx; fi
  python - << 'PROGRAM'
import json

runs = {name: json.load(open(f"outputs/{name}/summary.json")) for name in ("table", "f1", "weighted")}
assert all(run["test_accuracy"] > 0.7 for run in runs.values()), runs
assert runs["f1"]["test_f1"] > 0.5, runs["f1"]
kinds = [row["classes"][0]["class"] for row in json.load(open("kinds.json"))]
assert kinds[:5] == kinds[5:] and set(kinds) <= {"cat", "dog", "owl"}, kinds  # the same rows as .csv and as .npy
PROGRAM
}

researcher() {
  anew cem figure loop optuna
  cat > search.py << 'PROGRAM'
"""A researcher's day: bounds, restarts, integers, a state that continues, several seeds, a loop with a run folder."""

import numpy as np
import torch

import neuro_cli as neuro


def rosenbrock(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def search(**more):
    return neuro.AskTell(lambda draw: draw.uniform(-2, 2, 4), sigma=0.5, minimise=True, bounds=neuro.Bounds(-3, 3), **more)


stopping = neuro.Stopping(target=1e-8, evaluations=20_000)
whole, first = (search(restarts="ipop", stopping=stopping) for _ in range(2))
whole.run(rosenbrock)
assert whole.best.fitness < 1e-8 and np.allclose(whole.best.vector, 1, atol=1e-3), whole.best
for _ in range(5):
    first.tell([rosenbrock(x) for x in first.ask()])
again = search(restarts="ipop", stopping=stopping)
again.load_state_dict(first.state_dict())
again.run(rosenbrock)
assert np.array_equal(again.best.vector, whole.best.vector)
mixed = neuro.AskTell([0.0, 0.0], sigma=2.0, minimise=True, integers=[0], stopping=neuro.Stopping(evaluations=600))
mixed.run(lambda x: (x[0] - 3) ** 2 + (x[1] - 0.5) ** 2)
assert mixed.best.vector[0] == 3, mixed.best
for algo in ("snes", "sep_cma_es", "openai_es"):
    alone = neuro.AskTell(np.ones(5), algo=algo, sigma=0.3, population=20, minimise=True, stopping=neuro.Stopping(evaluations=400))
    alone.run(lambda x: float((x**2).sum()))
    assert alone.best.fitness < 5, (algo, alone.best)
for given in ({"bounds": (1, -1)}, {"restarts": "ippop"}, {"stopping": 1e-8}, {"algo": "cma"}):
    try:
        neuro.AskTell(np.zeros(5), sigma=0.3, **given)
    except neuro.ConfigError as error:
        print(error)
    else:
        raise AssertionError(given)
net = {"_target_": "torch.nn.Linear", "in_features": 5, "out_features": 1}
x = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
with neuro.Evolution(net, population=16, minimise=True, folder="outputs/loop", threads=1) as loop:
    while loop.generation < 10:
        report = loop.step(lambda member: (member(x) - x.sum(1, keepdim=True)).square().mean())
    print(report.fitness_mean)
PROGRAM
  step python search.py
  step neuro export outputs/loop file=loop.safetensors
  step neuro train -m "${small[@]}" generations=10 algo.sigma=0.02,0.1 seed=1,2 hydra.sweep.dir=outputs/figure
  step neuro report outputs/figure x=algo.sigma
  test -s outputs/figure/sigma.svg
  wrong "did you mean cma_es" neuro train algo=cma_e
  python - "$checkout/docs/how_to/extending.md" << 'PROGRAM'
import pathlib, re, sys

page = pathlib.Path(sys.argv[1]).read_text()
pathlib.Path("cem.py").write_text(re.search(r"`neuro_cli/algo/cem.py`:\n\n```python\n(.*?)```", page, re.DOTALL)[1])
PROGRAM
  step neuro train "${few[@]}" algo._target_=cem.CEM algo.sigma=0.05 algo.elite=0.25 sampler=iid hydra.run.dir=outputs/cem
  if has optuna; then
    step neuro train -m "${few[@]}" hydra/sweeper=optuna hydra.sweeper.direction=maximize hydra.sweeper.n_trials=2 \
      'algo.sigma=tag(log,interval(0.01,0.1))' hydra.sweep.dir=outputs/optuna
    grep -q "algo.sigma" outputs/optuna/optimization_results.yaml
  fi
}

cluster() {
  anew world torch halved alone
  step mpiexec -n 2 neuro train "${small[@]}" generations=6 hydra.run.dir=outputs/world
  step torchrun --nproc-per-node=2 -m neuro_cli train "${small[@]}" generations=6 hydra.run.dir=outputs/torch
  python bits.py outputs/world outputs/torch
  local long=(train "${small[@]}" generations=60 checkpoint.every=10)
  python stopped.py SIGINT outputs/halved/metrics.csv 8 mpiexec -n 2 neuro "${long[@]}" hydra.run.dir=outputs/halved
  step neuro resume outputs/halved
  step neuro "${long[@]}" hydra.run.dir=outputs/alone
  python bits.py outputs/halved outputs/alone
  say neuro train hydra/launcher=slurm +hydra.launcher.additional_parameters.nodes=2 ranks=2 --cfg hydra
  neuro train hydra/launcher=slurm +hydra.launcher.additional_parameters.nodes=2 ranks=2 --cfg hydra | tee slurm.yaml | grep -A 30 'launcher:'
  grep -q "nodes: 2" slurm.yaml && grep -q "ntasks: 2" slurm.yaml
  if ! sinfo > sinfo.txt 2>&1; then wrong "hydra/launcher=slurm" neuro train -m hydra/launcher=slurm seed=1,2; fi
  wrong "starts its peers itself" mpiexec -n 1 neuro evolve population=8
}

teacher() {
  anew lesson
  cat > lesson.py << 'PROGRAM'
"""A lesson: what a notebook shows of a run."""

import neuro_cli as neuro

names = {"train", "resume", "evaluate", "load", "Evolution", "AskTell", "Result", "perturbed"}
assert names <= set(dir(neuro)) and "SNES" in dir(neuro.algo)
result = neuro.train(population=16, batch_size=32, generations=20, threads=1, folder="outputs/lesson")
print(result)
assert "<table" in result._repr_html_()
result.plot().savefig("lesson.svg")
assert len(result.frame()) == 20
more = neuro.resume(result.run, generations=30)
assert len(more.metrics["fitness_mean"]) == 30 and neuro.evaluate(more.run)["test_accuracy"] > 0
try:
    neuro.train(sampler="sign_flop")
except neuro.ConfigError as error:
    assert "did you mean sign_flip?" in str(error)
try:
    neuro.train(generations="many")
except neuro.ConfigError as error:
    assert str(error).startswith("generations=many: must be an integer"), error
PROGRAM
  step python lesson.py
  if has nbclient ipykernel; then
    step python -c "import nbclient, nbformat; nbclient.execute(nbformat.read('$checkout/docs/tutorial/library.ipynb', 4), timeout=1200)"
  fi
  step python "$checkout/docs/examples/black_box.py" 20
}

reproducer() {
  anew again
  step neuro reproduce
  step neuro reproduce table=nes_table_3 size=quick folder=outputs/again
  step neuro reproduce table=nes_table_3 size=quick folder=outputs/again # nothing runs twice
  wrong "did you mean" neuro reproduce table=nes_table_33
  python - << 'PROGRAM'
import csv

rows = list(csv.DictReader(open("outputs/again/nes_table_3/nes_table_3.csv")))
assert rows and all(row["published"] for row in rows if row["verdict"] in ("reproduced", "not reproduced"))
print(f"[{len(rows)} rows; 'reproduced' is said of published numbers alone]")
PROGRAM
}

screens() { # help of every verb, a narrow terminal, a pipe
  local verb
  for verb in train bench scale evolve apply reproduce search resume evaluate export predict report doctor completion "evolve export"; do
    # shellcheck disable=SC2086
    neuro help $verb > "help.txt" && grep -q "neuro $verb" help.txt || { echo "[neuro help $verb]"; exit 1; }
  done
  say COLUMNS=40 neuro
  COLUMNS=40 neuro | tee narrow.txt | tail -n 12
  [[ -z $(grep -v '^  [nm]' narrow.txt | grep -E '.{41}') ]] # commands stay in one piece
  say LANG=C neuro report outputs/first html=false
  LANG=C LC_ALL=C neuro report outputs/first html=false | tee plain.txt
  [[ -z $(LC_ALL=C grep '[^ -~]' plain.txt) ]]
}

wrong_commands() {
  wrong "did you mean train?" neuro trian
  wrong "did you mean population?" neuro train populaton=8
  wrong "+alg=snes: no such group or key" neuro train +alg=snes
  wrong "no such option; did you mean" neuro train algo=cma
  wrong "must be an integer" neuro train population=abc
  wrong "algo.sigma=nan" neuro train algo.sigma=nan
  wrong "needs -m" neuro train seed=1,2
  wrong "Interpolation key" neuro train 'seed=${nothing}'
  wrong "_target_=os.system" neuro train model._target_=os.system "+model.command='touch made'"
  wrong "already contains a run" neuro train hydra.run.dir=outputs/first
  wrong "a resumed run keeps it" neuro resume outputs/first seed=5
  wrong "not a neuro run" neuro evaluate nowhere
  wrong "must end in" neuro export outputs/first file=net.h5
  wrong "there is no such file" neuro predict outputs/first nowhere.png
  wrong "no such option" neuro search strategy=guess
  wrong "no such option" neuro evolve election=monarchy
  wrong "must be one of" neuro bench speed
  wrong "internal; neuro resume RUN continues a run" neuro start
}

checks "a run that Ctrl-C stops and one that SIGKILL ends go on to the bits of one that nothing disturbed" interrupted
checks "a run on two ranks, started in both ways, has the bits of one rank" ranks
checks "a sweep that is killed goes on: each job trained once; its table and its page" sweep
checks "a network, data and a loss of one's own, and a folder of options; another's code runs only when it is trusted" own
checks "the trained network in other programs: safetensors, .pt, ONNX; classes of an image; load()" exported
checks "several loggers at once" loggers
checks "an ensemble on one rank and on two" ensemble
if has grpc cryptography; then checks "a search by two workers that goes on, and its best network trained" search; fi
if has cryptography msgpack; then checks "two peers that train one model by passing seeds" evolve; fi
if has gymnasium; then checks "reinforcement learning by the id of an environment" reinforcement; fi
checks "the library: the README's loop, alone and with the same bits on two ranks" library
checks "Tab in bash" tab
if has pandas; then checks "an owner of data: a table, F1 as fitness, a loss of one's own, classes by name" data_owner; fi
checks "a researcher: bounds, restarts, integers, a state, a figure over a swept key" researcher
checks "a user of clusters: torchrun has MPI's bits, Ctrl-C on two ranks and a resume on one, SLURM's settings, what is refused" cluster
checks "a teacher: names, plots and the notebook" teacher
checks "a reproducer: the list, an entry, its verdicts" reproducer
checks "help of every verb, a narrow terminal, plain text in a pipe" screens
checks "wrong commands: one line, exit code 2, nothing written" wrong_commands

printf '\n[steps %s to %s are as promised, after %s s]\n' "$from" "$count" "$SECONDS"
