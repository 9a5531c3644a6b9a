#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run the two-process cases, uDAPL and RSM applications, over
#
#   applications.sh local    one data plane
#   applications.sh memif    two data planes joined by memif
#   applications.sh veth     two data planes in namespaces joined by veth (af_packet); tshark and an independent ICRC
#                            implementation check a capture
#   applications.sh veth6 [short]    like veth, over IPv6; short: the programs whose frames differ most
#   applications.sh cores [local|memif]   with two polling cores in each data plane; without a cable over both
#   applications.sh lanes [local|memif]   like cores, with each queue pair on the next core
#   applications.sh moves [local|memif]   like cores, and all queue pairs move between the cores again and again
#   applications.sh sleep    local and memif with polling cores that sleep when they are idle
#   applications.sh spin     memif with polling cores that never yield their processor

. "$(dirname "$0")/lib.sh"
net_init
kind=$1
CABLE=${2:-} # or short
PROGRAMS=$BUILD/tests/net
# Rows run in parallel, because programs mostly wait; the programs of a row run one after the other.
ROWS=(
	'net-dat-connection'
	'net-dat-transfer net-dat-protection net-dat-srq net-dat-fork net-dat-threads net-dat-ia net-dat-cno net-dat-lmr
	 net-dat-sp net-dat-rendezvous'
	'net-dat-evd net-dat-rmr net-dat-ep net-dat-post net-rsm net-rsm-events net-rsm-map'
)
[ "$CABLE" != short ] || ROWS=('net-dat-connection' 'net-dat-transfer net-dat-protection' 'net-rsm net-dat-rmr')

# Mode 0666, because a case runs an application with another uid, under the kernel's limits for an ordinary user.
OPTIONS=(--socket-mode 0666)

run_row() { # CABLE PROGRAMS SOCKETS...
	local cable=$1 programs=$2 program
	shift 2
	for program in $programs; do
		say "== $program over $cable"
		"$PROGRAMS/$program" "$@" || {
			say "FAILED: $program over $cable"
			return 1
		}
	done
}

# Called by the cleanup of lib.sh: prints the output of rows that have not ended.
UNSAID=()
net_say_rest() {
	[ ${#UNSAID[@]} = 0 ] || cat "${UNSAID[@]}"
}

run() { # CABLE
	local cable=$1 row end failed=0
	local -a sockets rows=()

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
		# Capture at both ends: a packet socket does not see frames that another socket of its interface sends.
		start_capture from-b "oneside-$$-a" veth0
		start_capture from-a "oneside-$$-b" veth0
		;;
	esac

	for row in "${!ROWS[@]}"; do
		run_row "$cable" "${ROWS[$row]}" "${sockets[@]}" >"$WORK/row$row" 2>&1 &
		rows[row]=$!
		UNSAID[row]=$WORK/row$row
	done
	APPLICATIONS+=("${rows[@]}")
	for row in "${!rows[@]}"; do
		wait "${rows[$row]}" || failed=$((failed + 1))
		cat "$WORK/row$row"
		unset "UNSAID[$row]"
	done
	[ "$failed" = 0 ] || fail "programs over $cable"

	case $cable in
	veth | veth6)
		for end in from-a from-b; do
			stop_capture "$end"
			say "== frames $end"
			/usr/bin/python3 "$(dirname "$0")/check_capture.py" "$WORK/$end.pcap" || fail "the capture of $cable, $end"
		done
		;;
	esac
	stop_plane a
	[ "$cable" = local ] || stop_plane b
}

run_on_two_cores() {
	PLANE_CORES=2
	[ "$(allowed_cpus | wc -l)" -gt 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep} # four cores leave small machines no processor
	local cable
	for cable in ${CABLE:-local memif}; do
		run "$cable"
	done
}

case $kind in
local | memif | veth | veth6)
	run "$kind"
	;;
cores)
	run_on_two_cores
	;;
lanes)
	PLANE_PLACEMENT=next
	run_on_two_cores
	;;
moves)
	PLANE_MOVES=yes
	run_on_two_cores
	;;
sleep)
	PLANE_IDLE=sleep
	run local
	run memif
	;;
spin)
	PLANE_IDLE=spin
	run memif
	;;
*)
	fail "applications.sh: \"$kind\" is not a kind of run"
	;;
esac
