#!/usr/bin/env bash
# Under pytest 9.2 an xdist_group is spread over the workers
#
# Version: pytest-xdist 3.8.0 with pytest 9.2.0 and 9.1.1
# Belief: Tests that are marked with one xdist_group run on one worker under `--dist loadgroup`; a version that cannot do that
#   says so.
# Seen: With pytest 9.1.1 all 40 tests of a group run on one of two workers. With 9.2.0 both workers run some of them, and
#   pytest prints no warning.
# Means: Groups keep apart the tests that share a port, a folder or a machine's cores (ranks of mpiexec, workers of a search).
#   They meet, and fail now and then, after an update of pytest alone. Pin pytest below 9.2, or run such tests with `-n 0`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tests"
cat >"$folder/tests/test_group.py" <<'EOF'
import os

import pytest


@pytest.mark.parametrize("case", range(40))
@pytest.mark.xdist_group("one")
def test_case(case, worker_id):
    with open(os.environ["WORKERS"], "a") as file:
        file.write(worker_id + "\n")
EOF
workers() { # PYTEST: the number of workers that ran tests of the group
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/pip" install --quiet "pytest==$1" pytest-xdist==3.8.0
    WORKERS="$folder/$1.txt" "$folder/$1/bin/python" -m pytest -n 2 --dist loadgroup -W error "$folder/tests" >"$folder/$1.log"
    sort -u "$folder/$1.txt" | wc -l
}
older=$(workers 9.1.1)
newer=$(workers 9.2.0)
warnings=$(grep -ciE 'warn|group' "$folder/9.2.0.log" || true)
echo "workers that ran the one group: $older with pytest 9.1.1, $newer with 9.2.0; lines of 9.2.0 with a warning: $warnings"
[ "$older" = 1 ] && [ "$newer" = 2 ] && [ "$warnings" = 0 ]
