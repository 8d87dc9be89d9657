"""Reinforcement learning: a policy is scored by the mean return of whole episodes."""

from neuro_cli.task.reinforcement.task import Reinforcement

__all__ = ["Reinforcement"]
