"""One generation of MNIST_3M with iid noise; prints the peak memory of this process. python memory_program.py POPULATION"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.configs import composed

from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.summary import peak_memory_bytes
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

parts = build(
    Options(composed("model=MNIST_3M", "sampler=iid", f"population={sys.argv[1]}", "batch_size=1", "threads=2")), SingleProcess()
)
parts.distribution.step(0)
print(peak_memory_bytes())
