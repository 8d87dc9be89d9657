"""Wrong commands: what a user mistypes, copies badly or tries, each with parts of the one line that answers it (A ... B).

They are typed in a folder with ``run`` (a finished run of one generation), ``digit.png``, ``deep.png``, ``text.png``,
``text.txt``, ``broken.yaml``, ``list.yaml``, ``options/algo/steep.yaml``, ``empty/`` and ``swept/``, the folder of a sweep of
another verb.
"""

Command = tuple[tuple[str, ...], str]

LONG = "9" * 4000
DEEP = "[" * 300 + "]" * 300
NUMBERS = ("seed", "generations", "population", "batch_size", "checkpoint.every", "checkpoint.keep", "evaluate.every")

# values that no key of a number takes
NOT_NUMBERS = (
    "abc", "''", "' '", "null", "true", "[1]", "{a:1}", "1.5", "nan", "-1", "1e400", "٣", "½", "'7\n8'", "0x10", "1_0.0",
)  # fmt: skip

# beginnings of commands that no text completes to a right one, and verbs before a folder, an image or an address
KEYS = (
    ("train", ""), ("train", "+"), ("train", "algo."), ("train", "model="), ("train", "task="), ("train", "experiment="),
    ("train", "logger=["), ("train", "hydra."), ("train", "hydra/launcher="), ("train", "-m", "algo=snes,"),
    ("evolve", "election="), ("search", "strategy="), ("scale", "fabric="), ("bench", ""), ("reproduce", "table="), ("", ""),
)  # fmt: skip
RUNS = (
    ("resume",), ("evaluate",), ("export",), ("predict", "run"), ("report",),
    ("search", "status"),
)  # fmt: skip

# verbs and flags
VERBS: list[Command] = [
    (("trian",), "trian: no such verb; did you mean train?"),
    (("train", "--quik"), "--quik"),
    (("train", "--cfg", "all", "-m"), "argument --multirun/-m: not allowed with argument --cfg/-c"),
    (("train", "--cfg", "jobs"), "jobs"),
    (("train", "--config-dir", "nowhere"), "--config-dir nowhere: there is no such folder"),
    (("train", "--config-name", "trainx"), "trainx"),
    (("completion", "tcsh"), "usage: neuro completion"),
    (("doctor", "fast"), "fast"),
]  # fmt: skip

# words that are no override
WORDS: list[Command] = [
    (("train", "population"), "population"),
    (("train", "=5"), "=5"),
    (("train", "a\nb=c"), "a b=c"),
    (("train", "\x1b[31mpopulation=8"), "population=8"),
]  # fmt: skip

# keys
MISTYPED: list[Command] = [
    (("train", "+nothing.there=1"), "no such key nothing"),
    (("train", "seed.deep=1"), "seed.deep=1"),
    (("train", "+seed.deep=1"), "seed="),
    (("train", "~nothing"), "nothing"),
    (("train", "hydra.nothing=1"), "hydra.nothing=1: no such key; did you mean hydra."),
    (("train", "hydra/lancher=slurm"), "hydra/lancher=slurm: no such group; did you mean hydra/launcher"),
    (("train", "hydra.luncher.x=1"), "hydra.luncher.x=1: no such key; did you mean hydra.launcher"),
    (("train", "-m", "hydra/launcher=slurm", "hydra.launcher.partion=x"), "did you mean hydra.launcher.partition"),
    (("train", "-m", "hydra.sweeper.max_batchsize=3"), "did you mean hydra.sweeper.max_batch_size"),
    (("train", "hydra.launcher=slurm"), "hydra.launcher=slurm: it has keys of its own; hydra/launcher=NAME chooses one"),
    (("train", "-m", "seed=1,2", "hydra.sweeper=optuna"), "hydra.sweeper=optuna: it has keys of its own; hydra/sweeper=NAME"),
    (("train", "hydra.launcher=null"), "hydra.launcher=null: it has keys of its own"),
    (("train", "hydra.job=5"), "hydra.job"),
    (("train", "hydra.run=x"), "hydra.run"),
    (("train", "hydra.runtime.choices=x"), "hydra.runtime.choices"),
    (("train", "hydra.run.dir="), "hydra.run.dir=: must be a folder"),
    (("train", "hydra.run.dir=text.txt"), "text.txt"),
    (("train", f"hydra.run.dir={'d' * 300}"), "File name too long"),
    (("train", "hydra.run.dir='a\0b'"), "hydra.run.dir"),
    (("train", "hydra.searchpath=[options]"), "must begin with file:// or pkg://"),
    (("train", "hydra/launcher=slrum"), "hydra/launcher=slrum: no such option; did you mean slurm?"),
    (("train", "hydra/launcher=slurm"), "needs -m"),
    (("train", "hydra/sweeper=optunaa"), "hydra/sweeper=optunaa: no such option; valid are basic"),
]  # fmt: skip

