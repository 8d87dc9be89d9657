#!/usr/bin/env bash
# In ciw a service time below 0 or of NaN is taken: the mean wait is 0, or no customer is in the records
#
# Version: ciw 3.2.7, numpy 2.4.6
# Belief: Times that are no times are refused, as those between arrivals are ("Invalid time sampled").
# Seen: With a distribution of one's own whose service takes 0.8 h the mean wait of an hourly queue of exponential arrivals is above 0. With -1
#   it is exactly 0, and each customer leaves an hour before the service begins. With NaN, or a server that needs 1000 h, no record is
#   written, and waits of those who still stand there count nowhere; a `Deterministic(nan)` is taken too. Between arrivals both are an error.
# Means: The best member is the one whose service time fell below 0, and the worst has no fitness at all. Bound times in the fitness, and
#   count who is left.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ciw==3.2.7 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import ciw

NAN = float("nan")


class Own(ciw.dists.Distribution):
    def __init__(self, value):
        self.value = value

    def sample(self, t=None, ind=None):
        return self.value


def queue(arrivals, service):
    network = ciw.create_network(arrival_distributions=[arrivals], service_distributions=[service], number_of_servers=[1])
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(100)
    records = simulation.get_all_records()
    wait = sum(record.waiting_time for record in records) / len(records) if records else NAN
    early = sum(record.exit_date < record.service_start_date for record in records)
    return len(records), wait, early, len(simulation.nodes[1].all_individuals)


seen = {}
hourly = ciw.dists.Exponential(1.0)
services = {value: Own(value) for value in (0.8, -1.0, 1000.0)} | {"NaN": Own(NAN), "Deterministic NaN": ciw.dists.Deterministic(NAN)}
for name, service in services.items():
    seen[name] = queue(hourly, service)
    print("service {}: {} records, mean wait {:.3f}, {} who left before their service, {} left over".format(name, *seen[name]))
refused = []
for value in (-1.0, NAN):
    try:
        queue(Own(value), Own(0.8))
    except ValueError as error:
        refused.append(str(error))
print("between arrivals -1 and NaN:", refused)
holds = seen[0.8][1] > 0.1 and seen[-1.0][1] == 0 and seen[-1.0][0] == seen[-1.0][2] > 50
raise SystemExit(not (holds and all(seen[name][0] == 0 for name in (1000.0, "NaN", "Deterministic NaN")) and len(refused) == 2))
PROGRAM
