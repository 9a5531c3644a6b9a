#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# perf.sh local|memif: runs each test of oneside-perf briefly, and checks the form of its output; any rate will do.
set -u -o pipefail
. "$(dirname "$0")/lib.sh"
PERF=${PERF:-$BUILD/perf/oneside-perf}

# serve PLANE OPTIONS...: starts a server in the background, which is ready on return; $SERVER is its pid.
serve() {
	local plane=$1
	shift
	: >"$WORK/server"
	ONESIDE_SOCKET=$(plane_socket "$plane") "$PERF" --once "$@" 2>"$WORK/server" &
	SERVER=$!
	APPLICATIONS+=("$SERVER")
	until grep -qE 'serving on|published on' "$WORK/server"; do
		kill -0 "$SERVER" 2>/dev/null || {
			cat "$WORK/server" >&2
			fail "no server of $*"
		}
		sleep 0.05
	done
}

# measure OPTIONS...: runs a client and a server with the same options; the client's output is in $WORK/out.
measure() {
	say "oneside-perf $*"
	serve "$SERVER_PLANE" "$@"
	ONESIDE_SOCKET=$(plane_socket a) "$PERF" "$@" --node "$NODE" "$HOST" >"$WORK/out" 2>"$WORK/err" || {
		cat "$WORK/err" "$WORK/server" >&2
		fail "oneside-perf $*"
	}
	wait "$SERVER" || {
		cat "$WORK/server" >&2
		fail "the server of oneside-perf $*"
	}
	APPLICATIONS=()
	[ ! -s "$WORK/err" ] || {
		cat "$WORK/err" >&2
		fail "oneside-perf $* wrote to standard error, which is not a terminal"
	}
}

# lines COUNT: the output must have COUNT lines of figures, each with as many numbers as the heading has fields.
lines() {
	awk -v want="$1" '
		/^ #bytes/ { for (i = 1; i <= NF; i++) if ($i ~ /^#|\[/) fields++ }
		/^ [0-9]/ {
			seen++
			if (NF != fields) { print "a line of " NF " fields below a heading of " fields; bad = 1 }
			for (i = 1; i <= NF; i++) if ($i !~ /^[0-9]+(\.[0-9]+)?$/) { print $i " is no number"; bad = 1 }
			if ($NF <= 0) { print "a rate or a time of " $NF; bad = 1 }
		}
		END { if (seen != want) { print seen " lines instead of " want; bad = 1 } exit bad }' "$WORK/out" || {
		cat "$WORK/out" >&2
		fail "the output of oneside-perf has the wrong form"
	}
}

# json EXPRESSION: must be true of each line of JSON, r.
json() {
	python3 - "$WORK/out" "$1" <<'PYTHON' || fail "JSON: $(cat "$WORK/out")"
import json, sys
results = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(not (results and all(eval(f"({sys.argv[2]})") for r in results)))
PYTHON
}

# stages PARAMETERS EXPRESSION: must become true of /oneside/stages of plane a's core, c, which publishes its counters
# every millisecond while it has a processor.
stages() {
	python3 -B - "$(dirname "$0")/../../perf" "$(basename "$WORK")-a" "/oneside/stages$1" "$2" <<'PYTHON' || fail "/oneside/stages$1"
import sys, time
sys.path.insert(0, sys.argv[1])
from comparison.planes import telemetry
deadline = time.time() + 20
while True:
    answer = telemetry(sys.argv[2], sys.argv[3])
    c = next(iter(answer.values()), None)
    if eval(f"({sys.argv[4]})"):
        break
    if time.time() > deadline:
        sys.exit(f"{answer} is not {sys.argv[4]}")
    time.sleep(0.05)
PYTHON
}

net_init
case ${1:-} in
local)
	start_memif_plane a
	SERVER_PLANE=a NODE=1 HOST=192.0.2.1
	;;
memif)
	start_memif_pair
	SERVER_PLANE=b NODE=2 HOST=192.0.2.2
	;;
