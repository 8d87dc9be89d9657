"""Options of earlier versions that no longer exist, each with what takes its place."""

from collections.abc import Iterable

from neuro_cli.core.did_you_mean import nearest
from neuro_cli.core.errors import ConfigError

# option: advice, the end of "GROUP=NAME: was removed; "
OPTIONS = {
    "hydra/launcher=broker": "hydra/launcher=joblib, ray or slurm runs the jobs of a sweep elsewhere",
    "election=succession": "election=takeover works down to one survivor too",
    "pool=local": "pool=embedded trains candidates on this machine",
}
# class of a saved config: the option that named it
CLASSES = {
    "neuro_cli.election.succession.Succession": "election=succession",
    "neuro_cli.election.takeover.Takeover": "election=succession",
    "neuro_cli.broker.local_pool.LocalPool": "pool=local",
    "neuro_cli.pool.local.LocalPool": "pool=local",
}


def no_option(group: str, name: str, known: Iterable[str], more: str = "") -> ConfigError:
    """Return the error for a ``name`` that no option of ``group`` has; ``known``: the names that exist. ``more``: its end."""
    advice = OPTIONS.get(f"{group}={name}")
    text = f"no such option; {nearest(name, known)}{more}" if advice is None else f"was removed; {advice}"
    return ConfigError(group, name, text)


def refuse_removed(target: str) -> None:
    """Raise ConfigError for the class of an option that was removed: a config of an earlier version names it."""
    option = CLASSES.get(target)
    if option is not None:
        group, _, name = option.partition("=")
        raise no_option(group, name, ())
