#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Test RSM applications under stress:
#
#   rsm.sh torture SECONDS   processes export, import, map and die at random, for SECONDS on one node, then on two;
#                            SEED makes the choices
#   rsm.sh stopped   an exporter's data plane is stopped, and continues
#   rsm.sh killed    an exporter's data plane is killed and restarted; then an importer's
#   rsm.sh cable     the cable between two namespaces is cut and mended
#   rsm.sh nodes SECONDS     three nodes, of which two share a secret; then torture
#   rsm.sh flood     a third host sends connection requests from many addresses
#   rsm.sh secret    peers have the same secret, different ones, or only one peer has one; a secret is changed
#   rsm.sh forged    an unprivileged process sends with the peer's address
#   rsm.sh order SECONDS     order barriers on a cable that loses, duplicates and delays frames
#   rsm.sh foreign   two hosts take each other for hosts of the other byte order

. "$(dirname "$0")/lib.sh"
net_init
PROGRAMS=$BUILD/tests/net
OPTIONS=(--socket-mode 0666)
SEED=${SEED:-0}

# Restarts a data plane when $program has created COMMAND-FILE. The program cannot start the data plane itself:
# start_plane in a subshell would end with that subshell.
restart_plane() { # NAME COMMAND-FILE, of $program
	while [ ! -e "$2" ]; do
		kill -0 "$program" 2>/dev/null || fail "it has ended, and does not want data plane $1 again"
		sleep 0.1
	done
	start_memif_plane "$1" "${OPTIONS[@]}"
}

# Starts data planes in namespaces a and b; net-shuffle in a namespace between them is the cable.
start_bad_pair() { # LOST DOUBLED DELAYED, of 1000 [foreign]
	local name
	need_root
	for name in a b cable; do
		make_namespace "$name"
	done
	for name in a b; do
		make_veth "oneside-$$-$name" "oneside-$$-cable"
		ip -n "oneside-$$-cable" link set veth0 name "end-$name" || fail "veth0 cannot be renamed"
	done
	[ "$SEED" = 0 ] && SEED=$RANDOM$RANDOM
	ip netns exec "oneside-$$-cable" "$PROGRAMS/net-shuffle" end-a end-b "$SEED" "$@" >"$WORK/cable" &
	CABLE_PID=$!
	APPLICATIONS+=("$CABLE_PID")
	# Long keep-alive times: loss on the cable or a busy machine must not look like a dead peer.
	start_af_packet_plane a "${OPTIONS[@]}" --keepalive-ms 20000
	start_af_packet_plane b "${OPTIONS[@]}" --keepalive-ms 20000
}

# Makes a namespace with veth0 for each name, and joins them by a switch in a further namespace.
make_switch() { # NAME...
	local name
	need_root
	for name in "$@" switch; do
		make_namespace "$name"
	done
	ip -n "oneside-$$-switch" link add bridge0 type bridge || skip "no bridges here"
	ip -n "oneside-$$-switch" link set bridge0 mtu "$CABLE_MTU" up
	for name in "$@"; do
		make_veth "oneside-$$-$name" "oneside-$$-switch"
		ip -n "oneside-$$-switch" link set veth0 name "port-$name" || fail "veth0 cannot be renamed"
		ip -n "oneside-$$-switch" link set "port-$name" master bridge0 up
	done
}

# Writes a file with a secret of 16 bytes: 32 times one hexadecimal digit.
make_secret() { # FILE DIGIT
	(umask 077 && printf '%032d\n' 0 | tr 0 "$2" >"$1")
}

# Exports a segment on a plane, in the background.
export_segment() { # PLANE
	: >"$WORK/export"
	ONESIDE_SOCKET=$(plane_socket "$1") "$PROGRAMS/net-rsm-secret" export 0x400000 >"$WORK/export" &
	EXPORTER=$!
	APPLICATIONS+=("$EXPORTER")
	until grep -q published "$WORK/export"; do
		kill -0 "$EXPORTER" 2>/dev/null || fail "no segment: the exporter has ended"
		sleep 0.1
	done
}

import_segment() { # TEXT: that the importer must print
	ONESIDE_SOCKET=$(plane_socket b) "$PROGRAMS/net-rsm-secret" import 1 0x400000 >"$WORK/import"
	expect "$1" "$WORK/import"
}

