"""Entry point of the console script: Ctrl-C while the command still loads is one line too, from the first import on."""

import sys


def main() -> None:
    try:
        from neuro_cli.cli.main import main as command

        command()
    except KeyboardInterrupt:
        print("neuro: interrupted", file=sys.stderr, flush=True)
        sys.exit(130)
