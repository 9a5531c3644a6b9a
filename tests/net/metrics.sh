#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test metrics by HTTP from a data plane with traffic: counters are exported; each family agrees with doc/monitoring.md;
# foreign parsers read the text; malformed and slow requests do not block other clients.
. "$(dirname "$0")/lib.sh"
net_init
socket=$WORK/metrics.sock
start_memif_plane a --metrics "unix:$socket"
: >"$WORK/server"
ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-perf" --once -t write_lat -s 8 -n 20000 >"$WORK/server" 2>&1 &
APPLICATIONS+=("$!")
until grep -q 'serving on' "$WORK/server"; do
	kill -0 "$!" 2>/dev/null || fail "no server: $(cat "$WORK/server")"
	sleep 0.1
done
ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-perf" -t write_lat -s 8 -n 20000 192.0.2.1 >"$WORK/client" 2>&1 ||
	fail "oneside-perf: $(cat "$WORK/client")"

python3 -B - "$socket" "$WORK" "$(dirname "$0")/../../doc/monitoring.md" <<'PYTHON' || fail "metrics"
import re, socket, sys, time

def dial():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(sys.argv[1])  # waits while the listener's backlog is full
    s.settimeout(60)
    return s

def ask(text):
    s, answer = dial(), b""
    try:
        s.sendall(text)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before all was sent
    try:
        while part := s.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body.decode()

