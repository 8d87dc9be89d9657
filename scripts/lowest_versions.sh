#!/usr/bin/env bash
# The tests with every direct dependency at the lowest version that pyproject.toml allows: lowest_versions.sh VENV [PYTEST...]
#
# uv makes VENV (8 GB with torch's CUDA) and VENV-openmpi from scratch, as pip can only take the newest versions. The words
# after VENV go to pytest; without any, the default tests run on four workers. Ray is left out: it excludes other extras.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath "${1:?usage: lowest_versions.sh VENV [PYTEST...]}")
shift
[ $# != 0 ] || set -- -n 4
"${PYTHON:-python3}" -m venv "$venv-uv"
"$venv-uv/bin/pip" install --quiet uv
lowest() { "$venv-uv/bin/uv" pip install --quiet --resolution lowest-direct --python "$@"; }
# --seed: openmpi_env.sh uses pip
"$venv-uv/bin/uv" venv --quiet --clear --seed --python "${PYTHON:-python3}" "$venv"
lowest "$venv" --editable '.[all,dev,comet,envpool,mlflow,pettingzoo]'
scripts/openmpi_env.sh "$venv"
lowest "$venv-openmpi" --reinstall "$(sed -n 's/^openmpi = \["\(.*\)"\].*/\1/p' pyproject.toml)"
"$venv/bin/python" -m pytest "$@"