# what a run, a study or an export would refuse later
EARLY: list[Command] = [
    (("train", "~seed"), "error: seed: it is missing in the config"),
    (("train", "checkpoint=5"), "error: checkpoint=5: it has keys of its own: checkpoint.every, "),
    (("train", "~evaluate.every"), "error: evaluate.every: it is missing in the config"),
    (("train", "~algo"), "error: algo=None: must be a config with a _target_"),
    (("train", "~fabric.name"), "error: fabric._target_= ... Network:  ... missing 1 required positional argument: 'name'"),
    (("train", "+algo.sgma=1"), "error: algo._target_= ... OpenAIES() has no argument sgma; did you mean sigma?"),
    (("train", "+algo.lr_schedule.finel=1"), "error: algo.lr_schedule._target_= ... Schedule: ... 'finel'; did you mean final"),
    (("train", "model._target_=no_such_package.Net"), "model._target_=no_such_package.Net: No module named 'no_such_package'"),
    (("train", "+model.outputs=[10]"), "error: model.outputs=[10]: must be an integer >= 1"),
    # the largest number of which any method could make use: more would be started for nothing
    (("train", "ranks=17", "population=8", "batch_size=16"), "error: ranks=17: must be an integer from 1 to 16"),
    (("train", "threads=99999999999"), "error: threads=99999999999"),
    (("train", "population=${population}"), "error: population=${population}"),
    (("train", "hydra.output_subdir=elsewhere"), "error: hydra.output_subdir=elsewhere"),
    (("train", "hydra.run.dir=${nope}"), "error: hydra.run.dir: Interpolation key 'nope' not found"),
    (("train", "hydra.run.dir=/proc/run"), "error: /proc/run: No such file or directory"),
    (("train", "hydra.run.dir=run", "--config-dir", "options"), "hydra.run.dir=run: already contains a run"),
    (("train", "--config-dir", "options", "+alg=snes"), "+alg=snes: no such group or key; did you mean algo?"),  # Hydra trains
    (("train", "--config-dir", "options", "algo=stepe"), "algo=stepe: no such option; did you mean steep"),
    (("train", "--config-dir", "options", "populaton=8"), "populaton=8: no such key; did you mean population"),
    (("train", "--config-dir", "options", "seed=1,2"), "seed=1,2: a sweep over several values needs -m"),
    (("train", "-m", "algo=openai_es,sgd", "algo.sigma=0.1"), "error: algo.sigma=0.1: no such key; "),
    (("train", "-m", "algo=glob(zzz*)"), "algo=glob(zzz*): matches no option; valid are ars, cma_es, cr_fm_nes, "),
    (("bench", "layr"), "error: what=layr: must be one of layer, correlation, diversity, ensemble, ensemble_bytes, "),
    (("bench", "diversity", "algo=ensemble"), "error: algo=ensemble: neuro bench ensemble and ensemble_bytes measure ensembles"),
    (("bench", "correlation", "model._target_=nowhere.Net"), "error: model._target_=nowhere.Net: "),
    (("bench", "records", "records.only=[mnist_100]"), "error: records.only=mnist_100"),
    (("bench", "records", "records.seeds=[]"), "error: records.seeds=[]"),
    (("bench", "records", "records.minutes=0"), "error: records.minutes=0"),
    (("bench", "records", "records.goals.int8.better=more"), "error: records.goals.int8.better=more"),
    (("bench", "search", "search.only=[mnist]"), "error: search.only=mnist: must be one of digits, cifar10_subset"),
    (("bench", "search", "search.strategies=[best]"), "strategies=best: must be one of generational, steady_state, random"),
]  # fmt: skip

