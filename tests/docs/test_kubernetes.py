"""Kubernetes manifests of the pages against the schemas of Kubernetes, by kubernetes-validate where it is installed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_pods_meet_at_the_name_of_the_first() -> None:
    service, job = documents("job.yaml")
    template = job["spec"]["template"]["spec"]
    name = service["metadata"]["name"]
    assert template["subdomain"] == name
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    (container,) = template["containers"]
    assert f"--master-addr {job['metadata']['name']}-0.{name} " in container["args"][0]
    assert f"--nnodes {job['spec']['completions']} " in container["args"][0]
    assert job["spec"]["parallelism"] == job["spec"]["completions"]


def test_ranks_fill_the_slots() -> None:
    (job,) = documents("mpijob.yaml")
    replicas = job["spec"]["mpiReplicaSpecs"]
    (launcher,) = replicas["Launcher"]["template"]["spec"]["containers"]
    assert f"mpiexec -n {replicas['Worker']['replicas'] * job['spec']['slotsPerWorker']} " in launcher["args"][0]


def test_the_mpijob_agrees_with_the_schema_of_mpi_operator() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parent / "mpijob_v2beta1.json").read_text())
    (job,) = documents("mpijob.yaml")
    jsonschema.validate(job, schema)
    for wrong in ({"slotsPerWorker": "4"}, {"mpiImplementation": "mpich"}, {"slots": 4}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**job, "spec": {**job["spec"], **wrong}}, schema)


def test_manifests_agree_with_the_schemas() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    for document in documents("job.yaml"):
        validate(document, "1.37", strict=True)
    (job,) = documents("mpijob.yaml")
    for name, replica in job["spec"]["mpiReplicaSpecs"].items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower()}, "spec": replica["template"]["spec"]}
        validate(pod, "1.37", strict=True)
        with pytest.raises(Exception, match="unexpected"):
            validate({**pod, "spec": {**pod["spec"], "subdomains": "x"}}, "1.37", strict=True)
