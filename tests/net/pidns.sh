#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A data plane in its own pid namespace serves applications outside of it, with and without SO_PEERPIDFD (missing before
# Linux 6.5). Attachments end with their sockets.
. "$(dirname "$0")/lib.sh"
net_init
unshare --pid --fork true 2>/dev/null || skip "pid namespaces cannot be made here"

ctl() { ONESIDE_SOCKET=$(plane_socket a) "$BUILD/control/onesidectl" "$@"; }
clients() { ctl show clients --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["clients"]))'; }

# start_inside PRELOAD: starts the data plane in a pid namespace, with a preloaded library
start_inside() {
	local first
	first=$(ldd "$PLAIN" | awk '/lib[at]san/ { print $3 }') # a sanitizer must be preloaded before other libraries
	printf '#!/bin/sh\nLD_PRELOAD="%s" exec unshare --pid --fork --mount-proc --kill-child "%s" "$@"\n' \
		"$first $1" "$PLAIN" >"$WORK/inside"
	chmod 755 "$WORK/inside"
	DATAPLANE=$WORK/inside start_memif_plane a
}

stop_inside() {
	kill "$(pgrep -P "$(plane_pid a)")"
	wait "$(plane_pid a)" || fail "the data plane ended with status $?"
	unset "PLANE_PID[a]"
}

# check_service WHAT: checks that applications are served, and that their ends are noticed
check_service() {
	"$BUILD/tests/net/net-dat-transfer" "$(plane_socket a)" "$(plane_socket a)" send >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		fail "$1: applications are not served"
	}
	until [ "$(clients)" = 0 ]; do sleep 0.1; done
	ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-perf" >"$WORK/out" 2>&1 &
	APPLICATIONS+=($!)
	until [ "$(clients)" = 1 ]; do
		kill -0 $! 2>/dev/null || fail "$1: $(cat "$WORK/out")"
		sleep 0.1
	done
	[ "$(ctl show clients --json | grep -c '"pid": 0')" = 1 ] || fail "$1: $(ctl show clients --json)"
	ctl client kill 0 >"$WORK/out" 2>&1 && fail "$1: client kill 0 is accepted"
	expect 'give client=NUMBER' "$WORK/out"
	kill -9 $!
	wait $! 2>/dev/null
	until [ "$(clients)" = 0 ]; do sleep 0.1; done
	say "$1: applications are served, and their ends are noticed"
}

PLAIN=$DATAPLANE
start_inside ""
check_service "as the kernel is"
stop_inside
start_inside "$1"
check_service "without SO_PEERPIDFD"
stop_inside