def scrape(accept):
    time.sleep(0.2)  # a rendered text is cached for a tenth of a second
    head, body = ask(b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: " + accept + b"\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 "), head
    return body

def values(body):
    found = {}
    for line in body.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name not in found, f"{name} is exported twice"
            found[name] = float(value)
    return found

def total(found, name, *labels):
    return sum(v for k, v in found.items() if k.split("{")[0] == name and all(label in k for label in labels))

first = values(scrape(b"*/*"))
new = scrape(b"application/openmetrics-text;version=1.0.0")
for name, text in (("classic", scrape(b"*/*")), ("openmetrics", new)):
    with open(f"{sys.argv[2]}/{name}", "w", encoding="utf-8") as file:
        file.write(text)
second = values(new)
# The client made 20,000 writes, of which one in 61 was timed.
for found in (first, second):
    work = total(found, "oneside_core_work_total")
    assert work >= 20000, work
    assert total(found, "oneside_core_local_bytes_total") >= 8 * 20000
    timed = total(found, "oneside_completion_seconds_count", 'operation="write"')
    assert 20000 // 61 - 2 <= timed <= work / 61 + 2, timed
    assert total(found, "oneside_completion_seconds_sum", 'operation="write"') > 0
    assert total(found, "oneside_request_seconds_count", 'request="qp_create"') >= 2
    assert total(found, "oneside_attached_total") == total(found, "oneside_request_seconds_count", 'request="hello"') >= 2
    assert total(found, "oneside_resource_limit", 'resource="attachments"') == 256
    assert found['oneside_port_up{port="p0"}'] == 0  # the cable has no peer
counters = {n: v for n, v in first.items() if re.search(r"_(total|count|bucket|sum)(\{|$)", n)}
assert all(second[n] >= v for n, v in counters.items() if 'client="' not in n), "a counter has gone back"

# The document lists each family under its type, with its labels, and no other; each family has a HELP line.
kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", new, re.M))
helps = dict(re.findall(r"^# HELP (\S+) (.*)$", new, re.M))
labels = {n: set() for n in kinds}
for sample in second:
    name = sample.split("{")[0]
    family = next(n for n in (name, re.sub(r"_(total|info|count|bucket|sum)$", "", name)) if n in kinds)
    labels[family] |= set(re.findall(r'(\w+)="', sample)) - {"le"}
documented = []
with open(sys.argv[3], encoding="utf-8") as document:
    for heading, text in re.findall(r"^### (.*)\n((?:(?!#).*\n)*)", document.read(), re.M):
        common = re.findall(r"`(\w+)`", heading)
        for kind, names in re.findall(r"^\* (\w+): ((?:.|\n  )*)", text, re.M):
            documented += [(name, kind, {*common, *own.split(", ")})
                     for name, own in re.findall(r"`(oneside_\w+)`(?: \(([\w, ]+)\))?", re.sub(r"\s+", " ", names))]
assert len(documented) == len({row[0] for row in documented}), "doc/monitoring.md: a metric is listed twice"
bad = [f"{n} is in doc/monitoring.md and is not exported" for n, *_ in documented if n not in kinds]
documented = {row[0]: row[1:] for row in documented}
for name, kind in kinds.items():
    known = documented.get(name, ("", set()))
    # Labels of clients need not be present each time: compare subsets.
    if known[0] != kind or not helps.get(name) or not labels[name] <= known[1]:
        bad.append(f"doc/monitoring.md: {kind}: `{name}` ({', '.join(sorted(labels[name]))}): {helps.get(name)}")
assert not bad, "\n" + "\n".join(bad)

# A malformed request gets an error; a client that is slow or silent delays others by at most a second.
assert ask(b"x\r\n\r\n") == ("", "")  # closed without an answer
for wrong, status in ((b"GET /metrics HTTP/1.1\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 404), (b"y" * 100000, 414)):
    head, _ = ask(wrong)
    assert head.startswith(f"HTTP/1.1 {status} "), head
crowd = [dial() for _ in range(32)]
for s in crowd[::2]:
    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
assert total(values(scrape(b"*/*")), "oneside_core_loops_total") > total(second, "oneside_core_loops_total")
for s in crowd:
    s.close()
PYTHON

# Out of descriptors no connection is accepted, the listener's thread (that of nice 10) does not spin, and goes on when there are.
listener_ticks() { awk '$19 == 10 {print $14 + $15}' /proc/"$(plane_pid a)"/task/*/stat; }
descriptors=$(prlimit --pid "$(plane_pid a)" --nofile --noheadings --output SOFT)
prlimit --pid "$(plane_pid a)" --nofile=3: || fail "no limit of descriptors"
before=$(listener_ticks)
/usr/bin/python3 -c 'import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); time.sleep(1)' "$socket"
[ $(($(listener_ticks) - before)) -le 20 ] || fail "the listener spins without descriptors: $(($(listener_ticks) - before)) ticks in a second"
prlimit --pid "$(plane_pid a)" --nofile="$descriptors:"
curl --silent --fail --max-time 30 --output "$WORK/again" --unix-socket "$socket" http://localhost/metrics || fail "no metrics afterwards"

# The control socket exports the same metrics, with other values.
for format in openmetrics prometheus; do
	ONESIDE_SOCKET=$(plane_socket a) "${ONESIDECTL:-$BUILD/control/onesidectl}" metrics $format >"$WORK/ctl-$format" || fail "onesidectl metrics $format"
done
names() { sed '/^#/! s/ [^ ]*$//' "$1"; }
diff <(names "$WORK/openmetrics") <(names "$WORK/ctl-openmetrics") || fail "onesidectl metrics differs from the listener"
diff <(names "$WORK/classic") <(names "$WORK/ctl-prometheus") || fail "onesidectl metrics prometheus differs from the listener"

promtool=$(command -v promtool) || promtool=$BUILD/promtool # where quickstart puts it
if [ -x "$promtool" ]; then
	for text in classic ctl-prometheus; do
		"$promtool" check metrics <"$WORK/$text" >"$WORK/lint" 2>&1 && [ ! -s "$WORK/lint" ] || fail "promtool: $text: $(cat "$WORK/lint")"
	done
else
	leave_out "promtool check metrics: there is no promtool (Debian: prometheus)"
fi
if /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null; then
	/usr/bin/python3 - "$WORK/ctl-openmetrics" <<'PYTHON' || fail "OpenMetrics, as prometheus_client reads it"
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
with open(sys.argv[1], encoding="utf-8") as text:
    assert len(list(families(text.read()))) > 50
PYTHON
else
	leave_out "OpenMetrics: there is no prometheus_client (Debian: python3-prometheus-client)"
fi
stop_plane a
[ ! -e "$socket" ] || fail "the socket of metrics is left behind"
