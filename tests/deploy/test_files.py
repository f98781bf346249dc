"""Dockerfile, compose, chart, unit and proxy say the same, and only what the server knows."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from stentor.config import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "stentor"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
WRITTEN = [
    ROOT / "Dockerfile",
    ROOT / ".dockerignore",
    *(path for path in DEPLOY.rglob("*") if path.is_file()),
]
HELM = shutil.which("helm")
LEAVE_S = 5
"""What a server takes beyond its drain to end."""

Document = dict[str, Any]


def loaded(path: Path) -> Document:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")


@pytest.fixture(scope="module")
def image_environment(dockerfile: str) -> dict[str, str]:
    """Of the last stage."""
    (line,) = re.findall(r"^ENV (.*)$", dockerfile.rpartition("\nFROM ")[2], re.MULTILINE)
    return dict(pair.split("=", 1) for pair in line.split())


@pytest.fixture(scope="module")
def compose() -> Document:
    return loaded(DEPLOY / "compose.yaml")


@pytest.fixture(scope="module")
def unit() -> configparser.SectionProxy:
    """systemd's file, of which no option that we ask for comes twice."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "systemd" / "stentor.service", encoding="utf-8")
    return parser["Service"]


def unit_environment() -> dict[str, str]:
    lines = (DEPLOY / "systemd" / "stentor.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_is_a_setting(path: Path) -> None:
    known = {f"STENTOR_{name.upper()}" for name in Settings.model_fields}
    mentioned = set(re.findall(r"\bSTENTOR_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert mentioned <= known


def test_the_page_names_files_and_settings_that_exist() -> None:
    text = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bdeploy/[\w./-]+\w", text))
    assert named
    assert all((ROOT / name).exists() for name in named)
    known = {f"STENTOR_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"\bSTENTOR_[A-Z_]+\b", text)) <= known


def test_values_for_the_environment_are_taken(
    image_environment: dict[str, str], compose: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = loaded(CHART / "values.yaml")["env"]
    for environment in (
        image_environment,
        compose["services"]["stentor"]["environment"],
        unit_environment(),
        values,
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value.replace("${MODEL}", "base"))
            Settings.load()


def test_the_image_runs_as_nobody_in_particular_and_asks_itself(dockerfile: str) -> None:
    last = dockerfile.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE)
    assert all(int(number) >= 10_000 for number in user), (
        "a number, so that Kubernetes knows that it is not root"
    )
    assert re.search(r'^HEALTHCHECK .*CMD \["stentor", "health"\]$', last, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["stentor"\]$', last, re.MULTILINE), (
        "no shell that keeps signals to itself"
    )
    assert "g++" not in last
    assert f'org.opencontainers.image.version="{VERSION}"' in last


def test_ports_agree(dockerfile: str, image_environment: dict[str, str], compose: Document) -> None:
    port = image_environment["STENTOR_PORT"]
    assert re.search(rf"^EXPOSE {port}$", dockerfile, re.MULTILINE)
    assert compose["services"]["stentor"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    scraped = loaded(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    assert scraped == [f"stentor:{port}"]
    assert (
        f"server 127.0.0.1:{unit_environment()['STENTOR_PORT']};"
        in (DEPLOY / "nginx" / "stentor.conf").read_text()
    )


def test_versions_agree(compose: Document) -> None:
    chart = loaded(CHART / "Chart.yaml")
    assert chart["version"] == chart["appVersion"] == VERSION
    assert compose["services"]["stentor"]["image"] == f"stentor:{VERSION}"
    assert f"stentor-ray:{VERSION}" in (DEPLOY / "kuberay" / "stentor.yaml").read_text(encoding="utf-8")


def test_compose_mounts_what_is_there_and_opens_no_port_to_the_world(compose: Document) -> None:
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists()
    mounted = {
        volume.split(":")[0]: volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]
    }
    boards = loaded(DEPLOY / "grafana" / "provisioning" / "dashboards" / "stentor.yml")["providers"][0][
        "options"
    ]
    assert str(Path(mounted["./grafana/stentor.json"]).parent) == boards["path"]
    source = loaded(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml")["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"], "the board takes the default one"


def test_nothing_is_killed_while_it_drains(compose: Document, unit: configparser.SectionProxy) -> None:
    served = compose["services"]["stentor"]
    grace_s = float(served["stop_grace_period"].removesuffix("s"))
    assert grace_s >= float(served["environment"]["STENTOR_DRAIN_TIMEOUT_S"]) + LEAVE_S
    assert float(unit["TimeoutStopSec"]) >= float(unit_environment()["STENTOR_DRAIN_TIMEOUT_S"]) + LEAVE_S


def test_the_unit_and_its_environment_name_the_same_places(unit: configparser.SectionProxy) -> None:
    assert unit["ExecStart"].endswith("/bin/stentor serve")
    assert unit["EnvironmentFile"] == "/etc/stentor/stentor.env"
    assert unit["DynamicUser"] == "yes"
    assert int(unit["LimitNOFILE"]) >= 65_536


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "stentor.service").read_text(encoding="utf-8")
    path = tmp_path / "stentor.service"
    path.write_text(text.replace("/opt/stentor/bin/stentor serve", "/bin/true"), encoding="utf-8")
    ended = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)
    ours = [line for line in ended.stderr.splitlines() if "stentor.service" in line]
    assert (ended.returncode, ours) == (0, [])


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_prometheus_takes_its_files() -> None:
    config = DEPLOY / "prometheus" / "prometheus.yml"
    ended = subprocess.run(
        ["promtool", "check", "config", config], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "7 rules found" in ended.stdout


def test_the_charts_values_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = loaded(CHART / "values.yaml")
    jsonschema_rs.validate(schema, values)
    assert set(values) == set(schema["properties"]) - {"global"}
    for wrong in ({"replicas": 0}, {"env": {"STENTOR_PORT": "9000"}}, {"replica": 2}):
        assert not jsonschema_rs.is_valid(schema, values | wrong)


def rendered(*given: str) -> dict[str, Document]:
    """The chart's documents by their kind."""
    assert HELM is not None
    command = [
        HELM,
        "template",
        "talk",
        str(CHART),
        "--namespace",
        "speech",
        *(f"--set={value}" for value in given),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return {document["kind"]: document for document in yaml.safe_load_all(ended.stdout) if document}


needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed")


@needs_helm
def test_a_pod_drains_and_can_write_nothing_but_uploads(
    image_environment: dict[str, str], dockerfile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = rendered("drainSeconds=100", "apiKeys.existingSecret=speech-keys")
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] >= 100 + LEAVE_S
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile
    assert pod["enableServiceLinks"] is False, "a Service called stentor would set STENTOR_PORT"
    assert container["ports"][0]["containerPort"] == int(image_environment["STENTOR_PORT"])
    paths = {
        probe: container[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    file = Path(environment.pop("STENTOR_API_KEYS_FILE"))
    assert file.parent == Path(container["volumeMounts"][1]["mountPath"])
    assert pod["volumes"][1]["secret"]["items"][0]["path"] == file.name
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    assert settings.drain_timeout_s == 100
    assert settings.max_stored_bytes < 8 << 30
    assert pod["volumes"][0]["emptyDir"] == {"sizeLimit": "8Gi"}


@needs_helm
def test_services_and_budgets_find_the_pods() -> None:
    documents = rendered("ingress.enabled=true", "serviceMonitor.enabled=true")
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert documents["Service"]["spec"]["selector"].items() <= labels.items()
    assert documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    service = documents["Service"]["metadata"]
    assert documents["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= service["labels"].items()
    (rule,) = documents["Ingress"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == service["name"]


@needs_helm
@pytest.mark.parametrize("kind", ["ScaledObject", "HorizontalPodAutoscaler"])
def test_it_scales_by_a_series_that_exists(kind: str) -> None:
    chosen = "keda" if kind == "ScaledObject" else "hpa"
    documents = rendered("autoscaling.enabled=true", f"autoscaling.kind={chosen}")
    target = documents[kind]["spec"]["scaleTargetRef"]["name"]
    assert target == documents["Deployment"]["metadata"]["name"]
    assert "replicas" not in documents["Deployment"]["spec"]
    (named,) = set(re.findall(r"\bstentor_\w+", json.dumps(documents[kind])))
    assert f"| `{named}` | gauge |" in (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


@needs_helm
def test_helm_finds_no_fault() -> None:
    assert HELM is not None
    ended = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
