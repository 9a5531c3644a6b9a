#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The two-process cases: uDAPL and RSM applications over
#
#   applications.sh local    one data plane
#   applications.sh memif    two, joined by memif
#   applications.sh veth     two in namespaces, joined by veth (af_packet), with a capture that
#                            tshark and an independent ICRC check look through
#   applications.sh veth6    the same over IPv6

. "$(dirname "$0")/lib.sh"
net_init
cable=$1
PROGRAMS=$BUILD/tests/net

# The kernel's limits of an ordinary user's application: another uid is used by a case.
OPTIONS=(--socket-mode 0666)

case $cable in
local)
	start_memif_plane a "${OPTIONS[@]}"
	sockets=("$(plane_socket a)" "$(plane_socket a)")
	;;
memif)
	start_memif_pair "${OPTIONS[@]}"
	sockets=("$(plane_socket a)" "$(plane_socket b)")
	;;
veth | veth6)
	[ "$cable" = veth6 ] && export PLANE_NETWORK=2001:db8::
	start_veth_pair "${OPTIONS[@]}"
	sockets=("$(plane_socket a)" "$(plane_socket b)")
	start_capture cable "oneside-$$-a" veth0
	;;
*)
	fail "applications.sh: \"$cable\" is not a kind of cable"
	;;
esac

for program in net-dat-transfer net-dat-protection net-dat-connection net-rsm net-rsm-events net-rsm-map; do
	say "== $program over $cable"
	"$PROGRAMS/$program" "${sockets[@]}" || fail "$program over $cable"
done

say "== the ring buffer of doc/examples over $cable"
ONESIDE_SOCKET=${sockets[0]} timeout 60 "$PROGRAMS/rsm_ring" consume p0 0x400000 20000 >"$WORK/ring" &
consumer=$!
APPLICATIONS+=("$consumer")
for ((tenths = 100; tenths > 0; tenths--)); do
	grep -q node "$WORK/ring" && break
	sleep 0.1
done
ONESIDE_SOCKET=${sockets[1]} timeout 60 "$PROGRAMS/rsm_ring" produce p0 "$(sed -n 's/^node //p' "$WORK/ring")" \
	0x400000 20000 || fail "the producer of the ring buffer over $cable"
wait "$consumer" || fail "the consumer of the ring buffer over $cable"
expect "20000 records" "$WORK/ring"

case $cable in
veth | veth6)
	stop_capture cable
	say "== the capture"
	python3 "$(dirname "$0")/check_capture.py" "$WORK/cable.pcap" || fail "the capture of $cable"
	;;
esac
stop_plane a
[ "$cable" = local ] || stop_plane b
