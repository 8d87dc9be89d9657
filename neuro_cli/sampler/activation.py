"""Noise on activations under its name in configs and saved runs; it lives in ``neuro_cli.activation_noise``, a layer above."""

from neuro_cli.core.lazy import lazily

__getattr__ = lazily("neuro_cli.activation_noise", {"Activation": "estimator"})
