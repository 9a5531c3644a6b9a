#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that doc/monitoring.md, the alerts and the dashboard agree, and that Prometheus accepts them.

    monitoring.py [PROMTOOL]    checks; prints what does not agree; exit 1
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import rooms

METRIC = re.compile(r"\boneside_[a-z_]+\b")
LINE = re.compile(r'\blog_(error|warning|notice|info|of_others|of_user)\(\s*(?:(?:[\w>.-]+,\s*)?(error|warning|notice|info),\s*)?'
                  r'"((?:[^"\\]|\\.)*)"')


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def expressions(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def metrics(document, used):
    """Yields the used names that the lists lack; a metric's type gives its samples a suffix."""
    known = {}
    for kind, names in re.findall(r"^\* (counter|info|gauge|histogram): ((?:.|\n  )*)", document, re.M):
        suffixes = {"counter": ["_total"], "info": ["_info"], "gauge": [""],
                    "histogram": ["_bucket", "_sum", "_count"]}[kind]
        known.update({name + suffix: kind for name in METRIC.findall(names) for suffix in suffixes})
    if not known:
        yield "doc/monitoring.md: there is no list of metrics"
    for path, text in used.items():
        yield from (f"{path}: {name} is no metric of doc/monitoring.md"
                    for name in sorted(set(METRIC.findall(text))) if name not in known)


def alerts(document, rules, tests):
    defined = re.findall(r"^ *- alert: (\w+)$", rules, re.M)
    documented = re.findall(r"`(Oneside\w+)`", document)
    tested = set(re.findall(r'alertname="(\w+)"', tests))
    if defined != documented:
        yield f"doc/monitoring.md lists the alerts {documented}, the rules have {defined}"
    yield from (f"{name}: no test of oneside.test.yml makes it fire" for name in defined if name not in tested)
    if not rules.count("description:") == rules.count("summary:") == len(defined):
        yield "oneside.rules.yml: an alert has no description, which should explain what to do"


def events(root, document):
    """Checks that each line of the log begins with its event, and that events from level notice on are in the list of
    doc/monitoring.md."""
    made = {}
    for path in sorted(p for p in rooms.sources(root) if p.startswith(("control/", "dataplane/"))):
        for macro, level, text in LINE.findall(read(root, path)):
            level = level or macro
            event = re.match(r"(?:control: )?event=([a-z_]+)[ \\%]", text)
            if event is None:
                yield f"{path}: a line of the log does not begin with event=NAME: {text}"
            elif level in ("notice", "warning", "error"):
                made[event[1]] = level
    documented = dict(re.findall(r"^\* `([a-z_]+)` (notice|warning|error): .+$", document, re.M))
    yield from (f"doc/monitoring.md: the {level} `{event}` is not in the list of the log, or with another level"
                for event, level in made.items() if documented.get(event) != level)
    yield from (f"doc/monitoring.md: no source logs `{event}`" for event in documented if event not in made)


def panels(dashboard):
    numbers = [panel["id"] for panel in dashboard["panels"]]
    if len(numbers) != len(set(numbers)):
        yield "oneside.json: two panels have one number"
    places = [(panel["title"], panel["gridPos"]) for panel in dashboard["panels"]]
    for i, (title, a) in enumerate(places):
        if a["x"] + a["w"] > 24:
            yield f"oneside.json: {title}: wider than the page"
        for other, b in places[:i]:
            if a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] \
                    and b["y"] < a["y"] + a["h"]:
                yield f"oneside.json: {title} lies over {other}"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield " ".join(command) + ":\n" + done.stdout + done.stderr


def by_promtool(promtool, root, dashboard):
    yield from run(promtool, "check", "rules", os.path.join(root, "doc/prometheus/oneside.rules.yml"))
    yield from run(promtool, "test", "rules", os.path.join(root, "doc/prometheus/oneside.test.yml"))
    with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as rules:
        # promtool reads YAML, of which JSON is a subset.
        json.dump({"groups": [{"name": "dashboard", "rules": [
            {"record": f"panel_{i}", "expr": expr.replace("$__rate_interval", "5m").replace("$instance", ".*")}
            for i, (_, expr) in enumerate(expressions(dashboard))]}]}, rules)
        rules.flush()
        yield from run(promtool, "check", "rules", rules.name)


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    document = read(root, "doc/monitoring.md")
    rules, tests = (read(root, f"doc/prometheus/oneside.{what}.yml") for what in ("rules", "test"))
    dashboard = json.loads(read(root, "doc/grafana/oneside.json"))
    shown = "\n".join(expr for _, expr in expressions(dashboard))
    bad = [*metrics(document, {"oneside.rules.yml": "\n".join(re.findall(r"expr: (.*)", rules)),
                               "oneside.test.yml": tests, "oneside.json": shown}),
           *alerts(document, rules, tests), *events(root, document), *panels(dashboard)]
    promtool = shutil.which("promtool") or (sys.argv[1] if len(sys.argv) > 1 and os.access(sys.argv[1], os.X_OK) else None)
    if promtool is not None:
        bad += by_promtool(promtool, root, dashboard)
    elif os.environ.get("NO_SKIP"):
        bad.append("NO_SKIP is set: there is no promtool (Debian: prometheus)")
    print("\n".join(bad) or "nothing to say")
    if promtool is None and not bad:
        print("SKIPPED: alerts and dashboard agree; there is no promtool (Debian: prometheus) to try them")
        return 77
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
