#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A data plane answers ARP, neighbour discovery and ping of the kernel, which is at the other end of a veth pair
# (af_packet, af_xdp) or of a tap.
#   ping.sh 4|6 af_packet|af_xdp|tap spin|yield|sleep
. "$(dirname "$0")/lib.sh"
family=$1 driver=$2
export PLANE_IDLE=$3
net_init
need_root
make_namespace a
host=oneside-$$-a iface=tap0 mtu=1500
if [ "$driver" = af_xdp ]; then
	python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW, 0)' 2>/dev/null ||
		skip "this kernel has no AF_XDP sockets"
fi
if [ "$driver" != tap ]; then
	make_namespace host
	make_veth "oneside-$$-a" "oneside-$$-host"
	host=oneside-$$-host iface=veth0
	[ "$driver" = af_packet ] && mtu=$CABLE_MTU
	ip -n "oneside-$$-a" link set veth0 mtu "$mtu"
	ip -n "$host" link set veth0 mtu "$mtu"
fi
[ "$family" = 4 ] && PLANE_NETWORK=192.0.2. || PLANE_NETWORK=2001:db8::
target=${PLANE_NETWORK}1
start_kernel_plane a 1 "$driver" "$mtu"
if [ "$family" = 4 ]; then
	big=$((mtu - 28)) bits=24
else
	ip netns exec "$host" sysctl -qw "net.ipv6.conf.$iface.disable_ipv6=0" "net.ipv6.conf.$iface.accept_dad=0"
	big=$((mtu - 48)) bits=64
fi
ip -n "$host" link set "$iface" up
ip -n "$host" addr add "${PLANE_NETWORK}100/$bits" dev "$iface"

# pings COUNT SIZE: all pings must be answered. ping -A sends the next when the last is answered, so that a busy machine
# causes delay, not loss; with -w it continues until COUNT are answered.
pings() {
	local sent received
	timeout 30 ip netns exec "$host" ping "-$family" -n -A -c "$1" -w 20 -M "do" -s "$2" "$target" >"$WORK/ping" ||
		fail "ping of $2 bytes: $(cat "$WORK/ping")"
	sent=$(sed -n 's/ packets transmitted.*//p' "$WORK/ping")
	received=$(sed -n 's/.* packets transmitted, \([0-9]*\) received.*/\1/p' "$WORK/ping")
	[ "$sent" = "$received" ] || [ "$sent" -le $(($1 + 3)) ] ||
		fail "ping of $2 bytes: $(tail -n 2 "$WORK/ping")"
	say "ping -$family -s $2: $(tail -n 2 "$WORK/ping" | head -n 1)"
}
# Ping until one is answered: the first may be lost while the link comes up.
timeout 10 ip netns exec "$host" ping "-$family" -n -q -c 1 -i 0.2 -w 5 "$target" >/dev/null
pings 3 56
pings 2 0 # too short for a time stamp: ping waits a second in between
pings 50 16
pings 20 1000
pings 20 "$big"
mac=$(ip -n "$host" neigh show "$target" | sed -n 's/.*lladdr \([0-9a-f:]*\).*/\1/p')
grep -qi "${mac:?the kernel knows no MAC}" "$(plane_log a)" || fail "the kernel learnt $mac, not the port's MAC"

# An address that is not the data plane's must stay unanswered.
timeout 10 ip netns exec "$host" ping "-$family" -n -c 1 -W 1 "${target%1}7" >/dev/null &&
	fail "${target%1}7, which no host has, is answered"

# The kernel forgets the data plane's MAC and resolves it again; a flood does no harm.
ip -n "$host" neigh flush all
timeout 30 ip netns exec "$host" ping "-$family" -n -q -f -c 2000 -W 1 "$target" >"$WORK/ping" 2>&1
say "flood: $(grep transmitted "$WORK/ping")"
pings 3 56

# veth passes all multicast; an interface that filters it passes what somebody has joined.
if [ "$family" = 6 ] && [ "$driver" != tap ]; then
	ip -n "oneside-$$-a" maddr show dev veth0 | grep -q 33:33:ff:00:00:01 || fail "the interface is not in the solicited-node group"
fi
stop_plane a