# before a peer begins (the secret is known), a search, a table
EVOLVE = [
    (("cluster.join=somewhere",), "cluster.join=somewhere: must be HOST:PORT"),
    (("cluster.local_iterations=0",), "cluster.local_iterations=0: must be an integer from 1 to 256"),
    (("cluster.local_iterations=2",), "cluster.local_iterations=2: must be 1, or selection=max"),
    (("cluster.force_new=true",), "cluster.force_new=True: needs cluster.from_run=RUN, the folder of a surviving peer"),
    (("cluster.from_run=there",), "cluster.from_run=there: no run of neuro evolve is in it"),
    (("cluster.secret_file=nowhere",), "cluster.secret_file=nowhere: cannot be read"),
    (("cluster.bind=198.51.100.7",), "cluster.bind=198.51.100.7: cannot listen at 198.51.100.7"),
    (("algo=snes",), "algo=snes: neuro evolve does not use it: see election, selection and cluster"),
    (
        ("+experiment=smollm_additions", "model.path=nowhere"),
        "experiment=smollm_additions: is for neuro train: it sets algo.lr_schedule, which neuro evolve lacks; "
        "take experiment=smollm_additions_peers",
    ),
    (("+experiment=language_model", "model.path=no"), "experiment=language_model: is for neuro train: it sets algo"),
    (("election=paxos",), "election=paxos: no such option; valid are raft, takeover"),
    (("layout=per_example", "selection=max"), "selection=max: compares members that have different examples here"),
    (("selection.lr_schedule.kind=slow",), "selection.lr_schedule.kind=slow: must be one of constant, linear"),
    (("election.timeout_max=0.1",), "election.timeout_max=0.1: must be > timeout_min=0.8"),
    (("election=takeover", "election.port=0"), "election.port=0: must be an integer from 1 to 65535"),
    (("ranks=2",), "ranks=2: neuro evolve has peers: cluster.local_peers"),
    (("cluster.bind='0'",), "cluster.bind=0: means all addresses of this machine: say 0.0.0.0, if that is meant"),
    (("cluster.advertise='a b'",), "cluster.advertise=a b: must be an address or the name of a host"),
    (("cluster.secret_file=/dev/zero",), "cluster.secret_file=/dev/zero: must be a regular file"),
    (("cluster.from_run=there", "cluster.force_new=true"), "there: no peer's run folder of neuro evolve"),
    (("logger=tensorboard", "logger._target_=nowhere.Logger"), "logger._target_=nowhere.Logger: "),
]  # fmt: skip
SEARCH = [
    (("layers=[3x3,7x7]",), "layers=[3x3,7x7]: 7x7 is no layer; must be a list of 1x1, 3x3, 3x1-1x3, 5x5, 5x1-1x5"),
    (("training.validation=1.0",), "training.validation=1.0: must be a number > 0 and <= 0.9"),
    (("max_layers=1", "strategy.initial_layers=1"), "strategy.population=8: there are 5 modules of up to 1 layers"),
    (("strategy=genetic",), "strategy=genetic: no such option; did you mean gener"),
    (("model=MNIST_10K",), "model._target_=neuro_cli.model.mnist.MNIST_10K: "),
    (("task=image_folder", "task.root=nowhere"), "task.root=nowhere: no train folder there"),
    (("task=lunar_lander",), "task=Reinforcement: a search needs a task of images with classes to train on"),
    (("role=boss",), "role=boss: must be one of "),
    (
        ("role=model", "pool=embedded"),
        "role=model: its candidates are trained by the workers of a cluster: it needs pool=broker",
    ),
    (("training.device=cuda:9",), "device=cuda:9: must be auto, cpu or cuda[:N]"),
]  # fmt: skip
REPRODUCE = [
    (("table=nes_table_9",), "table=nes_table_9: no such option; did you mean nes_table_"),
    (("table=nes_table_1", "tables.nes_table_1.titel=x"), "tables.nes_table_1.titel=x: no such key; did you mean"),
    (("table=nes_table_1", "with=3"), "with=3: must be keys for the commands: +with.seed=2"),
    (("tabel=all",), "tabel=all: no such key; did you mean table or tables?"),
    (("table",), "table: not an override of the form key=value"),
    (("table=nes_table_1", "size=large"), "size=large: must be one of quick, full"),
    (("size=full",), "table=None: which one? valid are all, darwinn_figure_2_strong, "),
    (("table=nowhere.yaml",), "table=nowhere.yaml: it cannot be read: No such file or directory"),
    (("table=nes_table_1", "folder=text.txt"), "folder=text.txt: there is a file of that name"),
    (("table=nes_table_1,nes_table_2",), "table=nes_table_1,nes_table_2: a sweep over several values needs -m"),
]  # fmt: skip
BEGUN = {("evolve", "cluster.local_peers=1"): EVOLVE, ("search",): SEARCH, ("reproduce",): REPRODUCE}
VERBS_AT_WORK: list[Command] = [((*verb, *typed), f"error: {said}") for verb, rows in BEGUN.items() for typed, said in rows]

