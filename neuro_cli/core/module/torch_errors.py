"""Errors of torch that come from how passes run, without gradients or in half precision, as lines that say what to change."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from neuro_cli.core.errors import UserError, one_line

GRADIENTS = "does not require grad"  # autograd says so of a derivative of what was computed without gradients
HALF = {torch.bfloat16: "BFloat16", torch.float16: "Half"}  # names in torch's errors of types that do not fit together
ADVICE = "passes run without gradients: put `with torch.enable_grad():` around what takes a derivative"


def advice(error: Exception, precision: torch.dtype = torch.float32) -> str | None:
    """Return a line for an error of a pass in ``precision`` that is not the module's own fault, None for other errors."""
    text = str(error)
    if GRADIENTS in text and not isinstance(error, UserError):
        return f"{ADVICE} ({one_line(text)})"
    if isinstance(error, RuntimeError) and HALF.get(precision, "\0") in text and "type" in text:
        name = str(precision).removeprefix("torch.")
        return f"precision={name}: tensors that a pass creates need the type of its input, as x.new_zeros has ({one_line(text)})"
    return None


@contextmanager
def advised(who: str, precision: torch.dtype) -> Iterator[None]:
    """Return a context that raises UserError, with ``who`` before :func:`advice`, in place of an error that has one."""
    try:
        yield
    except Exception as error:
        line = advice(error, precision)
        if line is None:
            raise
        raise UserError(f"{who}: {line}") from error
