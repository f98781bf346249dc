"""The manifest's Serve config is one that Serve takes, and its application one that can be built."""

from __future__ import annotations

from pathlib import Path

import yaml
from ray import serve
from ray.serve.schema import ServeDeploySchema

from stentor.scale.deployments import build

MANIFEST = Path(__file__).parents[2] / "deploy" / "kuberay" / "stentor.yaml"


def test_serve_takes_the_config_of_the_manifest() -> None:
    with MANIFEST.open(encoding="utf-8") as file:
        service = next(iter(yaml.safe_load_all(file)))
    config = ServeDeploySchema.model_validate(yaml.safe_load(service["spec"]["serveConfigV2"]))
    (application,) = config.applications
    assert isinstance(build(application.args), serve.Application)
