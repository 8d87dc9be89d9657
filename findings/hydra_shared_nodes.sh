#!/usr/bin/env bash
# A node that a Hydra config refers to is built again for each reference, a partial builds its parts once, and a list that is handed over is copied
#
# Version: hydra-core 1.3.8, omegaconf 2.3.1
# Belief: `gen: ${gen}` in two places is one generator; a `_partial_` builds everything in each call; `instantiate(config,
#   history=history)` hands over that list.
# Seen: All three are the other way round. A generator that agent and environment refer to is three generators of one seed, and agent
#   and environment draw the same numbers (OmegaConf's own node is one: a value written through one name is read through the other).
#   With `_partial_: true` a nested generator, list or dict is built once and all objects that the partial makes share it. A list or
#   dict that is handed over as a keyword is copied, to a ListConfig or a list, and what the object writes into it is not in the
#   caller's; a dataclass comes without its methods, a tuple as a list; one that is handed over by place is itself.
# Means: Exploration noise is the environment's noise, members made by one partial share their memory, and a record of the run stays
#   empty. Build shared objects in code, and hand over an object of a class of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hydra-core==1.3.8 omegaconf==2.3.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import dataclasses

from hydra.utils import instantiate
from omegaconf import OmegaConf


class Holder:
    def __init__(self, *given, **parts):
        self.given, self.parts = given, parts


@dataclasses.dataclass
class Settings:
    sigma: float = 0.1

    def doubled(self):
        return 2 * self.sigma


GENERATOR = {"_target_": "numpy.random.default_rng", "seed": 1}
holder = {"_target_": "__main__.Holder"}
config = OmegaConf.create({"gen": GENERATOR, "agent": holder | {"gen": "${gen}"}, "env": holder | {"gen": "${gen}"}})
built = instantiate(config)
generators = [built.gen, built.agent.parts["gen"], built.env.parts["gen"]]
draws = [float(generator.random()) for generator in generators]
print("generators:", len(set(map(id, generators))), "first draws:", draws, "nodes are one:", config.agent.gen is config.env.gen)
make = instantiate(holder | {"_partial_": True, "gen": GENERATOR, "memory": [1]})
one, other = make(), make()
one.parts["memory"].append(2)
print("made by one partial: generator shared", one.parts["gen"] is other.parts["gen"], "the other's memory", other.parts["memory"])
history, best, place = [], {}, []
user = instantiate(holder, place, history=history, best=best, settings=Settings(), pair=(1, 2))
user.parts["history"].append(1.0)
user.parts["best"]["fitness"] = 1.0
user.given[0].append(1.0)
types = {name: type(part).__name__ for name, part in user.parts.items()}
print("the caller's list, dict and list by place:", history, best, place, types, "method:", end=" ")
try:
    print(user.parts["settings"].doubled())
    lost = False
except Exception as error:
    lost = True
    print(type(error).__name__)
as_seen = len(set(map(id, generators))) == 3 and len(set(draws)) == 1 and one.parts["gen"] is other.parts["gen"]
raise SystemExit(not (as_seen and list(other.parts["memory"]) == [1, 2] and history == [] and best == {} and place == [1.0] and lost))
EOF
"$folder/venv/bin/python" -W ignore program.py
