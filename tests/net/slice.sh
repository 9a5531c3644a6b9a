#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A polling core that yields, and programs that poll, have short time slices (abi/slice.h).
# A core that spins, and a program with a policy of its own, keep theirs.

. "$(dirname "$0")/verbs_lib.sh"
grep -q '^se.slice' /proc/self/sched 2>/dev/null || skip "the kernel does not show slices (CONFIG_SCHED_DEBUG)"
command -v ib_send_lat >/dev/null || skip "ib_send_lat is missing: apt-get install perftest"
SHORT=100000

slices() { # PID: prints the slice of each thread, ns
	awk '/^se.slice/ {print $3}' /proc/"$1"/task/*/sched 2>/dev/null
}

core_slice() { # prints the slice of data plane a's polling core
	local task
	for task in /proc/"$(plane_pid a)"/task/*; do
		[ "$(cat "$task/comm")" != rte-worker-1 ] || awk '/^se.slice/ {print $3}' "$task/sched"
	done
}

PLANE_IDLE=yield
verbs_init local
[ "$(core_slice)" = $SHORT ] || fail "a core that yields has a slice of $(core_slice) ns, not $SHORT"

# run_beside WRAPPER...: runs a pair on the core's processor; succeeds if a thread of the server has a short slice meanwhile.
run_beside() {
	local server client found=1
	on 0 taskset -c "$(polling_cpu 1)" "$@" ib_send_lat -x 0 -D 3 >"$WORK/server" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	await_listening 18515 "$server" server
	on 1 taskset -c "$(polling_cpu 1)" "$@" ib_send_lat -x 0 -D 3 127.0.0.1 >"$WORK/client" 2>&1 &
	client=$!
	APPLICATIONS+=("$client")
	while kill -0 "$client" 2>/dev/null; do
		slices "$(pgrep -P "$server")" | grep -qx $SHORT && found=0
		sleep 0.1
	done
	wait "$client" || fail "the client: $(cat "$WORK/client")"
	wait "$server" || fail "the server: $(cat "$WORK/server")"
	return $found
}

# A uDAPL program, too.
ONESIDE_SOCKET=${sockets[0]} "$BUILD/perf/oneside-perf" -p 18600 >"$WORK/dat" 2>&1 &
APPLICATIONS+=("$!")
until grep -q 'serving on' "$WORK/dat"; do
	kill -0 "$!" 2>/dev/null || fail "the uDAPL server: $(cat "$WORK/dat")"
	sleep 0.05
done
ONESIDE_SOCKET=${sockets[0]} "$BUILD/perf/oneside-perf" -t write_lat -s 8 -D 3 -p 18600 "${addresses[0]}" >"$WORK/dat.client" 2>&1 &
client=$!
APPLICATIONS+=("$client")
until slices "$client" | grep -qx $SHORT; do
	kill -0 "$client" 2>/dev/null || fail "a uDAPL program that polls keeps a long slice: $(cat "$WORK/dat.client")"
	sleep 0.05
done
wait "$client" || fail "the uDAPL client: $(cat "$WORK/dat.client")"

run_beside || fail "a program that polls beside a core keeps a long slice"
! run_beside chrt -b 0 || fail "a program with the policy SCHED_BATCH has a short slice"
stop_plane a
PLANE_IDLE=spin
start_memif_plane a
[ "$(core_slice)" != $SHORT ] || fail "a core that spins has a slice of $SHORT ns"
