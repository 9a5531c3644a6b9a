#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build as packagers do: another prefix and library folder, no link-time optimization, neither C++ nor Google
# Benchmark, no tests, warnings that are not errors.
#
#   packager.sh options    only configures, and checks the effect of options
#   packager.sh run        also builds, installs, and runs an installed application

. "$(dirname "$0")/../net/lib.sh"
how=$1
SOURCE=$(realpath "$(dirname "$0")/../..")
net_init
HERE=$WORK/build
THERE=$WORK/there

# configures DIRECTORY OPTIONS...
configures() {
	meson setup "$1" "$SOURCE" "${@:2}" >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		fail "meson setup ${*:2}"
	}
}

commands_with() { # DIRECTORY FLAG: prints the number of compilations with the flag
	grep '"command":' "$1/compile_commands.json" | grep -c -- " $2 "
}

CXX=/bin/false configures "$HERE" --prefix="$THERE" --libdir=far/lib -Dtests=false -Db_lto=false
[ "$(commands_with "$HERE" -Werror)" = 0 ] || fail "warnings are errors by default"
[ "$(commands_with "$HERE" -flto=auto)" = 0 ] || fail "-Db_lto=false is ignored"
targets=$(meson introspect --targets "$HERE") # no pipe: grep -q ends early, and with pipefail the pipe would fail
grep -q '"name": "oneside-perf"' <<<"$targets" || fail "no oneside-perf without C++"
! grep -q '"name": "oneside-micro"' <<<"$targets" || fail "oneside-micro without C++"
say "options: no link-time optimization, no C++, warnings that are not errors"

CFLAGS=-D_FORTIFY_SOURCE=3 configures "$WORK/other" -Dtests=false -Dwerror=true
[ "$(commands_with "$WORK/other" -D_FORTIFY_SOURCE=3)" != 0 ] || fail "CFLAGS are lost"
[ "$(commands_with "$WORK/other" -D_FORTIFY_SOURCE=2)" = 0 ] || fail "a packager's FORTIFY_SOURCE is overridden"
[ "$(commands_with "$WORK/other" -Werror)" != 0 ] || fail "-Dwerror=true is ignored"
if "${CC:-cc}" --version | grep -q 'Free Software Foundation'; then
	[ "$(commands_with "$WORK/other" '-fno-lto .* -flto=auto')" != 0 ] || fail "no source has link-time optimization"
fi
say "requested options are in effect"
[ "$how" = run ] || exit 0

ninja -C "$HERE" >"$WORK/out" 2>&1 || fail "the build: $(tail -n 30 "$WORK/out")"
meson install -C "$HERE" >"$WORK/out" 2>&1 || fail "meson install: $(cat "$WORK/out")"
rm -rf "$HERE"
DATAPLANE=$THERE/bin/oneside-dataplane
for program in "$THERE"/*bin/oneside-*; do
	! ldd "$program" | grep 'not found' >&2 || fail "$program does not find its libraries"
done
start_memif_plane a
export ONESIDE_SOCKET
ONESIDE_SOCKET=$(plane_socket a)
"$THERE/bin/oneside-copy" receive "$WORK/copy" 2>"$WORK/receiver" &
receiver=$!
APPLICATIONS+=("$receiver")
until grep -q 'waiting for a sender' "$WORK/receiver"; do
	kill -0 "$receiver" 2>/dev/null || fail "the receiver: $(cat "$WORK/receiver")"
	sleep 0.1
done
"$THERE/bin/oneside-copy" send "$DATAPLANE" 192.0.2.1 >/dev/null || fail "the sender"
wait "$receiver" || fail "the receiver: $(cat "$WORK/receiver")"
cmp "$DATAPLANE" "$WORK/copy" || fail "the copy differs"
stop_plane a
say "an application runs from another prefix"