# options of groups
OPTIONS: list[Command] = [
    (("train", "algo=cmaes"), "algo=cmaes: no such option"),
    (("train", "algo=cma_es"), "its matrix serves at most 1,024 parameters"),
    (("train", "task=gym"), "task=gym: no such option; did you mean gymnasium?"),
    (("train", "model="), "model="),
    (("train", "model=null"), "model=None"),
    (("train", "model=../../secret"), "model=../../secret: no such option"),
    (("train", f"model={'x' * 5000}"), "no such option"),
    (("train", "logger=[csv,csv]"), "is listed twice"),
    (("train", "logger=[csv,wandbb]"), "no such option; did you mean wandb?"),
    (("train", "experiment=mnist_99K"), "no such option"),
]  # fmt: skip

# sweeps
SWEEPS: list[Command] = [
    (("train", "-m", "algo=snes,pgp"), "algo=pgp: no such option"),
    (("train", "-m", "experiment=null,mnist_fast"), "experiment=null"),
    (("train", "-m", "seed=range(1,1)"), "seed=range(1,1)"),
    (("train", "-m", "seed=1,2", "sweep.fail_fast=maybe"), "sweep.fail_fast=maybe: must be true or false"),
    (("train", "-m", "seed=1,2", "sweep.detach=true"), "needs hydra/launcher=slurm"),
    (("train", "-m", "seed=1,2", "hydra.sweep.dir=run"), "already contains a run or another sweep"),
    (("train", "-m", "seed=1,2", "population=0"), "population=0"),
    (("train", "-m", "hydra/launcher=broker", "seed=1,2"), "hydra/launcher=broker: no such option; valid are"),
    (("scale", "-m", "seed=1,2", "hydra.sweep.dir=swept"), "already contains a run or another sweep"),
    (("train", "-m", "seed=1,2", "hydra.sweep.dir=swept"), "already contains a run or another sweep"),
]  # fmt: skip

# interpolations and code
CODE: list[Command] = [
    (("train", "population=${oc.env:NO_SUCH_VARIABLE}"), "NO_SUCH_VARIABLE"),
    (("train", "population=${eval:1+1}"), "eval"),
    (("train", "model._target_=os.system", "+model.command='touch made'"), "model._target_=os.system"),
    (("train", "model._target_=subprocess.Popen", "+model.args=[touch,made]"), "model._target_=subprocess.Popen"),
    (("train", "+model.outputs={_target_:os.mkdir,path:made}"), "model.outputs._target_=os.mkdir"),
    (("train", "sampler._target_=functools.partial", "+sampler._args_=[{_target_:os.system,_partial_:true}]"), "os.system"),
    (("train", "hydra.searchpath=[http://localhost]"), "must begin with file:// or pkg://"),
    (("train", "distribution._target_=sys.exit"), "sys.exit"),
    (("train", "algo.optimizer._target_=os.system"), "algo.optimizer"),
    (("train", "model._target_=torch.nn.Nothing"), "model._target_=torch.nn.Nothing"),
    (("train", "model._target_=null"), "model"),
    (("train", "model._target_=[torch.nn.Linear]"), "model._target_"),
    (("train", "model._target_='torch.nn\n.Linear'"), "model._target_"),
    (("train", "+model.nothing=3"), "nothing"),
    (("train", "model=blog_cnn", "+model.x.y=1"), "model"),
]  # fmt: skip

# values of train
VALUES: list[Command] = [
    (("train", "algo.sigma=inf"), "algo.sigma=inf"),
    (("train", "algo.optimizer=null"), "algo.optimizer"),
    (("train", "algo.weight_decay=-1"), "algo.weight_decay=-1"),
    (("train", "algo.lr_schedule.kind=cosinus"), "cosinus"),
    (("train", "device=''"), "device="),
    (("train", "time_limit=soon"), "time_limit=soon"),
    (("train", f"population={LONG}"), "population="),
    (("train", f"+model.deep={DEEP}"), "model"),
    (("train", "stop.metric=accuracy", "stop.at=0.9"), "stop.metric=accuracy"),
    (("train", "task=gymnasium", "task.id=NoSuchEnvironment-v0"), "NoSuchEnvironment"),
    (("train", "task=text", "task.files=nowhere.txt"), "nowhere.txt"),
    (("train", "task=text", "model=MNIST_10K"), "model expects 1x28x28"),
    (("train", "task=dataset"), "task."),
    (("train", "logger=tensorboard", "logger.nothing=1"), "logger.nothing"),
    (("train", "election=raft"), "election=raft: neuro train has no such group"),
    (("search", "sampler=iid"), "sampler=iid"),
]  # fmt: skip