# reload_with PLANE PEER-LINE...: rewrites the plane's [peer] section, and reloads the configuration if the plane runs.
reload_with() {
	local name=$1 peer=1
	shift
	[ "$name" = a ] && peer=2
	printf '%s\n' "[peer $peer]" "$@" >"$WORK/$name.conf"
	[ -z "${PLANE_PID[$name]:-}" ] || "$BUILD/control/onesidectl" --socket "$(plane_socket "$name").ctl" reload ||
		fail "the reload of $name"
}

refused() { # REASON-AT-THE-EXPORTER REASON-AT-THE-IMPORTER ERROR
	import_segment "connect: $3"
	[ "$1" = none ] || expect "event=peer_unproven side=exporter reason=$1 segment=0x400000 peer=192.0.2.2" "$(plane_log a)"
	expect "event=peer_unproven side=importer reason=$2 segment=0x400000 peer=192.0.2.1" "$(plane_log b)"
}

case $1 in
torture)
	start_memif_pair "${OPTIONS[@]}"
	say "== the ring buffer of doc/examples"
	ONESIDE_SOCKET=$(plane_socket a) "$BUILD/doc/examples/rsm_ring" consume p0 0x400000 20000 >"$WORK/ring" &
	consumer=$!
	APPLICATIONS+=("$consumer")
	ONESIDE_SOCKET=$(plane_socket b) "$BUILD/doc/examples/rsm_ring" produce p0 1 0x400000 20000 ||
		fail "the producer of the ring buffer"
	wait "$consumer" || fail "the consumer of the ring buffer"
	expect "20000 records" "$WORK/ring"
	say "== one node"
	"$PROGRAMS/net-rsm-torture" "$2" "$SEED" "$(plane_socket a)" || fail "torture on one node"
	say "== two nodes"
	"$PROGRAMS/net-rsm-torture" "$2" "$SEED" "$(plane_socket a)" "$(plane_socket b)" ||
		fail "torture on two nodes"
	stop_plane a
	stop_plane b
	;;
stopped)
	start_memif_pair "${OPTIONS[@]}"
	pid=$(plane_pid b)
	"$PROGRAMS/net-rsm-loss" "$(plane_socket a)" "$(plane_socket b)" "kill -STOP $pid" "kill -CONT $pid" ||
		fail "a data plane that is stopped"
	stop_plane a
	stop_plane b
	;;
killed)
	start_memif_pair "${OPTIONS[@]}"
	pid=$(plane_pid b)
	say "== data plane b is killed and restarted"
	"$PROGRAMS/net-rsm-loss" "$(plane_socket a)" "$(plane_socket b)" "kill -KILL $pid" "touch $WORK/restart" &
	program=$!
	APPLICATIONS+=("$program")
	unset "PLANE_PID[b]"
	restart_plane b "$WORK/restart"
	wait "$program" || fail "a data plane that was killed"
	say "== data plane a, the importer's own, is killed and restarted"
	pid=$(plane_pid a)
	"$PROGRAMS/net-rsm-loss" "$(plane_socket a)" "$(plane_socket b)" "kill -KILL $pid" "touch $WORK/again" &
	program=$!
	APPLICATIONS+=("$program")
	unset "PLANE_PID[a]"
	restart_plane a "$WORK/again"
	wait "$program" || fail "an importer's data plane that was killed"
	stop_plane a
	stop_plane b
	;;
cable)
	start_veth_pair "${OPTIONS[@]}"
	"$PROGRAMS/net-rsm-loss" "$(plane_socket a)" "$(plane_socket b)" "ip -n oneside-$$-b link set veth0 down" \
		"ip -n oneside-$$-b link set veth0 up" || fail "a cable that is cut"
	stop_plane a
	stop_plane b
	;;
