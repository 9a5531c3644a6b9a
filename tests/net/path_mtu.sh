#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A router between two data planes has a smaller MTU than both ends, and reports it by ICMP; then a switch, which reports
# nothing. Either is counted and logged, and new connections have a smaller path MTU.
. "$(dirname "$0")/lib.sh"
net_init
need_root

# Topology: a (10.1.0.1), MTU 4200, router r, MTU 1500, router s, MTU 4200, b (10.2.0.1).
for name in a r s b; do make_namespace "$name"; done
NS=oneside-$$-

# join NS_A IF_A NS_B IF_B MTU: joins two namespaces by a veth pair
join() {
	ip link add "$2" netns "$NS$1" mtu "$5" type veth peer name "$4" netns "$NS$3" mtu "$5" || fail "no veth pair"
	local end
	for end in "$1 $2" "$3 $4"; do
		# shellcheck disable=SC2086
		set -- $end
		ip netns exec "$NS$1" ethtool -K "$2" tx off rx off gso off gro off tso off >/dev/null 2>&1
		ip -n "$NS$1" link set "$2" up
	done
}
join a veth0 r ra 4200
join r rs s sr 1500
join s sb b veth0 4200
ip -n "${NS}r" addr add 10.1.0.254/24 dev ra
ip -n "${NS}r" addr add 10.3.0.1/24 dev rs
ip -n "${NS}s" addr add 10.3.0.2/24 dev sr
ip -n "${NS}s" addr add 10.2.0.254/24 dev sb
ip -n "${NS}r" route add 10.2.0.0/24 via 10.3.0.2
ip -n "${NS}s" route add 10.1.0.0/24 via 10.3.0.1
ip netns exec "${NS}r" sysctl -qw net.ipv4.ip_forward=1
ip netns exec "${NS}s" sysctl -qw net.ipv4.ip_forward=1

# start_port NAME NODE KEYS: starts a data plane on veth0 with an MTU of 4200
start_port() {
	# shellcheck disable=SC2046
	PLANE_NETNS=$NS$1 start_plane "$1" $(plane_cores "$2") $(eal_options "$1") \
		--vdev=net_af_packet0,iface=veth0,framesz=8192,blocksz=65536,framecnt=1024 -- --idle "$(plane_idle)" \
		--port "name=p0,device=net_af_packet0,mtu=4200,$3"
}

serve() { # NAME
	ONESIDE_SOCKET=$(plane_socket "$1") "$BUILD/perf/oneside-perf" >"$WORK/server" 2>&1 &
	APPLICATIONS+=($!)
	until ONESIDE_SOCKET=$(plane_socket "$1") "$BUILD/control/onesidectl" show listeners --json >"$WORK/out" && grep -q oneside-perf "$WORK/out"; do
		kill -0 $! 2>/dev/null || fail "$(cat "$WORK/server")"
		sleep 0.1
	done
}
perf() { # NAME TEST ADDRESS
	ONESIDE_SOCKET=$(plane_socket "$1") "$BUILD/perf/oneside-perf" -t "$2" -s 65536 -n 100 "$3"
}

# smaller_since NAME LINE ADDRESS TEST: checks that LINE was logged once, and that a new connection works
smaller_since() {
	expect 'new ones have a path MTU of 1024' "$(plane_log "$1")"
	perf "$1" "$4" "$3" >"$WORK/second" 2>&1 || fail "the next connection does not work: $(cat "$WORK/second")"
	[ "$(grep -c "$2" "$(plane_log "$1")")" = 1 ] || fail "it is reported again: $(grep "$2" "$(plane_log "$1")")"
	ONESIDE_SOCKET=$(plane_socket "$1") "$BUILD/control/onesidectl" metrics >"$WORK/metrics"
	grep -q '^oneside_path_mtu_reports_total [1-9]' "$WORK/metrics" || fail "$(grep path_mtu "$WORK/metrics")"
}

start_port a 1 address=10.1.0.1/24,gateway=10.1.0.254
start_port b 2 address=10.2.0.1/24,gateway=10.2.0.254
serve b
perf a write_bw 10.2.0.1 >"$WORK/first" 2>&1 &
first=$!
APPLICATIONS+=("$first")
LINE='event=path_mtu port=p0 peer=10.2.0.1 mtu=1500 text="a router on the path drops'
until grep -q "$LINE" "$(plane_log a)"; do
	kill -0 "$(plane_pid a)" "$(plane_pid b)" 2>/dev/null || fail "a data plane is gone"
	kill -0 "$first" 2>/dev/null || fail "the first transfer has ended: $(cat "$WORK/first")"
	sleep 0.1
done
kill -9 "$first"
wait "$first" 2>/dev/null
smaller_since a "$LINE" 10.2.0.1 write_bw
say "a packet that is too big for the path is reported; the next connection has a smaller path MTU, and works"
stop_plane a
stop_plane b

# Topology: c (192.0.2.1), MTU 4200, switch, MTU 1500, switch, MTU 4200, d (192.0.2.2). Bridges forward no frame that is
# longer than the MTU of its port, and report none.
for name in c d switch; do make_namespace "$name"; done
in_switch() { ip netns exec "${NS}switch" "$@"; }
in_switch ip link add to_c type veth peer name to_d
for name in c d; do
	join "$name" veth0 switch "port_$name" 4200
	in_switch ip link add "br_$name" type bridge
	in_switch ip link set "port_$name" master "br_$name"
	in_switch ip link set "to_$([ "$name" = c ] && echo d || echo c)" mtu 1500 master "br_$name" up
	in_switch ip link set "br_$name" up
done
start_port c 1 address=192.0.2.1/24,ack_timeout=14
start_port d 2 address=192.0.2.2/24,ack_timeout=14

line='event=path_mtu port=p0 peer=192.0.2.2 mtu=1500 text="short messages are answered'
serve d
# A peer that answers the DREQ late, on a busy machine, shows nothing: another connection breaks.
until grep -q "$line" "$(plane_log c)"; do
	kill -0 "$(plane_pid c)" "$(plane_pid d)" 2>/dev/null || fail "a data plane is gone"
	! perf c write_bw 192.0.2.2 >"$WORK/first" 2>&1 || grep -q "$line" "$(plane_log c)" || fail "frames of 4200 bytes pass the switch"
done
smaller_since c "$line" 192.0.2.2 write_bw
say "a path that drops long packets without a report is noticed; the next connection has a smaller path MTU, and works"
stop_plane c
stop_plane d
