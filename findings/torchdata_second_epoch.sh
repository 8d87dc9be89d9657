#!/usr/bin/env bash
# torchdata's resumed loader has the right batches to the end of the epoch, and another order from then on
#
# Version: torchdata 0.11.0, torch 2.14.1
# Belief: A StatefulDataLoader that loads a state goes through the same batches as the one that was not stopped.
# Seen: With `generator=` and no workers, the rest of the epoch is the same and every later epoch differs. With workers, or
#   with the global generator in the state that it had at the start, later epochs are the same too. Numbers that the data set draws
#   itself (augmentation) differ from the first batch after the state on, in all six settings.
# Means: A test of a resume that ends with the epoch passes, and the run still has other bits than one that was not stopped. Compare two
#   epochs, and draw augmentation from the example's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 torchdata==0.11.0
cat > "$folder/resumed.py" <<'EOF'
import torch
from torchdata.stateful_dataloader import StatefulDataLoader


class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index, float(torch.rand(()))


def loader(workers, own):
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(5) if own else None
    return StatefulDataLoader(Augmented(), batch_size=4, shuffle=True, num_workers=workers, generator=generator)


def batches(iterator):
    pairs = [(indices.tolist(), draws.tolist()) for indices, draws in iterator]
    return [indices for indices, _ in pairs], [draws for _, draws in pairs]


if __name__ == "__main__":
    seen = {}
    for workers in (0, 1, 2):
        for own in (False, True):
            first = loader(workers, own)
            iterator = iter(first)
            next(iterator), next(iterator)
            state = first.state_dict()
            rest, later = batches(iterator), batches(first)
            second = loader(workers, own)
            second.load_state_dict(state)
            rest_again, later_again = batches(second), batches(second)
            seen[workers, own] = rest[0] == rest_again[0], later[0] == later_again[0], rest[1] == rest_again[1]
            print(f"workers {workers}, own generator {own}: rest of the epoch, next epoch, draws the same:", seen[workers, own])
    wanted = {key: (True, key != (0, True), False) for key in seen}
    raise SystemExit(seen != wanted)
EOF
"$folder/venv/bin/python" -W ignore "$folder/resumed.py"