nodes)
	make_switch a b c
	make_secret "$WORK/one" 1
	number=0
	for name in a b c; do
		number=$((number + 1))
		peers=()
		for peer in 1 2 3; do
			[ "$peer" = "$number" ] && continue
			peers+=(--peer "node=$peer,address=192.0.2.$peer")
			# Two of the three share a secret.
			[ $((number + peer)) = 3 ] && peers[-1]+=,secret_file=$WORK/one
		done
		start_kernel_plane "$name" "$number" af_packet "$CABLE_MTU" --node "$number" "${peers[@]}" "${OPTIONS[@]}"
	done
	say "== a segment with importers on three nodes"
	"$PROGRAMS/net-rsm-nodes" "$(plane_socket a)" "$(plane_socket b)" "$(plane_socket c)" ||
		fail "three nodes"
	say "== torture"
	"$PROGRAMS/net-rsm-torture" "$2" "$SEED" "$(plane_socket a)" "$(plane_socket b)" \
		"$(plane_socket c)" || fail "torture on three nodes"
	for name in a b c; do
		stop_plane "$name"
	done
	;;
flood)
	make_switch a b
	start_af_packet_plane a "${OPTIONS[@]}" --keepalive-ms 4000
	start_af_packet_plane b "${OPTIONS[@]}" --keepalive-ms 4000
	# Make a connection, which stays and is idle during the flood.
	ONESIDE_SOCKET=$(plane_socket a) "$BUILD/doc/examples/rsm_ring" consume p0 0x400000 2000000000 >"$WORK/consumer" &
	consumer=$!
	ONESIDE_SOCKET=$(plane_socket b) "$BUILD/doc/examples/rsm_ring" produce p0 1 0x400000 2000000000 >"$WORK/producer" &
	producer=$!
	APPLICATIONS+=("$consumer" "$producer")
	connected() {
		python3 "$(dirname "$0")/../interop/telemetry.py" \
			"/var/run/dpdk/$(basename "$WORK")-b/dpdk_telemetry.v2" "/oneside/qps,$producer" state 2>/dev/null |
			grep -qw connected
	}
	until connected; do
		kill -0 "$producer" 2>/dev/null || fail "no import: the producer has ended"
		sleep 0.1
	done
	kill -STOP "$consumer" "$producer"
	mac=$(ip netns exec "oneside-$$-a" cat /sys/class/net/veth0/address)
	ip netns exec "oneside-$$-switch" "$PROGRAMS/net-flood" bridge0 "$mac" 192.0.2.1 96000 12000 # lasts longer than the keep-alive time
	flooded=$?
	connected
	kept=$?
	kill -CONT "$consumer" "$producer"
	kill "$consumer" "$producer" 2>/dev/null
	wait "$consumer" "$producer" 2>/dev/null
	[ "$flooded" = 0 ] || fail "the flood: status $flooded"
	! grep -h "event=peer_lost" "$(plane_log a)" "$(plane_log b)" || fail "keep-alive is starved"
	[ "$kept" = 0 ] || fail "the import is lost"
	stop_plane a
	stop_plane b
	;;
