"""Defaults by the number of parameters: perturbations and steps are smaller for a larger network."""

TUNED = 11_274  # parameters of MNIST_10K, the network that the values were tuned on


def by_size(value: float, parameters: int) -> float:
    """Return the default for a network of M ``parameters``: ``value`` up to M = 11,274, then times (11,274 / M)^(1/3).

    The exponent is ours, from runs of 28,938 to 3,274,634 parameters (docs/results/algorithms.md).
    """
    return value * min(1.0, (TUNED / parameters) ** (1 / 3))
