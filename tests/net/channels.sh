#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A program has as many completion channels as a server with that many clients: one descriptor each on both sides, which are
# given back.
#
#   channels.sh COUNT PRELOAD    PRELOAD: more_descriptors.c, for machines whose hard limit is less than needed

. "$(dirname "$0")/verbs_lib.sh"
[ -e "$BUILD/tests/net/net-verbs-channels" ] || skip "libibverbs-dev is missing"
COUNT=$1
# A user has three quarters of the channels, which take a quarter of the data plane's descriptors at most.
files=$(((COUNT + 8) * 16 / 3 + 1))
if ! ulimit -n "$files" 2>/dev/null; then
	ulimit -n "$(ulimit -Hn)"
	[ "$(ulimit -n)" -ge $((COUNT + 1000)) ] || skip "the limit of descriptors is $(ulimit -n), less than $((COUNT + 1000))"
	say "the limit of descriptors is $(ulimit -n); to the data plane it appears to be $files, of which it uses $COUNT"
	export DESCRIPTORS=$files
	# A sanitizer must be preloaded before other libraries.
	preload="$(ldd "$DATAPLANE" | awk '/lib[at]san/ { print $3 }') $2"
fi
LD_PRELOAD=${preload:-} verbs_init local
descriptors() { find "/proc/$1/fd" -mindepth 1 | wc -l; }

mkfifo "$WORK/orders"
on 0 "$BUILD/tests/net/net-verbs-channels" "$COUNT" <"$WORK/orders" >"$WORK/said" 2>&1 &
program=$!
APPLICATIONS+=("$program")
exec 9>"$WORK/orders"

await_step() { # WORD
	until grep -qx "$1" "$WORK/said"; do
		kill -0 "$program" 2>/dev/null || fail "the program has ended: $(cat "$WORK/said")"
		sleep 0.1
	done
}

# "on" waits for the program in a process of its own (timeout).
program_descriptors() { descriptors "$(pgrep -P "$program")"; }

await_step ready
plane_before=$(descriptors "$(plane_pid a)") program_before=$(program_descriptors)
echo >&9
await_step open
plane_open=$(descriptors "$(plane_pid a)") program_open=$(program_descriptors)
say "$COUNT channels: the data plane has $plane_before, then $plane_open descriptors, the program $program_before, then $program_open"
[ "$((plane_open - plane_before))" -ge "$COUNT" ] || fail "the data plane has no descriptor for each channel"
[ "$((plane_open - plane_before))" -le "$((COUNT + 16))" ] || fail "a channel takes more than one descriptor of the data plane"
[ "$((program_open - program_before))" -ge "$COUNT" ] || fail "the program has no descriptor for each channel"
[ "$((program_open - program_before))" -le "$((COUNT + 16))" ] || fail "a channel takes more than one descriptor of the program"
echo >&9
await_step closed
[ "$(program_descriptors)" -le "$((program_before + 16))" ] || fail "the program keeps $(program_descriptors) descriptors"
until [ "$(descriptors "$(plane_pid a)")" -le "$((plane_before + 16))" ]; do
	kill -0 "$(plane_pid a)" || fail "the data plane has ended"
	sleep 0.1
done
echo >&9
wait "$program" || fail "the program: $(cat "$WORK/said")"
say "both sides gave them back"
stop_plane a
