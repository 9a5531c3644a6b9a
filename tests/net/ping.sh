#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A data plane on af_packet answers ARP, neighbour discovery and ping from the kernel at the other
# end of a veth pair; so does one without root's hugepages.  $1: 4 or 6.
. "$(dirname "$0")/lib.sh"
net_init
need_root
family=$1
make_namespace a
make_namespace host
make_veth "oneside-$$-a" "oneside-$$-host"
host=oneside-$$-host
if [ "$family" = 4 ]; then
	PLANE_NETWORK=192.0.2. target=192.0.2.1
	ip -n "$host" addr add 192.0.2.100/24 dev veth0
	big=4172 # fills the MTU of 4200
else
	PLANE_NETWORK=2001:db8:: target=2001:db8::1
	ip netns exec "$host" sysctl -qw net.ipv6.conf.veth0.disable_ipv6=0 net.ipv6.conf.veth0.accept_dad=0
	ip -n "$host" addr add 2001:db8::100/64 dev veth0 nodad
	big=4152
fi
start_af_packet_plane a

# pings COUNT SIZE: all are answered
pings() {
	timeout 30 ip netns exec "$host" ping -"$family" -n -c "$1" -i 0.02 -W 2 -M do -s "$2" "$target" >"$WORK/ping" ||
		fail "ping of $2 bytes: $(cat "$WORK/ping")"
	expect "$1 packets transmitted, $1 received, 0% packet loss" "$WORK/ping"
	say "ping -$family -s $2: $(tail -n 2 "$WORK/ping" | head -n 1)"
}
pings 3 56
pings 50 0
pings 20 1472
pings 20 "$big"
mac=$(ip -n "$host" neigh show "$target" | sed -n 's/.*lladdr \([0-9a-f:]*\).*/\1/p')
grep -qi "$mac" "$(plane_log a)" || fail "the kernel learnt $mac, not the port's MAC"

# What is not ours stays unanswered.
timeout 10 ip netns exec "$host" ping -"$family" -n -c 1 -W 1 "${target%1}7" >/dev/null &&
	fail "somebody answers for ${target%1}7"

# The kernel forgets and finds us again; a flood does no harm.
ip -n "$host" neigh flush all
timeout 30 ip netns exec "$host" ping -"$family" -n -q -f -c 2000 -W 1 "$target" >"$WORK/ping" 2>&1
say "flood: $(grep transmitted "$WORK/ping")"
pings 3 56
stop_plane a
