"""Names of samplers that configs of saved runs have."""

from hydra.utils import get_class

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.factory.instantiate import is_ours
from neuro_cli.sampler.base import Estimator, Sampler


def test_noise_on_activations_is_found_and_trusted_by_its_saved_name_and_is_no_sampler():
    assert get_class("neuro_cli.sampler.activation.Activation") is Activation
    assert is_ours("neuro_cli.sampler.activation.Activation")
    assert issubclass(Activation, Estimator)
    assert not issubclass(Activation, Sampler)
