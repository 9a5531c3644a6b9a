#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A host on the segment forges requests in a peer's name. It attacks connections in use of which it knows only the queue
# pair numbers. No connection may break, and every byte of the soak must be right.

. "$(dirname "$0")/lib.sh"
net_init
start_veth_pair
export ONESIDE_SOAK_SECONDS=30
mac=$(ip netns exec "oneside-$$-b" cat /sys/class/net/veth0/address)

# Prints the queue pairs of plane b that are connected to plane a; plane b responds to the requests.
numbers() {
	"$BUILD/control/onesidectl" --socket "$(plane_socket b).ctl" --json show connections 2>/dev/null | python3 -c '
import json, sys
shown = json.load(sys.stdin)["connections"]
print(*[c["qpn"] for c in shown if c.get("state") == "up" and c.get("peer", "").startswith("192.0.2.1")])' 2>/dev/null
}

"$BUILD/tests/net/net-dat-load" "$(plane_socket a)" "$(plane_socket b)" soak >"$WORK/soak.log" 2>&1 &
soak=$!
APPLICATIONS+=("$soak")
until [ -n "$(numbers)" ]; do
	kill -0 "$soak" 2>/dev/null || { cat "$WORK/soak.log" >&2; fail "the soak has ended without a connection"; }
	sleep 0.1
done
# Stop both processes of the soak meanwhile, so that the connection handles the packets held for it afterwards.
mapfile -t both < <(echo "$soak" && pgrep -P "$soak")
kill -STOP "${both[@]}"
for qpn in $(numbers | cut -d ' ' -f 1-2); do
	ip netns exec "oneside-$$-a" "$BUILD/tests/net/net-inject" veth0 "$mac" 192.0.2.2 192.0.2.1 "$qpn" || fail "net-inject: status $?"
done
kill -CONT "${both[@]}"
wait "$soak" || { cat "$WORK/soak.log" >&2; fail "forged requests have broken a connection, or its data"; }
dropped=$("$BUILD/control/onesidectl" --socket "$(plane_socket b).ctl" --json show transport | python3 -c '
import json, sys
print(sum(core["drop_address"] for core in json.load(sys.stdin)["transport"]))')
say "$dropped frames dropped"
[ "${dropped:-0}" -gt 1000 ] || fail "at most 1000 forged frames were dropped, too few for this test"
stop_plane b
stop_plane a
