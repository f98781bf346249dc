"""The manifest for KubeRay says what the application takes, and its ports, probes and times fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stentor.config import Settings

MANIFEST = Path(__file__).parents[3] / "deploy" / "kuberay" / "stentor.yaml"
SOURCE = Path(__file__).parents[3] / "src" / "stentor" / "scale" / "deployments.py"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    with MANIFEST.open(encoding="utf-8") as file:
        return {document["kind"]: document for document in yaml.safe_load_all(file)}


@pytest.fixture(scope="module")
def application(documents: dict[str, Any]) -> dict[str, Any]:
    config = yaml.safe_load(documents["RayService"]["spec"]["serveConfigV2"])
    assert set(config) == {"proxy_location", "http_options", "applications"}
    (application,) = config["applications"]
    assert isinstance(application, dict)
    return application


@pytest.fixture(scope="module")
def pod(documents: dict[str, Any]) -> dict[str, Any]:
    (group,) = documents["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    template = group["template"]
    assert isinstance(template, dict)
    return template


def test_the_settings_are_settings(application: dict[str, Any]) -> None:
    Settings.load(**application["args"]["settings"])


def test_the_plan_has_no_field_that_the_application_does_not_know(application: dict[str, Any]) -> None:
    # Its class cannot be imported without Ray.
    plan = SOURCE.read_text(encoding="utf-8").partition("class Plan(")[2].partition("\n\n\n")[0]
    for name in application["args"]:
        assert f"\n    {name}: Annotated[" in plan
    module, _, builder = application["import_path"].partition(":")
    assert module == "stentor.scale.deployments"
    assert f"\ndef {builder}(" in SOURCE.read_text(encoding="utf-8")


def test_the_service_finds_the_server_and_asks_it_whether_it_is_ready(
    documents: dict[str, Any], application: dict[str, Any], pod: dict[str, Any]
) -> None:
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["stentor"] == application["args"]["settings"]["port"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "stentor"}
    service = documents["Service"]["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] == "stentor"


def test_a_pod_lives_longer_than_its_drain(application: dict[str, Any], pod: dict[str, Any]) -> None:
    assert pod["spec"]["terminationGracePeriodSeconds"] > application["args"]["settings"]["drain_timeout_s"]
    (container,) = pod["spec"]["containers"]
    assert container["lifecycle"]["preStop"]["exec"]["command"]


def test_chunks_fit_into_the_object_store(documents: dict[str, Any], pod: dict[str, Any]) -> None:
    (group,) = documents["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    (shm,) = pod["spec"]["volumes"]
    limit = int(shm["emptyDir"]["sizeLimit"].removesuffix("Mi")) << 20
    assert int(group["rayStartParams"]["object-store-memory"]) < limit
