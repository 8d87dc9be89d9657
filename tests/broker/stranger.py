"""Becomes another user and tries to submit a task to a broker without its certificates. Prints what came of each way as JSON.

python stranger.py UID HOST:PORT FOLDER
"""

import encodings.idna  # noqa: F401 (before this process may read no more of Python)
import json
import os
import ssl
import sys
import tempfile
from pathlib import Path

import grpc

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.wire import SUBMISSION, Stub
from neuro_cli.tls.task_cluster import make_certificates


def submit(channel: grpc.Channel) -> str:
    task = messages.Task(run="stranger", id="1", kind="noop", payload=b"{}")
    try:
        Stub(SUBMISSION, channel).Submit(messages.SubmitRequest(tasks=[task], token=bytes(32)), timeout=5)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def ways(address: str, server: str | None) -> dict[str, str]:
    """Answers by way: in plaintext, by TLS without a certificate, with a certificate of an authority that is made here."""
    answers = {"plaintext": submit(grpc.insecure_channel(address))}
    trusted = server.encode() if server else None
    answers["tls"] = submit(grpc.secure_channel(address, grpc.ssl_channel_credentials(trusted)))
    with tempfile.TemporaryDirectory() as made:
        make_certificates(Path(made) / "own")
        key, certificate = ((Path(made) / "own" / name).read_bytes() for name in ("node.key", "node.crt"))
        answers["forged"] = submit(grpc.secure_channel(address, grpc.ssl_channel_credentials(trusted, key, certificate)))
    return answers


def main() -> None:
    user, address, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    # gRPC and others import on first use, and the environment may stand in a folder that the other user may not read
    ways("127.0.0.1:1", None)
    os.chdir("/")
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    try:
        (folder / "node.key").read_bytes()
        read = "OK"
    except OSError as error:
        read = type(error).__name__
    try:
        host, port = address.split(":")
        server = ssl.get_server_certificate((host, int(port)), timeout=5)
    except OSError:
        server = None
    print(json.dumps({"read": read, **ways(address, server)}))


main()
