#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Local transfers by a DMA device: DPDK's dma_skeleton, whose copies end on a thread of its own.

. "$(dirname "$0")/lib.sh"
net_init
PROGRAMS=$BUILD/tests/net
ROUNDS=${ROUNDS:-15}

# cores EXPRESSION: true of the counters of plane a's core, c, as soon as it has published them.
cores() {
	python3 -B - "$(dirname "$0")/../../perf" "$(basename "$WORK")-a" "$1" <<'PYTHON' || fail "/oneside/cores"
import sys, time
sys.path.insert(0, sys.argv[1])
from comparison.planes import telemetry
deadline = time.time() + 20
while True:
    c = next(iter(telemetry(sys.argv[2], "/oneside/cores").values()))
    if eval(sys.argv[3]):
        break
    if time.time() > deadline:
        sys.exit(f"{c} is not {sys.argv[3]}")
    time.sleep(0.05)
PYTHON
}

pair() { # PROGRAM CASE...
	"$PROGRAMS/$1" "$(plane_socket a)" "$(plane_socket a)" "${@:2}"
}

# One polling core each: the device has one channel.
PLANE_MEMORY+=" --vdev=dma_skeleton"
start_memif_plane a --socket-mode 0666 --dma dma_skeleton

say "== every byte"
pair net-dat-dma moves || fail "writes and reads"
cores 'c["dma_copies"] > 1000 and c["dma_bytes"] > 0.9 * c["local_bytes"] and c["dma_failed"] == 0'
pair net-dat-transfer || fail "transfers of all sizes"

say "== ends are killed and memory is deregistered in the middle, again and again, beside honest applications"
pair net-dat-dma moves moves >"$WORK/beside" 2>&1 &
beside=$!
APPLICATIONS+=("$beside")
for ((i = 0; i < ROUNDS; i++)); do
	pair net-dat-dma target_killed source_killed deregister >"$WORK/round" 2>&1 || {
		cat "$WORK/round" >&2
		fail "round $i"
	}
done
wait "$beside" || {
	cat "$WORK/beside" >&2
	fail "an honest application suffered"
}
kill -0 "$(plane_pid a)" || fail "the data plane did not survive"

say "== hostile applications"
"$PROGRAMS/net-hostile" "$(plane_socket a)" || fail "hostile applications"
pair net-dat-dma moves || fail "afterwards"
cores 'c["dma_failed"] == 0'
stop_plane a

say "== it sleeps"
PLANE_IDLE=sleep start_memif_plane a --dma dma_skeleton
pair net-dat-dma || fail "with a core that sleeps"
stop_plane a
