#!/usr/bin/env bash
# A network whose outputs are all equal has a top-1 accuracy of 1 on the last class, and `log_loss` prices one answer by its type
#
# Version: scikit-learn 1.9.1, numpy 2.4.6
# Belief: Equal scores have the accuracy of chance, and a loss does not depend on whether scores are float32 or float64.
# Seen: `top_k_accuracy_score` of scores that are all 0 is 0 on the classes 0 to 2 of four and 1 on the last one; with k=2 it is 1 on the
#   last two. `argmax` gives class 0. For two classes the threshold is 0.5 if all scores lie between 0 and 1, and 0 if not. `log_loss` of
#   a sure wrong answer is 36 in float64, 16 in float32 and 7 in float16, as it clips to the type's smallest step.
# Means: A dead network wins on data whose last class is the largest, and a network in half precision has a fifth of the loss of
#   the same answers in double. Break ties by noise and cast to float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from sklearn.metrics import log_loss, top_k_accuracy_score

classes = [0, 1, 2, 3]
dead = np.zeros((100, 4))
first = [top_k_accuracy_score(np.full(100, label), dead, k=1, labels=classes) for label in classes]
second = [top_k_accuracy_score(np.full(100, label), dead, k=2, labels=classes) for label in classes]
print("all outputs equal, top-1 by class:", first, "top-2:", second, "argmax:", dead[0].argmax())
low, with_a_negative = [top_k_accuracy_score([0, 1, 1], scores, k=1) for scores in ([0.2, 0.3, 0.4], [-0.2, 0.3, 0.4])]
print("scores 0.2, 0.3, 0.4 for the classes 0, 1, 1:", low, "with -0.2 for the first:", with_a_negative)
losses = [float(log_loss([0, 1], np.array([[0, 1], [1, 0]], kind))) for kind in (np.float64, np.float32, np.float16)]
print("log_loss of two sure wrong answers in float64, float32, float16:", losses)
dead_right = first == [0, 0, 0, 1] and second == [0, 0, 1, 1]
raise SystemExit(not dead_right or (round(low, 2), with_a_negative) != (0.33, 1) or not 30 < losses[0] < 40 or not 6 < losses[2] < 8)
EOF
