"""Groups and keys of a run that ``neuro resume`` may change; all others stay as its config has them."""

RESUME_GROUPS = ("distribution", "fabric", "logger")
RESUME_KEYS = (
    "generations",
    "time_limit",
    "stop.metric",
    "stop.at",
    "threads",
    "device",
    "ranks",
    "checkpoint.every",
    "checkpoint.keep",
    "checkpoint.best",
    "evaluate.every",
    "task.root",
    "task.download",
    "task.files",
    "task.environments",
    "task.simulator",
    "task.evaluation_episodes",
    "distribution.ranks_shaping",
    "distribution.wire",
    "distribution.overlap",
    "distribution.encoding",
    "distribution.pieces",
    "algo.keep_last_step",
    "algo.non_finite",
)
