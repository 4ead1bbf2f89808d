"""Files of `ops/`: each is checked by its own tool if that is installed, and briefly without."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.markdown import ROOT
from tests.waiting import WAIT_S_MAX

OPS = ROOT / "ops"
UNIT = OPS / "systemd/tms.service"
MANIFESTS = sorted((OPS / "kubernetes").glob("*/*.yaml"))
RULES = yaml.safe_load((OPS / "prometheus/rules.yml").read_text(encoding="utf-8"))["groups"][0]
TESTS = yaml.safe_load((OPS / "prometheus/rules_test.yml").read_text(encoding="utf-8"))
METRICS = frozenset(
    re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
)
EXPOSURE_MAX = 30
"""Ten times the exposure that `systemd-analyze security` may report."""


def ran(*command: object, cwd: Path = ROOT) -> str:
    """Run a tool, which must succeed, and return its output; skip the test if it is missing."""
    tool = shutil.which(str(command[0]))
    if tool is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        [tool, *map(str, command[1:])],
        check=False,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT_S_MAX,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def named_in(expression: str) -> set[str]:
    """Return the metrics of an expression, with the names that docs/metrics.md uses."""
    names = re.findall(r"\b(?:tms|process)_\w+", expression)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


@pytest.mark.slow
def test_the_unit_is_valid_and_hardened(tmp_path: Path) -> None:
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/tms/bin/tms", "/bin/true"))

    assert ran("systemd-analyze", "verify", here) == ""
    ran("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", here)


def test_the_unit_notifies_and_has_a_watchdog() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE))

    assert settings["Type"] == "notify"
    assert int(settings["WatchdogSec"]) > 0
    assert settings["User"] == "tms"
    assert "--log-format json" in settings["ExecStart"]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["single", "cluster"])
def test_manifests_are_built_by_kubectl(folder: str) -> None:
    built = ran("kubectl", "kustomize", OPS / "kubernetes" / folder)

    kinds = [each["kind"] for each in yaml.safe_load_all(built)]
    assert {"Service", "StatefulSet"} <= set(kinds)
    assert "image: tms:0.2.0" in built


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_pods_may_do_little_and_are_probed(path: Path) -> None:
    objects: list[Any] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for each in objects:
        if each["kind"] != "StatefulSet":
            continue
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"
        names = {volume["name"] for volume in pod["volumes"]}
        names |= {
            claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())
        }
        assert {mount["name"] for mount in container["volumeMounts"]} == names


def test_the_image_runs_without_rights() -> None:
    text = (OPS / "container/Containerfile").read_text(encoding="utf-8")

    assert re.search(r"^USER 10001", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    assert "--no-auth" not in text


@pytest.mark.slow
def test_rules_do_as_their_tests_say() -> None:
    ran("promtool", "check", "rules", "rules.yml", cwd=OPS / "prometheus")
    ran("promtool", "test", "rules", "rules_test.yml", cwd=OPS / "prometheus")


def test_every_alert_has_a_test_and_metrics_that_exist() -> None:
    alerts = {rule["alert"] for rule in RULES["rules"]}
    fired = {
        each["alertname"]
        for test in TESTS["tests"]
        for each in test["alert_rule_test"]
        if each["exp_alerts"]
    }

    assert fired == alerts
    for rule in RULES["rules"]:
        assert named_in(rule["expr"]) <= METRICS, rule["alert"]


def test_the_dashboard_shows_metrics_that_exist() -> None:
    dashboard = json.loads((OPS / "grafana/tms.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    assert set().union(*map(named_in, expressions)) <= METRICS
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
