"""neuro: distributed neuroevolution, as a library and a runner."""

from neuro_cli.core.lazy import lazily
from neuro_cli.core.machine.mkl import ask_for_same_bits

ask_for_same_bits()
__all__, __getattr__, __dir__ = lazily(__name__, __file__)
