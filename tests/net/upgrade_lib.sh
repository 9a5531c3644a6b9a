# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to upgrade data planes by onesidectl; need tests/net/lib.sh, and a function going_on, which fails unless the
# programs of the test still run.
#
#   request NAME WORDS...         onesidectl WORDS of data plane NAME, by the prefix AS; output in $WORK/ctl
#   upgrade NAME PREFIX WORDS...  onesidectl WORDS replaces the data plane; the new one has the file prefix. On a busy machine
#                                 requests may take longer than the old one waits for them.
#   end_upgraded NAME             ends a data plane that is no child of this shell
#   alive PID, until_gone PID     of any process
AS=()

alive() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:.Z' "/proc/$1/status"; }

until_gone() { # PID
	while alive "$1"; do sleep 0.05; done
}

request() {
	"${AS[@]}" "$BUILD/control/onesidectl" -s "$(plane_socket "$1").ctl" "${@:2}" >"$WORK/ctl" 2>&1
}

upgrade() {
	local old=${PLANE_PID[$1]} tries=10
	until request "$1" "${@:3}"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] && grep -q 'try again' "$WORK/ctl" || fail "onesidectl ${*:3}: $(cat "$WORK/ctl")"
	done
	expect "has taken over from process $old, which stopped for" "$WORK/ctl"
	say "$(cat "$WORK/ctl")"
	PLANE_PID[$1]=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$WORK/ctl")
	until_gone "$old"
	tr '\0' ' ' <"/proc/${PLANE_PID[$1]}/cmdline" >"$WORK/cmdline"
	expect " --file-prefix=$2 -- " "$WORK/cmdline"
	[ "$(grep -o -- ' --take-over' "$WORK/cmdline" | wc -l)" = 1 ] || fail "--take-over: $(cat "$WORK/cmdline")"
	going_on
}

end_upgraded() { # NAME
	kill "${PLANE_PID[$1]}"
	until_gone "${PLANE_PID[$1]}"
	unset "PLANE_PID[$1]"
}
