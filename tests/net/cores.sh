#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Two data planes have several polling cores each.
#
#   cores.sh memif   Every core receives from its own rings, and no frame is handed over between cores. Then one data plane
#                    restarts with another number of cores, and both agree on rings again.
#   cores.sh veth    The kernel spreads frames over the queues of af_packet by a hash that nobody knows, and takes no flow
#                    rules. Queue pairs move to the core where their frames arrive, and then no frame is handed over.
set -u -o pipefail
. "$(dirname "$0")/lib.sh"
PERF=${PERF:-$BUILD/perf/oneside-perf}
[ -x "$PERF" ] || skip "there is no oneside-perf (-Dperf=false)"

# counters PLANE NAME...: prints these counters of each core.
counters() {
	"$BUILD/control/onesidectl" --json --socket "$(plane_socket "$1").ctl" show cores |
		python3 -c 'import json, sys; print(*[core[name] for core in json.load(sys.stdin)["cores"] for name in sys.argv[1:]])' \
			"${@:2}" || fail "no counters of data plane $1"
}

sum() {
	local total=0 value
	for value in "$@"; do total=$((total + value)); done
	printf '%s' "$total"
}

# handed: prints the number of frames handed over between cores, of both planes.
handed() {
	# shellcheck disable=SC2046 # words are wanted
	sum $(counters a handed_over tx_handed_over) $(counters b handed_over tx_handed_over)
}

# received: prints the number of frames received by both planes.
received() {
	# shellcheck disable=SC2046
	sum $(counters a rx_packets) $(counters b rx_packets)
}

# agreed PLANE OWN FAR COUNT: waits until PLANE has agreed COUNT times on rings for OWN and FAR (the peer's) cores.
agreed() {
	until [ "$(grep -c "event=rings .*own_cores=$2 far_cores=$3\$" "$(plane_log "$1")")" -ge "$4" ]; do
		kill -0 "$(plane_pid "$1")" || fail "data plane $1 has gone"
		sleep 0.05
	done
}

# start_traffic APPLICATIONS TEST SIZE COUNT: starts APPLICATIONS clients, each with two endpoints and its own server.
start_traffic() {
	local i
	SERVERS=() CLIENTS=()
	for ((i = 0; i < $1; i++)); do
		: >"$WORK/server$i"
		ONESIDE_SOCKET=$(plane_socket b) "$PERF" --once -p $((18600 + i)) 2>"$WORK/server$i" &
		SERVERS+=($!)
		APPLICATIONS+=($!)
		until grep -q 'serving on' "$WORK/server$i"; do
			kill -0 "${SERVERS[$i]}" 2>/dev/null || fail "a server: $(cat "$WORK/server$i")"
			sleep 0.05
		done
	done
	for ((i = 0; i < $1; i++)); do
		ONESIDE_SOCKET=$(plane_socket a) "$PERF" -t "$2" -s "$3" -n "$4" -q 2 -p $((18600 + i)) 192.0.2.2 \
			>"$WORK/client$i" 2>&1 &
		CLIENTS+=($!)
		APPLICATIONS+=($!)
	done
}

# traffic APPLICATIONS TEST SIZE COUNT: runs all of it.
traffic() {
	local i
	start_traffic "$@"
	for ((i = 0; i < $1; i++)); do
		wait "${CLIENTS[$i]}" || fail "$2 of $3 bytes: $(cat "$WORK/client$i")"
		wait "${SERVERS[$i]}" || fail "its server: $(cat "$WORK/server$i")"
	done
	APPLICATIONS=()
}

# all_receive PLANE: fails unless each core of PLANE has received frames.
all_receive() {
	case " $(counters "$1" rx_packets) " in
	*' 0 '*) fail "not every core of data plane $1 receives: $(counters "$1" rx_packets)" ;;
	esac
}

# try OWN FAR: tests planes with OWN and FAR cores, by as many applications as the larger number.
try() {
	local most=$(($1 > $2 ? $1 : $2))
	traffic "$most" write_bw 64 1000
	traffic "$most" read_bw 65536 50
	traffic "$most" send_bw 1000 500
	all_receive a
	all_receive b
	[ "$(handed)" = 0 ] || fail "$1 and $2 cores: $(handed) frames changed cores"
	say "ok   $1 and $2 cores: no frame changed cores; received: $(counters a rx_packets), $(counters b rx_packets)"
}

# settled: true if, while traffic goes on, no frame is handed over for a second.
settled() {
	local handed_before received_before
	handed_before=$(handed)
	received_before=$(received)
	sleep 1
	[ "$(handed)" = "$handed_before" ] && [ "$(received)" -ge $((received_before + 1000)) ]
}

follow_frames() {
	PLANE_CORES=2 PLANE_QUEUES=2 start_veth_pair
	start_traffic 4 write_bw 64 20000000
	until settled; do
		kill -0 "${CLIENTS[0]}" || fail "the traffic has ended, and frames still change cores: $(cat "$WORK/client0")"
	done
	all_receive a
	all_receive b
	[ "$(handed)" -gt 0 ] || fail "by chance all queue pairs were where their frames arrive: this proves nothing"
	say "ok   after $(handed) frames none changed cores; received: $(counters a rx_packets), $(counters b rx_packets)"
}

net_init
if [ "$1" = veth ]; then
	follow_frames
	exit
fi
PLANE_CORES=2 start_memif_plane a
PLANE_CORES=2 start_memif_plane b
agreed a 2 2 1
agreed b 2 2 1
try 2 2
# The memif client restarts with three cores, is killed, and restarts with one; then the server restarts with three.
stop_plane b
PLANE_CORES=3 start_memif_plane b
agreed a 2 3 1
agreed b 3 2 1
try 2 3
kill_plane b
PLANE_CORES=1 start_memif_plane b
agreed a 2 1 1
agreed b 1 2 1
try 2 1
stop_plane a
PLANE_CORES=3 start_memif_plane a
agreed a 3 1 1
agreed b 1 3 1
try 3 1
stop_plane a
stop_plane b