secret)
	make_secret "$WORK/one" 1
	make_secret "$WORK/two" 2
	make_secret "$WORK/three" 3
	one=secret-file=$WORK/one two=secret-file=$WORK/two three=secret-file=$WORK/three
	reload_with a "$one"
	reload_with b "$one"
	# Long keep-alive times: the first import must last even on a busy machine.
	start_memif_plane a "${OPTIONS[@]}" --keepalive-ms 60000 --config "$WORK/a.conf"
	start_memif_plane b "${OPTIONS[@]}" --keepalive-ms 60000 --config "$WORK/b.conf"
	export_segment a
	say "== the same secret"
	import_segment connected
	"$BUILD/control/onesidectl" --json --socket "$(plane_socket a).ctl" show peers >"$WORK/peers"
	expect '"secret": "yes"' "$WORK/peers"
	ONESIDE_SOCKET=$(plane_socket b) "$PROGRAMS/net-rsm-secret" hold 1 0x400000 "$WORK/end" >"$WORK/held" &
	holder=$!
	APPLICATIONS+=("$holder")
	say "== the secret is changed, and no import is refused"
	reload_with a "$two" "old-$one"
	import_segment connected
	reload_with b "$two" "old-$one"
	import_segment connected
	reload_with b "$two"
	import_segment connected
	reload_with a "$two"
	import_segment connected
	! grep event=peer_unproven "$(plane_log a)" "$(plane_log b)" || fail "a peer is refused during the change"
	say "== another secret"
	reload_with b "$three"
	refused wrong wrong RSMERR_SEG_NOT_PUBLISHED_TO_NODE
	say "== no secret at the importer"
	reload_with b "address=192.0.2.1"
	refused missing no_secret RSMERR_SEG_NOT_PUBLISHED_TO_NODE
	say "== no secret at the exporter"
	reload_with b "$two"
	reload_with a "address=192.0.2.2"
	refused no_secret missing RSMERR_SEG_NOT_PUBLISHED_TO_NODE
	say "== no secret at either peer"
	reload_with b "address=192.0.2.1"
	import_segment connected
	say "== the first import is still connected"
	touch "$WORK/end"
	wait "$holder" || fail "the first import: $(cat "$WORK/held")"
	say "== a file that others may read is refused, and nothing changes"
	chmod 640 "$WORK/one"
	(reload_with a "$one") >"$WORK/refused" 2>&1 && fail "mode 0640 is taken"
	expect "mode 0640 gives others rights to it; chmod 600 $WORK/one" "$WORK/refused"
	import_segment connected
	kill "$EXPORTER"
	wait "$EXPORTER" 2>/dev/null
	stop_plane a
	stop_plane b
	! grep -hE '1{32}|2{32}|3{32}' "$WORK"/*.log "$WORK/peers" "$WORK/refused" || fail "a secret is disclosed"
	;;
forged)
	need_root
	make_namespace a
	make_namespace b
	make_veth "oneside-$$-a" "oneside-$$-b"
	# In namespace b the kernel has the peer's address, and there is no data plane.
	ip -n "oneside-$$-b" address add 192.0.2.2/24 dev veth0
	make_secret "$WORK/one" 1
	reload_with a "address=192.0.2.2"
	start_af_packet_plane a "${OPTIONS[@]}" --config "$WORK/a.conf"
	export_segment a
	forge() {
		ip netns exec "oneside-$$-b" setpriv --reuid 65534 --regid 65534 --clear-groups \
			"$PROGRAMS/net-rsm-forge" 192.0.2.2 192.0.2.1 2 0x400000 "$1"
	}
	say "== without a secret a forged request is granted"
	forge open || fail "a forged request is not granted: this tests nothing"
	say "== with a secret it is refused"
	reload_with a "secret-file=$WORK/one"
	forge guarded || fail "a process without rights"
	for reason in missing wrong stale; do
		expect "event=peer_unproven side=exporter reason=$reason segment=0x400000 peer=192.0.2.2" "$(plane_log a)"
	done
	kill "$EXPORTER"
	wait "$EXPORTER" 2>/dev/null
	stop_plane a
	;;
order)
	start_bad_pair 10 5 100
	say "== the test notices puts out of order"
	ORDER_SECONDS=1 "$PROGRAMS/net-rsm-order" "$(plane_socket a)" "$(plane_socket b)" swapped ||
		fail "the test of order itself"
	say "== frames are lost, duplicated and delayed (seed $SEED)"
	ORDER_SECONDS=$2 "$PROGRAMS/net-rsm-order" "$(plane_socket a)" "$(plane_socket b)" || fail "the order of puts"
	stop_plane a
	stop_plane b
	kill "$CABLE_PID"
	wait "$CABLE_PID"
	cat "$WORK/cable"
	# FIGURES: passed, lost, doubled, delayed
	mapfile -t FIGURES < <(tail -n 1 "$WORK/cable" | grep -o '[0-9]*')
	for figure in "${FIGURES[@]}"; do
		[ "$figure" -gt 0 ] || fail "too little went wrong on the cable for a test of order"
	done
	;;
foreign)
	start_bad_pair 0 0 0 foreign
	say "== elements are swapped, blocks are not"
	"$PROGRAMS/net-rsm-foreign" "$(plane_socket a)" "$(plane_socket b)" || fail "hosts of unlike byte order"
	say "== the same in the other direction"
	"$PROGRAMS/net-rsm-foreign" "$(plane_socket b)" "$(plane_socket a)" || fail "hosts of unlike byte order"
	stop_plane a
	stop_plane b
	kill "$CABLE_PID"
	wait "$CABLE_PID"
	expect "4 byte orders turned round" "$WORK/cable"
	;;
*)
	fail "rsm.sh: \"$1\" is not a test"
	;;
esac