*) fail "usage: perf.sh local|memif" ;;
esac

ONESIDE_SOCKET=$(plane_socket a) "$PERF" -t write_bw "$HOST" >"$WORK/out" 2>&1 && fail "status 0 without a server"
expect 'oneside-perf: expected ESTABLISHED, got NON_PEER_REJECTED; no server waits there: start it first' "$WORK/out"
for test in write_bw read_bw send_bw; do
	measure -t $test -s 4096 -n 1000
	lines 1
	measure -t $test -s 64 -n 2000 -q 4 -Q 8 -t 32 --perform_warm_up --json
	json 'r["test"] == "'$test'" and r["bytes"] == 64 and r["iterations"] == 2000 and r["endpoints"] == 4 and
		r["depth"] == 32 and r["ops"] > 0 and r["peak_ops"] > 0 and "latency_ns" not in r'
	measure -t $test -s 1000 -n 1000 -b -q 2 -N --json
	json 'r["iterations"] == 2000 and r["ops"] > 0 and "peak_ops" not in r'
done
for test in write_lat read_lat send_lat write_pp send_pp; do
	measure -t $test -s 8 -n 500
	lines 1
	measure -t $test -s 5000 -n 200 --json
	json 'r["latency_ns"]["min"] > 0 and r["latency_ns"]["min"] <= r["latency_ns"]["p50"] <=
		r["latency_ns"]["p99"] <= r["latency_ns"]["p99.99"] <= r["latency_ns"]["max"]'
done
measure -t write_bw -a -n 20
lines 23
measure -t write_bw -D 0.2 --idle-qp 40 --json
json 'r["seconds"] >= 0.2 and r["iterations"] > 0'
measure -t write_bw -n 3000 -q 4 -T 2 --json
json 'r["iterations"] >= 3000 and r["endpoints"] == 4 and r["ops"] > 0'
measure -t write_lat -n 300 -H
expect '99.99% percentile[usec]' "$WORK/out"

# Cycles are counted by stage only while that is switched on.
counted='[c[k] for k in ("commands", "driver_rx", "input", "inbound", "doorbells", "work", "output", "timers",
	"publish", "driver_tx", "other", "idle")]'
stages '' "c['on'] == 0 and c['busy_loops'] == 0 and not any($counted)"
stages ',on' "c['on'] == 1 and c['hz'] > 0"
measure -t write_bw -n 5000
stages ',wrong' "c == 'its parameter is on or off'"
stages ',off' "c['busy_loops'] > 0 and c['work'] > 0 and c['publish'] > 0 and c['idle'] > 0"
stages '' "c['on'] == 0"

for test in put get putv getv; do
	measure -t ${test}_bw -s 4096 -n 1000 -t 16 -q 2 --report_gbits
	expect 'BW average[Gb/sec]' "$WORK/out"
	lines 1
	measure -t ${test}_lat -s 64 -n 200
	lines 1
done
measure -A rsm -n 200 -t 8 --json
json 'r["test"] == "put_bw"'
measure -t put_bw -a -n 16 -t 4
lines 23
measure -t barrier_lat -s 64 -n 200
lines 1
measure -t signal_pp -n 200
lines 1
if [ "$1" = local ]; then
	for test in map_put map_get; do
		measure -t ${test}_bw -s 8 -n 100000 --json
		json 'r["ops"] > 0'
		measure -t ${test}_lat -s 4096 -n 1000
		lines 1
	done
else
	serve b -t map_put_bw
	ONESIDE_SOCKET=$(plane_socket a) "$PERF" -t map_put_bw --node 2 server >"$WORK/out" 2>"$WORK/err" &&
		fail "a segment of another host was mapped"
	expect 'mappings are for segments of the same host' "$WORK/err"
	kill "$SERVER"
	wait "$SERVER"
	APPLICATIONS=()
fi

for plane in a b; do
	[ -z "${PLANE_PID[$plane]:-}" ] || stop_plane $plane
done
say "done"
