"""Options by their names in ``conf/``, with the values from there, for library calls without a config."""

from functools import partial
from typing import Any

from omegaconf import OmegaConf

from neuro_cli.core.did_you_mean import nearest
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.files import config_folder
from neuro_cli.core.removed import no_option
from neuro_cli.factory.instantiate import expect, make

CONSTANT = {"kind": "constant", "final": 1.0, "generations": 1, "warmup": 0}


def option(group: str, choice: Any, kind: type, generations: int | None, values: dict[str, Any] | None = None) -> Any:
    """Return the option ``choice`` of a group: an object of ``kind`` as it is, or made from a name in ``conf/<group>``.

    ``generations``: length of the schedules; None keeps them constant. ``values``: replacements for keys of a named option.
    Raises ConfigError with the command line's message.
    """
    values = {key: value for key, value in (values or {}).items() if value is not None}
    if not isinstance(choice, str):
        if values:
            key, value = next(iter(values.items()))
            raise ConfigError(key, value, f"give it to {type(choice).__name__}(...), or {group}= by its name")
        return expect(choice, {group: {"_target_": type(choice).__name__}}, group, kind)
    names = [path.stem for path in (config_folder() / group).glob("*.yaml")]
    if choice not in names:
        raise no_option(group, choice, names)
    node = OmegaConf.load(config_folder() / group / f"{choice}.yaml")
    config = OmegaConf.create({group: node, "generations": generations or 1})
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)[group]  # type: ignore[index, call-overload, assignment]
    plain.pop("defaults", None)
    if generations is None:
        for key, value in plain.items():
            if key.endswith("_schedule"):
                value |= CONSTANT
    for key, value in sorted(values.items()):  # lr before optimizer, which takes it over
        _set(plain, group, choice, key, value)
    return make({group: plain}, group, kind)


def _set(plain: dict[str, Any], group: str, choice: str, key: str, value: Any) -> None:
    """Set a key of an option; ``optimizer`` is a class of ``torch.optim`` or a partial of one, ``lr`` its learning rate."""
    if key == "lr" and isinstance(plain.get("optimizer"), dict):
        plain["optimizer"]["lr"] = value
    elif key in plain:
        plain[key] = _factory(value, plain[key]) if key == "optimizer" else value
    else:
        raise ConfigError(
            key, value, f"{group}={choice} has none; {nearest(key, [name for name in plain if name != '_target_'])}"
        )


def _factory(optimizer: Any, before: dict[str, Any]) -> "partial[Any]":
    """Return a factory of an optimizer from a class or a partial of one; ``before`` gives the learning rate if it has none."""
    factory = optimizer if isinstance(optimizer, partial) else partial(optimizer)
    if not callable(factory.func) or factory.args:
        raise ConfigError("optimizer", optimizer, "must be a class of torch.optim, or a functools.partial of one by keywords")
    return partial(factory.func, **{"lr": before["lr"], **factory.keywords})
