#!/usr/bin/env bash
# A pickled part of an OmegaConf config holds the whole config
#
# Version: omegaconf 2.3.1
# Belief: cfg.environment, sent to a worker by pickle (multiprocessing, joblib, submitit, MPI), holds what is under that key.
# Seen: The node keeps its parent, so its pickle holds every other key too, as does a deep copy: 100 kB for one number beside a
#   text of that size, the text included. The part alone, by OmegaConf.to_container, has 25 bytes.
# Means: Each task for each member carries the whole config, keys of other services among them, and a hash or a cache by the
#   pickle of one part changes whenever any other key does. Send OmegaConf.to_container(part).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet omegaconf==2.3.1
"$folder/venv/bin/python" - <<'EOF'
import copy
import pickle

from omegaconf import OmegaConf

config = OmegaConf.create({"notes": "n" * 100_000, "environment": {"steps": 7}})
part = pickle.dumps(config.environment)
copied = pickle.dumps(copy.deepcopy(config.environment))
plain = pickle.dumps(OmegaConf.to_container(config.environment))
print(f"bytes: pickle of the part {len(part)}, of its deep copy {len(copied)}, of its container {len(plain)}")
print("another key's text is in the pickle of the part:", b"n" * 1000 in part)
raise SystemExit(not (len(part) > 100_000 and b"n" * 1000 in part and len(copied) > 100_000 and len(plain) < 100))
EOF
