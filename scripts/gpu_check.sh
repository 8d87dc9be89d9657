#!/bin/sh
# Everything that needs a GPU, in one command: tests on CUDA, speed against references and the papers, MNIST against the clock.
#   scripts/gpu_check.sh [--folder outputs/gpu] [--data FOLDER_WITH_MNIST] [--hyperscale CHECKOUT]
#       [--only tests,generation,reproduce,inference,mnist,graphs,hyperscale,networks]
# Writes results.json and gpu.md into the folder. Exit code 2 and one line where torch can use no CUDA device.
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu_check.py" "$@"
