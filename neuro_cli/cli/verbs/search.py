"""``neuro search`` and its processes: also status and certs."""

from pathlib import Path
from typing import Any

from neuro_cli.cli.arguments import Parser
from neuro_cli.cli.command import hydra_verb
from neuro_cli.cli.hydra_job import shown
from neuro_cli.run_folder.config import save_config


def _search(config: dict[str, Any], run: Path) -> int:
    from neuro_cli.broker.roles import ROLES, serve
    from neuro_cli.launch.launcher import world_launcher
    from neuro_cli.run_folder.log import log_to
    from neuro_cli.search.command import begin

    if config["role"] in ROLES:
        if config["role"] == "worker" and config["worker"]["ranks"] != 1:
            world_launcher()  # an error now is better than one at the first task
        log_to(run, 0)
        return serve(config)
    return begin(config, run, shown(run), lambda resolved: save_config(resolved, run))


def search_verb(arguments: list[str]) -> int:
    more = {"certs": certs_verb, "status": status_verb}
    if arguments and arguments[0] in more:
        return more[arguments[0]](arguments[1:])
    if "role=model" in arguments and not any(argument.lstrip("+").startswith("pool=") for argument in arguments):
        arguments = [*arguments, "pool=broker"]  # this process of a cluster has no workers of its own
    return hydra_verb("search", _search)(arguments)


def status_verb(arguments: list[str]) -> int:
    from neuro_cli.broker.packages import need_packages

    usage = "neuro search status [HOST:PORT] [--certificates FOLDER | --insecure] [--dead N]"
    parser = Parser("neuro search status", description="Show brokers, workers and tasks, also those given up.", usage=usage)
    parser.add_argument("nameserver", nargs="?", default="127.0.0.1:7700", metavar="HOST:PORT")
    parser.add_argument("--certificates", metavar="FOLDER", help="folder of neuro search certs; default: this user's own")
    parser.add_argument("--insecure", action="store_true", help="use plaintext, for a cluster with security.insecure=true")
    parser.add_argument("--dead", type=int, default=3, metavar="N", help="show N given-up tasks of each broker, with tracebacks")
    options = parser.parse_args(arguments)
    need_packages()
    from neuro_cli.broker.addresses import check_address
    from neuro_cli.broker.client.status import status
    from neuro_cli.broker.settings import SecurityConfig

    nameserver = check_address("HOST:PORT", options.nameserver)
    status(nameserver, SecurityConfig(options.certificates, options.insecure).settle(), options.dead)
    return 0


def certs_verb(arguments: list[str]) -> int:
    from neuro_cli.broker.packages import need_packages

    usage = "neuro search certs FOLDER [HOST ...]"
    parser = Parser("neuro search certs", description="Create an authority and a certificate for a cluster.", usage=usage)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "hosts", nargs="*", default=[], metavar="HOST", help="names and addresses under which others reach this host"
    )
    options = parser.parse_args(arguments)
    need_packages()
    from neuro_cli.tls.task_cluster import make_certificates

    for path in make_certificates(options.folder, options.hosts):
        print(f"neuro: {path}")
    return 0
