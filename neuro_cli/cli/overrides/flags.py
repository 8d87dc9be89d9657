"""Flags of the verbs that Hydra composes: Hydra's own names and meanings."""

from argparse import Namespace

from neuro_cli.cli.arguments import Parser

USAGE = "neuro VERB [group=option ...] [key=value ...] [FLAG ...] (--hydra-help lists flags)"


def flag_parser() -> Parser:
    """Return the parser of flags and overrides."""
    parser = Parser("neuro", usage=USAGE, add_help=False)
    add = parser.add_argument
    add("overrides", nargs="*", help="key=value and group=option, with a dot for a key below another: algo.sigma=0.1")
    add("--help", "-h", action="store_true", help="Show a verb's groups, options and keys")
    add("--hydra-help", action="store_true", help="Show these flags and Hydra's own settings")
    add("--resolve", action="store_true", help="With --cfg: show values in place of interpolations")
    mode = parser.add_mutually_exclusive_group().add_argument
    mode("--cfg", "-c", choices=("job", "hydra", "all"), help="Show the config instead of running [job|hydra|all]")
    mode("--run", "-r", action="store_true", help="Run one job (the default)")
    mode("--multirun", "-m", action="store_true", help="Run a sweep: a job for each combination of the values")
    add("--config-name", "-cn", help="Config file in place of the verb's")
    add("--config-dir", "-cd", help="Folder with further options")
    return parser


def parsed_arguments(arguments: list[str]) -> Namespace:
    """Parse flags and overrides. Raises UserError for an unknown flag."""
    parser = flag_parser()
    flags = parser.parse_intermixed_args(arguments)
    if flags.resolve and not flags.cfg:
        parser.error("--resolve needs --cfg")
    return flags
