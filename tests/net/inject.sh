#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host on the segment forges requests in a peer's name, to connections in use of which it sees nothing but the queue
# pair numbers: no connection breaks, and every byte of the soak is right.

. "$(dirname "$0")/lib.sh"
net_init
start_veth_pair
export ONESIDE_SOAK_SECONDS=12
mac=$(ip netns exec "oneside-$$-a" cat /sys/class/net/veth0/address)

# The queue pairs of plane a that are connected to plane b, four at most.
numbers() {
	"$BUILD/control/onesidectl" --socket "$(plane_socket a).ctl" --json show connections 2>/dev/null | python3 -c '
import json, sys
shown = json.load(sys.stdin)["connections"]
print(*[c["qpn"] for c in shown if c.get("state") == "up" and c.get("peer", "").startswith("192.0.2.2")][:4])' 2>/dev/null
}

"$BUILD/tests/net/net-dat-load" "$(plane_socket a)" "$(plane_socket b)" soak >"$WORK/soak.log" 2>&1 &
soak=$!
APPLICATIONS+=("$soak")
until [ -n "$(numbers)" ]; do
	kill -0 "$soak" 2>/dev/null || { cat "$WORK/soak.log" >&2; fail "the soak has ended without a connection"; }
	sleep 0.1
done
rounds=0
while kill -0 "$soak" 2>/dev/null; do
	for qpn in $(numbers); do
		ip netns exec "oneside-$$-b" "$BUILD/tests/net/net-inject" veth0 "$mac" 192.0.2.1 192.0.2.2 "$qpn" || fail "net-inject: status $?"
		rounds=$((rounds + 1))
		kill -0 "$soak" 2>/dev/null || break
	done
done
wait "$soak" || { cat "$WORK/soak.log" >&2; fail "forged requests have broken a connection, or its data"; }
[ "$rounds" -gt 0 ] || fail "nothing was forged while the soak ran"
say "$rounds sweeps over all sequence numbers"
stop_plane b
stop_plane a
