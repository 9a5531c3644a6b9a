#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run.sh SCRIPT...: oneside-run leads to the libraries of its own installation, wherever that is, and refuses without them.

set -u
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	failed=1
}

for script; do
	here=$work/moved/bin
	mkdir -p "$here"
	cp "$script" "$here/oneside-run"
	# shellcheck disable=SC2016
	relative=$(sed -n 's,^libraries=$here/*\([^:]*\).*,\1,p' "$script")
	mkdir -p "$here/$relative"
	said=$(sh "$here/oneside-run" true 2>&1) && fail "$script: it runs a program without its libraries"
	[[ $said == *libibverbs.so.1* ]] || fail "$script: it does not say what is missing: $said"
	touch "$here/$relative/libibverbs.so.1"
	ln -sf "$here/oneside-run" "$work/link"
	for call in "$here/oneside-run" "$work/link"; do
		path=$(LD_LIBRARY_PATH=/nowhere sh "$call" --socket /tmp/none sh -c 'echo "$LD_LIBRARY_PATH $ONESIDE_SOCKET"')
		[ "$(readlink -f "${path%%:*}")" = "$(readlink -f "$here/$relative")" ] || fail "$call: it leads to $path"
		[[ $path == *:/nowhere\ /tmp/none ]] || fail "$call: $path"
	done
	rm -rf "$work/moved"
done
exit "$failed"
