"""Scripts that measure: a wrong argument is one line and exit code 2, before anything is measured or written."""

import importlib.util
from pathlib import Path

import pytest
from support.inside import script_inside

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PEERS = ("bench_peers.py", "--systems", "neuro", "--model", "MNIST_10K")
WRONG = [
    (("bench_networks.py", "--rows", "policies"), "--rows policies: no such row; --help lists them"),
    (("bench_networks.py", "--repeats", "0"), "0: must be an integer >= 1"),
    (("bench_networks.py", "--device", "tpu"), "invalid choice: 'tpu'"),
    (("bench_networks.py", "--threads", "9999"), "--threads 9999: "),
    ((*PEERS, "--systems", "neuro,evosacks"), "evosacks: must be among neuro, textbook, roof, evosax, evotorch"),
    ((*PEERS, "--systems", ""), "must be among neuro, textbook, roof, evosax, evotorch"),
    ((*PEERS, "--population", "5"), "5: must be an even integer >= 2"),
    ((*PEERS, "--repeats", "0"), "0: must be an integer >= 1"),
    ((*PEERS, "--threads", "9999"), "--threads 9999: "),
    ((*PEERS, "--model", "MNIST_4M"), "MNIST_3M"),
    ((*PEERS, "--precision", "float16"), "bfloat16"),
    ((*PEERS, "--sampler", "antithetical"), "sampler=antithetical: no such option; did you mean antithetic"),
    pytest.param(  # the worker says it, a process of its own
        (*PEERS, "--batch-size", "5000"), "batch_size=5000: task=digits has 1437 training examples", marks=pytest.mark.slow
    ),
    ((*PEERS, "--output", "/proc/peers.csv"), "--output /proc/peers.csv: "),
    ((*PEERS, "--quiet"), "--quiet"),
    (("gpu_check.py", "--only", "noise,tabels"), "gpu_check: --only noise: must be among tests, generation, reproduce, "),
    (("gpu_check.py", "--data", "/no/such/folder"), "gpu_check: --data /no/such/folder: no MNIST/raw there"),
    (("gpu_check.py", "--folders", "x"), "gpu_check: unrecognized arguments: --folders x"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.syspath_prepend(SCRIPTS)  # as Python does for a script
    done = script_inside(SCRIPTS / arguments[0], *arguments[1:], cwd=tmp_path)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith(("neuro: error: ", "neuro: gpu_check: "))
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("module_zoo.py", "--zoos", "torchvision", "--members", "3"), "--members must be even"),
        (("module_zoo.py", "--zoos", "timm"), "pip install timm"),
    ],
)
def test_what_the_parser_refuses_or_is_not_installed_has_exit_code_2(tmp_path, monkeypatch, arguments, message):
    if "timm" in arguments:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = script_inside(SCRIPTS / arguments[0], *arguments[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
