#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh PROGRAM LIBRARIES: tests that oneside-run finds the libraries of its own installation, wherever that is (LIBRARIES:
# their folder, relative to the program's), and explains in one sentence whether they or a data plane are missing.

set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	failed=1
}
says() { # STATUS TEXT ARGUMENTS...
	local said status
	said=$(ONESIDE_SOCKET=$work/nobody "${@:3}" 2>&1)
	status=$?
	[ "$status" = "$1" ] || fail "${*:3}: status $status: $said"
	[[ $said == *"$2"* ]] || fail "${*:3}: $said"
	[ "$1" != 1 ] || [[ $said != *$'\n'* ]] || fail "${*:3} goes on after a refusal: $said"
}

here=$work/moved/usr/bin
mkdir -p "$here"
cp "$1" "$here/oneside-run"
ln -s "$here/oneside-run" "$work/link"
libraries=$(realpath -m "$here/$2")
for call in "$here/oneside-run" "$work/link"; do
	says 1 "libibverbs.so.1 is not in $here/$2; install oneside-verbs" "$call" true
done
mkdir -p "$libraries"
touch "$libraries"/{libibverbs.so.1,librdmacm.so.1,liboneside-run.so}
for call in "$here/oneside-run" "$work/link"; do
	says 1 "no data plane serves at $work/nobody" "$call" true
	says 1 "no data plane serves at $work/other" "$call" --socket "$work/other" true
	says 1 "no data plane serves at $work/nobody" "$call" --show
	says 0 "usage: oneside-run" "$call" --help
	says 2 "usage: oneside-run" "$call"
	says 2 "--nothing: there is no such option; " "$call" --nothing true
	says 2 "--socket: a PATH has to follow; " "$call" --socket
done
exit "$failed"
