"""docs/examples/nameserver.yaml: its objects refer to each other, and its container's command serves. Kubernetes is not here."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.worlds import clean_environment

from neuro_cli.tls.task_cluster import make_certificates

MANIFEST = Path(__file__).parents[2] / "docs" / "examples" / "nameserver.yaml"


def test_the_objects_of_the_manifest_fit_together():
    service, deployment = yaml.safe_load_all(MANIFEST.read_text())
    assert [node["kind"] for node in (service, deployment)] == ["Service", "Deployment"]
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    labels = spec["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == labels
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    ports = {
        container["ports"][0]["containerPort"],
        *(container[probe]["tcpSocket"]["port"] for probe in ("readinessProbe", "livenessProbe")),
    }
    assert ports == {service["spec"]["ports"][0]["port"]} == {7700}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.slow
def test_the_containers_command_serves_with_a_secret_that_others_could_write(tmp_path):
    """Its folders are below the test's; the secret has the modes that a mounted one has."""
    make_certificates(tmp_path / "made", ["nameserver"])
    secret = tmp_path / "certificates"
    secret.mkdir()
    for name in ("ca.crt", "node.crt", "node.key"):
        (secret / name).write_bytes((tmp_path / "made" / name).read_bytes())
        (secret / name).chmod(0o644)
    secret.chmod(0o777)
    deployment = list(yaml.safe_load_all(MANIFEST.read_text()))[1]
    (script,) = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    for place in ("/tmp/certificates", "/tmp/run"):
        script = script.replace(place, f"{tmp_path}/{place.replace('/', '-')}")
    script = script.replace(" /certificates/*", f" {secret}/*").replace("0.0.0.0:7700", "0.0.0.0:0")
    environment = clean_environment() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
    finally:
        process.terminate()
        code = process.wait(60)
        process.stdout.close()
    assert said.startswith("neuro: nameserver at 0.0.0.0:")
    assert code in (0, -signal.SIGTERM)  # it may come before the handler
