#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run qperf's tests of reliable connections, by rdma_cm: each must transfer data; some tests of atomics verify the results.
#
#   verbs_qperf.sh local|memif

. "$(dirname "$0")/verbs_lib.sh"
command -v qperf >/dev/null || skip "qperf is missing: apt-get install qperf"
verbs_init "$1"
# qperf's client uses one address for TCP and for rdma_cm.
SERVER=127.0.0.1
if [ "$1" != local ]; then
	[ ${#INSIDE[@]} -gt 0 ] || skip "network namespaces need root"
	SERVER=${addresses[0]}
	ip -n "${INSIDE[3]}" addr add "$SERVER/32" dev lo
fi

on 0 qperf -lp 19765 >"$WORK/qperf.server" 2>&1 &
server=$!
APPLICATIONS+=("$server")
await_listening 19765 "$server" qperf
for test in rc_bw rc_bi_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat \
	rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
	# The server sends its port to the client before it listens there: try again.
	until on 1 qperf -lp 19765 -cm 1 -t 1 "$SERVER" "$test" >"$WORK/$test.client" 2>&1; do
		grep -q 'RDMA CM: Event rejected' "$WORK/$test.client" || {
			cat "$WORK/qperf.server" "$WORK/$test.client" >&2
			fail "$test fails"
		}
	done
	grep -qE '(bw|latency|msg_rate) +=' "$WORK/$test.client" || fail "$test prints no result: $(cat "$WORK/$test.client")"
	say "$test"
done
kill "$server"
