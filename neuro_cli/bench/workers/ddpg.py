"""DDPG of stable-baselines3 as a command that evaluates its policy as ``neuro train`` does, with the same evaluator.

python -m neuro_cli.bench.workers.ddpg SETTING_AS_JSON FOLDER; writes FOLDER/metrics.csv, one row per evaluation, and fresh.json.
"""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from neuro_cli.bench.returns import fresh_return, mean_return
from neuro_cli.core.errors import UserError, report
from neuro_cli.core.messages.install import install
from neuro_cli.core.metric import RETURN
from neuro_cli.factory.own_code import let_import
from neuro_cli.run_folder.checkpoint import write_atomically
from neuro_cli.runner.stop_signals import StopRequest
from neuro_cli.task.reinforcement.environment import EnvironmentFactory

COLUMNS = ("seconds", "environment_steps", RETURN.name)
INSTALL = install("baselines")
FRESH = "fresh.json"


def load_library() -> Any:
    """Import the class DDPG. Raises UserError when stable-baselines3 is not installed."""
    try:
        from stable_baselines3 import DDPG
    except ImportError as error:
        raise UserError(f"reinforcement.columns=[ddpg]: stable-baselines3 is not installed: {INSTALL}") from error
    return DDPG


def learner_of(setting: dict[str, Any]) -> Any:
    """Create the learner that ``setting`` describes. Raises UserError."""
    ddpg, keys = load_library(), dict(setting["ddpg"])
    from stable_baselines3.common.noise import NormalActionNoise

    task = setting["task"]
    environment = EnvironmentFactory(task["id"], task["max_steps"], task["options"]).make()
    space = environment.action_space
    if not hasattr(space, "low") or (space.low != -1).any() or (space.high != 1).any():
        raise UserError(f"task.id={task['id']}: DDPG's actor gives actions between -1 and 1, this environment takes {space}")
    size = space.shape[0]
    noise = NormalActionNoise(np.zeros(size), np.full(size, keys.pop("noise")))
    keys["train_freq"] = tuple(keys["train_freq"]) if isinstance(keys["train_freq"], list) else keys["train_freq"]
    hidden = {"net_arch": keys.pop("hidden")}
    keys.pop("look")
    return ddpg(
        "MlpPolicy", environment, action_noise=noise, policy_kwargs=hidden, device="cpu", seed=setting["seed"] % 2**32, **keys
    )


def learn(setting: dict[str, Any], folder: Path, stop: StopRequest) -> None:
    """Learn by DDPG until an evaluation reaches the goal or a stop is wanted. Raises UserError."""
    torch.set_num_threads(setting["workers"])
    begun, learner = time.monotonic(), learner_of(setting)
    from stable_baselines3.common.callbacks import BaseCallback

    task = {**setting["task"], "normalise": False}  # DDPG's networks see observations as they are
    seed, episodes, every = setting["seed"], setting["episodes"], setting["ddpg"]["look"]
    folder.mkdir(parents=True, exist_ok=True)

    class Looks(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % every:
                return not stop.wanted()
            row = (time.monotonic() - begun, every, mean_return(task, policy(learner), seed, episodes))
            with (folder / "metrics.csv").open("a", newline="") as file:
                csv.writer(file).writerow(row)
            return row[-1] < setting["goal"] and not stop.wanted()

    with (folder / "metrics.csv").open("w", newline="") as file:
        csv.writer(file).writerow(COLUMNS)
    learner.learn(sys.maxsize, callback=Looks())
    fresh = fresh_return(task, policy(learner), seed, episodes)
    write_atomically(folder / FRESH, json.dumps({"fresh_return": fresh}).encode())


def policy(learner: Any) -> nn.Sequential:
    """Return the actor without exploration: linear layers with ReLU, tanh at the end."""
    network = learner.actor.mu
    assert isinstance(network, nn.Sequential)
    return network


def main() -> int:
    let_import()
    try:
        with StopRequest(None) as stop:
            learn(json.loads(sys.argv[1]), Path(sys.argv[2]), stop)
    except Exception as error:
        return report(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
