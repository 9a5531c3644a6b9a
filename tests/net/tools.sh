#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Without a data plane, and when it goes, oneside's own programs and the examples say so in a sentence, without ONESIDE_DEBUG.
# Each prints its usage on request.
. "$(dirname "$0")/lib.sh"
net_init
[ -x "$BUILD/perf/oneside-perf" ] || skip "there is no oneside-perf (-Dperf=false)"

refused() { # PROGRAM ARGUMENTS...
	env -u ONESIDE_DEBUG -u DAT_DBG_TYPE ONESIDE_SOCKET="$WORK/nobody" "$BUILD/$1" "${@:2}" >"$WORK/out" 2>&1 </dev/null &&
		fail "$*: status 0 without a data plane"
	[ "$(grep -c "no data plane serves at $WORK/nobody: .*; start oneside-dataplane(8)" "$WORK/out")" = 1 ] ||
		fail "$*: no reason, or more than one: $(cat "$WORK/out")"
	say "$*"
}

refused perf/oneside-perf
refused perf/oneside-perf 192.0.2.1
refused perf/oneside-perf --api rsm
refused perf/oneside-perf --api rsm any
refused perf/oneside-rates
refused perf/oneside-rates -t bind_rate 192.0.2.1
refused perf/oneside-copy receive "$WORK/copy"
refused perf/oneside-copy send "$0" 192.0.2.1
refused perf/oneside-rsmcopy receive "$WORK/copy" 1000
refused perf/oneside-rsmcopy send "$0" 1
refused doc/examples/dat_pingpong server
refused doc/examples/dat_pingpong client 192.0.2.1
refused doc/examples/dat_kv serve
refused doc/examples/dat_kv get 192.0.2.1 key
refused doc/examples/dat_files serve "$WORK"
refused doc/examples/dat_files get 192.0.2.1 name "$WORK/copy"
refused doc/examples/rsm_ring consume p0 0x400000 1
refused doc/examples/rsm_ring produce p0 1 0x400000 1
refused doc/examples/rsm_table own p0 0x400000 1
refused doc/examples/rsm_table join p0 1 0x400000 name 1

for program in perf rates copy rsmcopy; do
	for option in -h --help; do
		"$BUILD/perf/oneside-$program" $option >"$WORK/out" 2>"$WORK/err" || fail "oneside-$program $option: status $?"
		expect "usage: oneside-$program " "$WORK/out"
		[ ! -s "$WORK/err" ] || fail "oneside-$program $option: $(cat "$WORK/err")"
	done
done

# begin PROGRAM ARGUMENTS...: starts it, and waits until it is attached.
begin() {
	local log=$WORK/attached-${#ATTACHED[@]}
	env -u ONESIDE_DEBUG -u DAT_DBG_TYPE ONESIDE_SOCKET="$(plane_socket a)" "$@" >"$log" 2>&1 </dev/null &
	APPLICATIONS+=("$!")
	until "$BUILD/control/onesidectl" -s "$(plane_socket a).ctl" show clients --json | grep -q "\"pid\": *$!\\b"; do
		kill -0 "$!" 2>/dev/null || fail "$*: has ended: $(cat "$log")"
		sleep 0.05
	done
	ATTACHED+=("$log")
}

# When their data plane is killed, they say so.
ATTACHED=()
start_memif_plane a
begin "$BUILD/perf/oneside-perf"
begin "$BUILD/perf/oneside-perf" --api rsm
begin "$BUILD/perf/oneside-copy" receive "$WORK/copy"
begin "$BUILD/perf/oneside-rsmcopy" receive "$WORK/rsmcopy" 1000
begin "$BUILD/doc/examples/dat_pingpong" server
begin "$BUILD/doc/examples/rsm_ring" consume p0 0x410000 1
gone=$(plane_socket a)
kill_plane a
# A program that was still starting could not attach once more.
reason="^oneside: (.*: no data plane serves|.*: no attachment to the data plane|the data plane) at $gone"
for i in "${!ATTACHED[@]}"; do
	until grep -qE "$reason" "${ATTACHED[i]}"; do
		kill -0 "${APPLICATIONS[i]}" 2>/dev/null || grep -qE "$reason" "${ATTACHED[i]}" ||
			fail "no reason: $(cat "${ATTACHED[i]}")"
		sleep 0.05
	done
done
for pid in "${APPLICATIONS[@]}"; do
	end_process "$pid" 10
done
say 'each says that the data plane has gone'
