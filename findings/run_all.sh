#!/usr/bin/env bash
# Runs every finding of this folder, or those named (`run_all.sh jax_seeds mujoco_versions`), and prints one line each: it
# holds, or it changed and with which exit code, or it cannot tell on this processor (exit code 3). FINDINGS_LOG=FOLDER keeps
# what each printed. The exit code is the number of those that changed, 100 at most.
set -uo pipefail
log=$(realpath "${FINDINGS_LOG:-$(mktemp -d)}")
[ -n "${FINDINGS_LOG:-}" ] || trap 'rm -rf "$log"' EXIT
cd "$(dirname "$0")" || exit 100
[ $# -gt 0 ] || set -- $(ls ./*.sh | grep -v run_all)
changed=0
for name in "$@"; do
    name=$(basename "$name" .sh)
    bash "$name.sh" >"$log/$name" 2>&1
    code=$?
    title=$(sed -n '2s/^# //p' "$name.sh")
    if [ "$code" = 0 ]; then
        echo "holds    $name: $title"
    elif [ "$code" = 3 ]; then
        echo "not here $name: $title"
    else
        changed=$((changed + 1))
        echo "changed  $name, exit code $code: $title"
    fi
done
exit $((changed < 100 ? changed : 100))
