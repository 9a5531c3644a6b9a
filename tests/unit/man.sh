#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# man.sh SOURCE: checks that the manual pages are well formed and of this version, and that those of RSMAPI describe every
# call, and every structure that a program fills in or reads.

set -u
cd "$1" || exit 1
failed=0
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	failed=1
}

# The checks use the text of all pages of RSMAPI at once.
pages=$(cat doc/man/*.3rsm) || exit 1
calls=$(sed -n 's/^\t\(rsm_[a-z0-9_]*\);$/\1/p' api/rsm/librsm.map)
[ "$(wc -w <<<"$calls")" -ge 43 ] || fail "api/rsm/librsm.map: only these calls are found: $calls"
for call in $calls; do
	grep -q "\\\\fB[a-z ]*[ *]$call(" <<<"$pages" || fail "$call has no synopsis in doc/man/*.3rsm"
	grep -q "'$call'" api/rsm/meson.build || fail "$call is installed under no name of a page by api/rsm/meson.build"
done
for type in rsmapi_controller_attr_t rsmapi_access_entry_t rsm_iovec_t rsm_scat_gath_t rsm_topology_t rsm_connections_t; do
	grep -q "^} $type;" <<<"$pages" || fail "$type is laid out in no page of doc/man/*.3rsm"
done

version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
others=$(grep -L "^\.TH .*\"oneside $version\"" doc/man/*.[1-9] doc/man/*.3rsm doc/man/*.3dat)
[ -z "$others" ] || fail "not of version $version: $others"

if ! command -v mandoc >/dev/null; then
	[ -z "${NO_SKIP:-}" ] || fail "NO_SKIP is set: there is no mandoc; install it"
	[ "$failed" = 0 ] || exit 1
	echo "SKIPPED: there is no mandoc"
	exit 77
fi
mandoc -Tlint -W warning doc/man/*.[1-9] doc/man/*.3rsm doc/man/*.3dat || fail "mandoc has warnings, printed above"
exit $failed
