#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Move all connections to the first of two polling cores. The data planes then move some of them to the other core by
# themselves, traffic goes on without an error, and no connection moves twice in ten seconds.
#
#   balance.sh memif|local    the programs are on two data planes, or on one
#
# Where programs and polling cores share processors, a core may be too slow to count as busy: repeat.

. "$(dirname "$0")/lib.sh"
PERF=${PERF:-$BUILD/perf/oneside-perf}
[ -x "$PERF" ] || skip "there is no oneside-perf (-Dperf=false)"
net_init
CONNECTIONS=8
SECONDS_OF_TRAFFIC=24 # a queue pair rests for ten seconds after a move

# show PLANE endpoints|cores
show() {
	"$BUILD/control/onesidectl" --socket "$(plane_socket "$1").ctl" show "$2" >"$WORK/$2" || fail "show $2"
}

# connected: succeeds when all queue pairs are connected.
connected() {
	local plane sum=0
	for plane in "${planes[@]}"; do
		show "$plane" endpoints
		sum=$((sum + $(grep -c ' connected ' "$WORK/endpoints")))
	done
	[ "$sum" = $((2 * CONNECTIONS)) ]
}

start_traffic() {
	: >"$WORK/server"
	ONESIDE_SOCKET=$(plane_socket "${planes[-1]}") "$PERF" --once 2>"$WORK/server" &
	server=$!
	APPLICATIONS+=("$server")
	until grep -q 'serving on' "$WORK/server"; do
		kill -0 "$server" 2>/dev/null || fail "the server: $(cat "$WORK/server")"
		sleep 0.05
	done
	ONESIDE_SOCKET=$(plane_socket a) "$PERF" -t write_bw -s 1048576 -q $CONNECTIONS -D $SECONDS_OF_TRAFFIC "192.0.2.${#planes[@]}" \
		>"$WORK/client" 2>&1 &
	client=$!
	APPLICATIONS+=("$client")
	until connected; do
		kill -0 "$client" 2>/dev/null || fail "the client: $(cat "$WORK/client")"
		sleep 0.05
	done
}

end_traffic() {
	wait "$client" || fail "the client: $(cat "$WORK/client")"
	wait "$server" || fail "the server: $(cat "$WORK/server")"
	APPLICATIONS=()
}

# gather PLANE: moves all queue pairs to the first core.
gather() {
	/usr/bin/python3 "$(dirname "$0")/mover.py" "$(plane_socket "$1").ctl" 1 || fail "the moves of data plane $1"
}

# balanced: prints the number of moves that the data planes have chosen themselves.
balanced() {
	cat "$WORK"/[ab].log |
		sed -n 's/.*event=cores_balanced .*moves=\([0-9]*\).*/\1/p' | awk '{n += $1} END {print n + 0}'
}

# settles PLANE: fails if a queue pair has moved to the second core, and again within nine seconds, unless all cores did less
# then. gather() moves none to the second core, and comes before the other moves of its queue pairs.
settles() {
	/usr/bin/python3 - "$(plane_log "$1")" <<-'END' || fail "connections of data plane $1 swing between its cores"
		import datetime, re, sys
		away, undone = {}, False
		for line in open(sys.argv[1]):
		    if "command=move" in line:
		        away = {}
		    undone = "event=cores_balance_undone" in line or undone and "event=cores_balanced" not in line
		    moved = re.match(r"(\S+)Z .*event=queue_pair_moved qpn=(\S+) core=(\d)", line)
		    if moved:
		        at, qp = datetime.datetime.fromisoformat(moved[1]), moved[2]
		        if qp in away and not (undone and moved[3] == "1") and (at - away[qp]).total_seconds() < 9:
		            sys.exit(f"queue pair {qp} has moved again after {at - away[qp]}")
		        if moved[3] == "2":
		            away[qp] = at
	END
}

export PLANE_CORES=2
[ "$(allowed_cpus | wc -l)" -gt 4 ] || PLANE_IDLE=${PLANE_IDLE:-sleep} # else four cores leave programs no processor
planes=(a)
[ "$1" = local ] || planes+=(b)
for plane in "${planes[@]}"; do
	start_memif_plane "$plane" --log-level info
done
before=0
until [ "$(balanced)" -gt "$before" ]; do
	start_traffic
	for plane in "${planes[@]}"; do
		gather "$plane"
		# An administrator sees where queue pairs are, and their moves.
		show $plane endpoints
		show $plane cores
		expect ' CORE ' "$WORK/endpoints"
		expect ' MOVES ' "$WORK/cores"
	done
	before=$(balanced)
	end_traffic
done
say "$(($(balanced) - before)) connections have moved by themselves"
for plane in "${planes[@]}"; do
	settles "$plane"
	stop_plane "$plane"
done
