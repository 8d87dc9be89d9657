"""Connections to a cluster of a test, by the certificates that were made for it."""

from pathlib import Path
from typing import Any

import grpc

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.pool.broker import BrokerPool
from neuro_cli.tls.task_cluster import read_credentials

TOKEN = b"0123456789abcdef"  # of a test's runs


def pool_of(cluster: Cluster, **settings: Any) -> BrokerPool:
    return BrokerPool(cluster.nameserver, certificates=cluster.certificates, **settings)


def open_to(address: str, certificates: Path | None) -> grpc.Channel:
    """A channel that shows the certificate of a folder."""
    assert certificates is not None
    ours = read_credentials(certificates)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ours.authority, ours.key, ours.certificate))


def address_of(cluster: Cluster, broker: str = "broker") -> str:
    return str(cluster.members[broker].config["broker"]["address"])
