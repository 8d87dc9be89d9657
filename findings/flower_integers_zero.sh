#!/usr/bin/env bash
# Flower's FedAvg averages integers to 0 and booleans to True, and Krum's choice is the diverged client
#
# Version: flwr 1.42.0, torch 2.14.1, numpy 2.4.6
# Belief: An average of equal arrays is that array, and a strategy against faulty clients does not take the faulty one.
# Seen: By default (`inplace=True`) an array of integers is 0 after FedAvg, also where all clients have 5, and one of booleans is True where any
#   client has True: counters of batch norm, masks and quantised weights are lost. With `inplace=False` they are float64, and float16
#   weights of 60,000 infinite. Of five clients of which one has NaN, Krum returns the NaN and the median is NaN; the trimmed mean is right.
#   In the newer `flwr.serverapp` integers are float64 averages and Krum is right.
# Means: A network with batch norm or masks is another one after one round, with no word. Send float arrays alone, and drop clients with NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flwr==1.42.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import logging

import numpy as np
import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAvg, FedMedian, FedTrimmedAvg, Krum
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

logging.disable(logging.CRITICAL)


def aggregated(strategy, clients):
    answers = [(None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), 10, {})) for arrays in clients]
    return parameters_to_ndarrays(strategy.aggregate_fit(1, answers, [])[0])


network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
for _ in range(7):
    network(torch.randn(4, 2))
names = list(network.state_dict())
arrays = [values.numpy() for values in network.state_dict().values()]
result = dict(zip(names, aggregated(FedAvg(), [arrays] * 3)))
count = int(result["1.num_batches_tracked"])
print("batches that batch norm has counted, 7 on each of three clients:", count)
seen = {}
for kind in (np.int64, np.uint8, np.bool_, np.float32):
    clients = [[np.array([5, 0, 1]).astype(kind)], [np.array([5, 0, 0]).astype(kind)], [np.array([5, 0, 0]).astype(kind)]]
    by_default, other = aggregated(FedAvg(), clients)[0], aggregated(FedAvg(inplace=False), clients)[0]
    records = [RecordDict({"a": ArrayRecord(client), "m": MetricRecord({"n": 10})}) for client in clients]
    newer = next(iter(aggregate_arrayrecords(records, "n").values())).numpy()
    seen[kind.__name__] = by_default.tolist()
    others = f"with inplace=False {other.round(2).tolist()}, newer {newer.round(2).tolist()}"
    print(f"{kind.__name__}, mean of [5, 0, 1] and twice [5, 0, 0]: {by_default.tolist()}, {others}")
large = aggregated(FedAvg(inplace=False), [[np.array([60000], np.float16)]] * 2)[0]
print("float16 weights of 60,000 with inplace=False:", large)
clients = [[np.array([value], np.float32)] for value in (1.0, 2.0, 2.5, 3.0, float("nan"))]
robust = {}
for name, strategy in (("Krum", Krum(num_malicious_clients=1)), ("FedMedian", FedMedian()), ("FedTrimmedAvg", FedTrimmedAvg(beta=0.2))):
    robust[name] = float(aggregated(strategy, clients)[0][0])
    print(f"{name} of 1, 2, 2.5, 3 and NaN: {robust[name]}")
zeros = count == 0 and seen["int64"] == seen["uint8"] == [0, 0, 0] and seen["bool"] == [True, False, True]
whole = np.allclose(seen["float32"], [5, 0, 1 / 3]) and np.isinf(large[0])
raise SystemExit(not (zeros and whole and np.isnan(robust["Krum"]) and np.isnan(robust["FedMedian"]) and robust["FedTrimmedAvg"] > 1))
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
