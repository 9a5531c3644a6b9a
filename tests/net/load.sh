#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Test many connections, many endpoints, and a soak in which every byte is checked:
#
#   load.sh local SECONDS    on one data plane
#   load.sh memif SECONDS    across two data planes
#   load.sh lossy SECONDS    across two joined by a bridge that drops one RoCEv2 frame in a hundred; only the soak
#   load.sh moved-local SECONDS, moved-memif, moved-lossy
#                            only the soak, while every queue pair moves between two polling cores all the time
#
# SECONDS: duration of the soak

. "$(dirname "$0")/lib.sh"
net_init
PROGRAM=$BUILD/tests/net/net-dat-load
export ONESIDE_SOAK_SECONDS=$2

# Starts data planes in namespaces a and b; a bridge in a namespace between them drops frames.
start_lossy_pair() {
	local name ns
	need_root
	command -v nft >/dev/null || skip "nft is missing: apt-get install nftables"
	make_namespace a
	make_namespace b
	make_namespace bridge
	ip -n "$NETNS" link add br0 type bridge
	ip -n "$NETNS" link set br0 mtu "$CABLE_MTU" up
	for name in a b; do
		ns=oneside-$$-$name
		ip link add veth0 netns "$ns" mtu "$CABLE_MTU" type veth peer name "port-$name" netns "$NETNS" mtu "$CABLE_MTU" ||
			fail "no veth pair"
		ip netns exec "$ns" ethtool -K veth0 tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.veth0.disable_ipv6=1
		ip -n "$NETNS" link set "port-$name" master br0 up
		ip -n "$ns" link set veth0 up
	done
	ip netns exec "$NETNS" nft -f - <<-RULES || fail "nft refuses the rule that drops frames"
		table bridge lossy {
			chain forward {
				type filter hook forward priority 0;
				udp dport 4791 numgen random mod 100 < 1 counter drop
			}
		}
	RULES
	start_af_packet_plane a
	start_af_packet_plane b
}

# soak PLANE PLANE: runs the soak on two data planes, or on one.
soak() {
	"$PROGRAM" "$(plane_socket "$1")" "$(plane_socket "$2")" soak || fail "the soak"
}

# moved PLANE: fails unless queue pairs have moved many times.
moved() {
	local moves
	stop_mover "$1" || fail "the mover of data plane $1"
	moves=$(sed -n 's/.* accepted, \([0-9]*\) made/\1/p' "$WORK/$1.moves")
	[ "$moves" -gt "$ONESIDE_SOAK_SECONDS" ] || fail "$moves moves of data plane $1: too few for a test"
}

case $1 in moved-*)
	PLANE_CORES=2
	PLANE_MOVES=yes
	;;
esac
case $1 in
moved-local)
	start_memif_plane a
	soak a a
	moved a
	;;
moved-memif)
	start_memif_pair
	soak a b
	moved a
	moved b
	stop_plane b
	;;
moved-lossy)
	start_lossy_pair
	soak a b
	moved a
	moved b
	stop_plane b
	;;
local)
	start_memif_plane a
	"$PROGRAM" "$(plane_socket a)" "$(plane_socket a)" || fail "load on one data plane"
	;;
memif)
	start_memif_pair
	"$PROGRAM" "$(plane_socket a)" "$(plane_socket b)" || fail "load across two data planes"
	stop_plane b
	;;
lossy)
	start_lossy_pair
	soak a b
	dropped=$(ip netns exec "$NETNS" nft list table bridge lossy | sed -n 's/.*packets \([0-9]*\) .*/\1/p')
	say "$dropped frames were dropped"
	[ "${dropped:-0}" -gt $((ONESIDE_SOAK_SECONDS * 10)) ] || fail "too few frames were dropped for a test of loss"
	stop_plane b
	;;
*)
	fail "load.sh: \"$1\" is not a kind of run"
	;;
esac
stop_plane a