# runs
FOLDERS: list[Command] = [
    (("resume",), "required: RUN; usage: neuro resume RUN"),
    (("resume", ""), "not a neuro run"),
    (("resume", "nowhere"), "nowhere: not a neuro run"),
    (("resume", "latest"), "latest"),
    (("resume", "r" * 5000), "r"),
    (("resume", "run\0"), "run"),
    (("resume", "swept"), "swept: a sweep, but not of neuro train"),
    (("resume", "run", "seed=5"), "seed=5: a resumed run keeps it"),
    (("resume", "run", "model=MNIST_3M"), "a resumed run keeps it"),
    (("resume", "run", "generations"), "generations"),
    (("resume", "run", "checkpoint=99"), "99"),
    (("resume", "run", "checkpoint=newest"), "newest"),
    (("resume", "run", "distribution=locl"), "did you mean local?"),
    (("resume", "run", "trust"), "trust"),
    (("evaluate", "run", "seed=5"), "evaluate takes"),
    (("evaluate", "run", "device=tpu"), "device=tpu"),
    (("evaluate", "run", "checkpoint=best"), "best"),
    (("evaluate", "run", "output=nowhere/scores.json"), "must be a file NAME.json"),
    (("evaluate", "run", "threads=many"), "threads=many"),
    (("export", "run", "file=net.h5"), "file=net.h5: must end in .safetensors, .pt, .onnx"),
    (("export", "run", "file=nowhere/net.pt"), "file=nowhere/net.pt: there is no folder nowhere"),
    (("export", "run", "file=run/model.safetensors"), "file=run/model.safetensors: exists already"),
    (("export", "run", "checkpoint=77", "file=net.pt"), "no checkpoint for generation 77"),
    (("export", "run", "checkpoint=best"), "checkpoint=best: no best checkpoint was kept"),
    (("export", "run", "as=net.pt"), "as=net.pt: neuro export takes file, checkpoint, trust"),
    (("predict", "run"), "FILE"),
    (("predict", "run", "nowhere.png"), "there is no such file"),
    (("predict", "run", "empty"), "a folder: name the images in it"),
    (("predict", "run", "text.png"), "cannot be read as an image"),
    (("predict", "run", "deep.png"), "more than 8 bits a channel"),
    (("predict", "run", "top=2"), "which files?"),
    (("predict", "run", "text.txt"), "text.txt"),
    (("predict", "run", "digit.png", "top=0"), "top=0: must be"),
    (("report",), "RUN"),
    (("report", "run", "html=maybe"), "html=maybe"),
    (("report", "run", "file=nowhere/report.html"), "nowhere"),
    (("report", "run", "colour=red"), "neuro report takes file, html"),
]  # fmt: skip

# studies and clusters
STUDIES: list[Command] = [
    (("train", "model=nowhere.yaml"), "it cannot be read"),
    (("train", "model=broken.yaml"), "it is no YAML"),
    (("train", "model=list.yaml"), "an option is a file of keys"),
    (("scale", "methods=[magic]"), "magic"),
    (("scale", "fabrics=[carrier_pigeon]"), "carrier_pigeon"),
    (("evolve", "cluster.bind=nowhere.invalid"), "cluster.bind=nowhere.invalid"),
    (("evolve", "export", "run"), "run"),
    (("evolve", "export"), "RUN"),
    (("search", "keep_weights=some"), "keep_weights=some"),
    (("search", "status", "nowhere"), "nowhere"),
    (("search", "status", "--fast"), "--fast"),
    (("search", "certs"), "usage: neuro search certs"),
]  # fmt: skip

# answered by the words alone, and by reading the config or more
WRONG_AT_ONCE = VERBS + WORDS + EARLY + VERBS_AT_WORK + OPTIONS + FOLDERS
WRONG = MISTYPED + SWEEPS + CODE + VALUES + STUDIES
WRONG += [(("train", f"{key}={value}"), f"{key}=") for key in NUMBERS for value in NOT_NUMBERS]
