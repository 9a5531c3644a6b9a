#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run quickstart in a clean clone, in the order of the README: `demo` without the packages that only the tests need,
# then `test`, which installs these packages and must find them.
#
#   quickstart.sh configure    runs both until they have configured
#   quickstart.sh run          runs the demo, then a build and some of the tests
#
# Some packages are hidden in a mount namespace; substitutes for dpkg-query and apt-get know which.

. "$(dirname "$0")/../net/lib.sh"
how=$1
SOURCE=$(realpath "$(dirname "$0")/../..")
LIB=/usr/lib/$(gcc -print-multiarch)
# HIDES[package]: its files, over which something empty is mounted to hide the package.
declare -A HIDES=([libdapl-dev]="/usr/include/dat2 $LIB/libdat2.so" [librdmacm-dev]="$LIB/pkgconfig/librdmacm.pc")
# TARGETS: built only if a hidden package is found.
TARGETS=(net-dat2-cases udapl2-operations verbs-operations)

[ "$(id -u)" = 0 ] || skip "mount namespaces need root"
command -v dpkg-query >/dev/null || skip "this is not Debian"
if [ -z "${ONESIDE_NAMESPACE:-}" ]; then
	unshare --mount --propagation private true 2>/dev/null || skip "mount namespaces cannot be made here"
	ONESIDE_NAMESPACE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
net_init

hide() { # PACKAGE
	local path
	: >"$WORK/hidden/$1"
	for path in ${HIDES[$1]}; do
		[ -e "$path" ] || skip "$1 is not installed: it cannot be hidden"
		if [ -d "$path" ]; then
			mount --bind "$WORK/nothing" "$path" || fail "$path cannot be hidden"
		else
			mount --bind "$WORK/empty" "$path" || fail "$path cannot be hidden"
		fi
		printf 'umount %s\n' "$path" >>"$WORK/hidden/$1"
	done
}

# Makes a dpkg-query that omits hidden packages, and an apt-get that unhides them.
make_commands() {
	mkdir "$WORK/bin"
	cat >"$WORK/bin/dpkg-query" <<-END
		#!/bin/bash
		# -W -f FORMAT PACKAGE...
		shown=()
		for package in "\${@:4}"; do
			[ -e "$WORK/hidden/\$package" ] || shown+=("\$package")
		done
		[ \${#shown[@]} -gt 0 ] || exit 1
		exec $(command -v dpkg-query) "\${@:1:3}" "\${shown[@]}"
	END
	cat >"$WORK/bin/apt-get" <<-END
		#!/bin/bash
		printf '%s\n' "\$*" >>"$WORK/apt"
		[ "\$1" = install ] || exit 0
		for package; do
			[ -e "$WORK/hidden/\$package" ] || continue
			sh -e "$WORK/hidden/\$package" || exit 1
			rm "$WORK/hidden/\$package"
		done
	END
	printf '#!/bin/sh\n' >"$WORK/bin/promtool" # so that quickstart does not download one
	chmod +x "$WORK"/bin/*
	PATH=$WORK/bin:$PATH
}

# Prints the names of all tests and targets.
listed() { # BUILD-DIRECTORY
	meson introspect --tests --targets "$1" | python3 -c 'import json, sys
for kind, all in json.load(sys.stdin).items():
	for each in all:
		print(kind, each["name"])' | sort
}

# Runs a function of quickstart in a subshell.
quickstart() {
	(
		unset -f say fail skip
		. "$CLONE/quickstart"
		"$@"
	) >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		fail "quickstart: $*"
	}
}

CLONE=$WORK/clone
mkdir "$CLONE" "$WORK/hidden" "$WORK/nothing"
: >"$WORK/empty"
: >"$WORK/apt"
# tar has status 1 if a folder changed meanwhile: in other tests Python writes compiled files into it.
{ tar -C "$SOURCE" --exclude='./build*' --exclude=./.git --exclude=__pycache__ -cf - . || [ $? = 1 ]; } |
	tar -C "$CLONE" -xf - || fail "no clone"
for package in "${!HIDES[@]}"; do
	hide "$package"
done
make_commands

pool() {
	cat /sys/kernel/mm/hugepages/hugepages-2048kB/nr_{,overcommit_}hugepages 2>/dev/null
}

if [ "$how" = run ]; then
	before=$(pool)
	"$CLONE/quickstart" demo >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		fail "quickstart demo"
	}
	[ "$(grep -c 'They are the same' "$WORK/out")" = 2 ] || fail "the demo did not copy twice"
	[ "$(pool)" = "$before" ] || fail "the pool of hugepages, and what goes beyond it: $(pool | xargs), not" $before
else
	quickstart prepare_demo
fi
expect 'Configuring' "$WORK/out"
listed "$CLONE/build" >"$WORK/demo"
for target in "${TARGETS[@]}"; do
	! grep -qx "targets $target" "$WORK/demo" || fail "$target is built though its package is hidden"
done
say "demo: $(grep -c '^targets' "$WORK/demo") targets, none of what is hidden"

quickstart prepare_tests
expect 'Configuring' "$WORK/out"
[ -z "$(ls "$WORK/hidden")" ] || fail "not installed: $(ls "$WORK/hidden")"
listed "$CLONE/build" >"$WORK/test"
for target in "${TARGETS[@]}"; do
	grep -qx "targets $target" "$WORK/test" || fail "$target was not found after its package was installed"
done
meson setup "$CLONE/build-fresh" "$CLONE" >"$WORK/out" 2>&1 || fail "meson setup: $(cat "$WORK/out")"
listed "$CLONE/build-fresh" | diff - "$WORK/test" >&2 || fail "a fresh configuration has other tests and targets"
say "test: $(grep -c '^targets' "$WORK/test") targets, $(grep -c '^tests' "$WORK/test") tests, as in a fresh configuration"

calls=$(wc -l <"$WORK/apt")
quickstart prepare_tests
! grep -q 'Configuring\|Installing' "$WORK/out" || fail "a second run configures again: $(cat "$WORK/out")"
[ "$(wc -l <"$WORK/apt")" = "$calls" ] || fail "a second run installs again"
say "once more: nothing to do"

if [ "$how" = run ]; then
	run_some() {
		prepare_tests
		build "$BUILD"
		run_tests "$BUILD" ring wire dapl2-local
		summary
	}
	quickstart run_some
	tail -n 1 "$WORK/out"
	[ "$(tail -n 1 "$WORK/out")" = "3 passed, 0 failed" ] || fail "not all of three tests passed"
fi
