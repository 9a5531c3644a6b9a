#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# With more programs than processors, run Debian's dapltest over two data planes joined by memif, next to busy loops. memif
# loses no frames, so no connection may break and no test may fail, however slow the machine is.
#
#   starved.sh yield|sleep SECONDS     runs for at least SECONDS

. "$(dirname "$0")/lib.sh"
command -v dapltest >/dev/null || skip "dapltest is missing: apt-get install dapl2-utils"
LIBRARY=$BUILD/api/dat2/libdaplone.so.2
[ -e "$LIBRARY" ] || fail "$LIBRARY is not built"
net_init
PLANE_IDLE=$1
seconds=$2
IA=oneside-v2
SERVER=192.0.2.1
LOOPS=$(($(allowed_cpus | wc -l) * 4)) # eight on two processors

# Prints counters of each plane; fails if a connection broke, or if a core never lost its processor.
counters() {
	python3 -B - "$(dirname "$0")/../../perf" "$(basename "$WORK")" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
from comparison.planes import telemetry
for plane in "a", "b":
    transport = next(iter(telemetry(f"{sys.argv[2]}-{plane}", "/oneside/transport").values()))
    core = next(iter(telemetry(f"{sys.argv[2]}-{plane}", "/oneside/cores").values()))
    print(f"{plane}: {core['gaps']} gaps, {core['gaps_ms']} ms; {core['rx_packets']} frames, "
          f"{transport['timeouts']} timeouts, {transport['retransmitted']} retransmitted")
    if transport["retry_exceeded"] != 0:
        sys.exit(f"plane {plane} gave {transport['retry_exceeded']} connections up, and nothing was lost")
    if core["gaps"] == 0:
        sys.exit(f"the core of plane {plane} was never off its processor: this proves nothing")
PYTHON
}

# watch CPU: runs in the background; $WORK/late.CPU has the longest time in ms that an ordinary program had to wait for that
# processor so far.
watch() {
	exec python3 -B - "$1" "$WORK/late.$1" <<'PYTHON'
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
late, before = 0, time.monotonic()
while True:
    time.sleep(0.02)
    now = time.monotonic()
    if now - before > late:
        late = now - before
        with open(sys.argv[2] + ".new", "w") as f:
            f.write(f"{late * 1000:.0f}\n")
        os.rename(sys.argv[2] + ".new", sys.argv[2])
    before = now
PYTHON
}

# Busy loops have time slices of milliseconds. If a real-time program or a hypervisor occupied a processor for seconds, a
# failure proves nothing: skip the test.
broken() {
	local latest
	latest=$(cat "$WORK"/late.* | sort -n | tail -n 1)
	[ "${latest:-0}" -lt 2000 ] || skip "other programs occupied a processor for $latest ms: $*"
	fail "$*"
}

start_memif_pair
for cpu in $(allowed_cpus); do
	watch "$cpu" &
	APPLICATIONS+=($!)
done
for plane in a b; do
	printf '%s u2.0 nonthreadsafe default %s oneside.2.0 "socket=%s" ""\n' \
		$IA "$LIBRARY" "$(plane_socket $plane)" >"$WORK/dat.conf.$plane"
done
: >"$WORK/server.out"
DAT_OVERRIDE=$WORK/dat.conf.a stdbuf -oL dapltest -T S -D $IA >"$WORK/server.out" 2>&1 &
server=$!
APPLICATIONS+=("$server")
until grep -q 'Service Point Ready' "$WORK/server.out"; do
	kill -0 "$server" 2>/dev/null || fail "dapltest does not serve: $(cat "$WORK/server.out")"
	sleep 0.1
done
for ((i = 0; i < LOOPS; i++)); do
	(while :; do :; done) &
	APPLICATIONS+=($!)
done

# client ARGUMENTS...: runs a client of dapltest, for as long as it takes.
client() {
	DAT_OVERRIDE=$WORK/dat.conf.b dapltest "$@" >"$WORK/client.out" 2>&1 &&
		! grep -Eiq 'fail|error|mismatch|unexpected' "$WORK/client.out" "$WORK/server.out" && return
	tail -n 30 "$WORK/server.out" "$WORK/client.out" >&2
	counters
	broken "dapltest $* next to $LOOPS busy loops"
}

# -i 20 iterations take long enough for dapltest's fault with threads, which dapl2.sh explains.
runs=0
while [ "$SECONDS" -lt "$seconds" ] || [ "$runs" = 0 ]; do
	client -T T -D $IA -s $SERVER -i 20 -V -t 8 -w 8 client RW 4096 1 server RR 8192 2 client SR 1024 1 server SR 2048 1
	runs=$((runs + 1))
done
client -T Q -D $IA -s $SERVER
wait "$server" || broken "the server of dapltest ends with status $?"
counters || broken "connections broke next to $LOOPS busy loops"
say "$runs runs of dapltest in $SECONDS s next to $LOOPS busy loops"
stop_plane b
stop_plane a
