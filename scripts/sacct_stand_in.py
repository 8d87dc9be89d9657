#!/usr/bin/env python3
"""Stands in for ``sacct`` on a SLURM that keeps no accounts: states of jobs from ``scontrol show job``.

submitit asks ``sacct -o JobID,State,NodeList --parsable2 -j ID``; that is all this answers. slurmctld forgets a job
MinJobAge seconds after its end (300 by default).
"""

import re
import subprocess
import sys


def row(line: str) -> str:
    """One line of ``scontrol show job --oneliner`` as sacct would print it; empty for a line that is no job."""
    fields = dict(re.findall(r"(\w+)=(\S*)", line))
    if "JobId" not in fields:
        return ""
    name = fields["JobId"]
    if "ArrayTaskId" in fields:
        task = fields["ArrayTaskId"]  # a number, or for those that wait a range as 1-3%2
        name = f"{fields['ArrayJobId']}_{task}" if task.isdigit() else f"{fields['ArrayJobId']}_[{task}]"
    return f"{name}|{fields['JobState']}|{fields.get('NodeList', '').replace('(null)', '')}"


def main() -> None:
    words = sys.argv[1:]
    asked = [words[place + 1] for place, word in enumerate(words[:-1]) if word in ("-j", "--jobs")]
    print("JobID|State|NodeList")
    for job in dict.fromkeys(job for names in asked for job in names.split(",")):
        told = subprocess.run(["scontrol", "show", "job", "--oneliner", job], capture_output=True, text=True, check=False)
        print("".join(f"{text}\n" for text in map(row, told.stdout.splitlines()) if text), end="")


if __name__ == "__main__":
    main()
