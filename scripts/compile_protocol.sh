#!/usr/bin/env bash
# Makes the Python code of neuro_cli/broker/proto/*.proto, in an environment of its own (some MB, removed at the end).
#
#   scripts/compile_protocol.sh       # with the grpcio-tools of pyproject.toml's lowest grpcio
#
# Code of a newer compiler refuses older grpcio and protobuf, which other packages of a user's environment may ask for.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^search = .*"grpcio>=\([0-9.]*\)".*/\1/p' pyproject.toml)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${PYTHON:-python3}" -m venv "$place"
"$place/bin/pip" install --quiet "grpcio-tools==$version"
"$place/bin/python" -m grpc_tools.protoc -I. --python_out=. --pyi_out=. neuro_cli/broker/proto/*.proto
