# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to install this build into a tree and to compile programs against it; need lib.sh.
#
#   installed_tree            installs; $TREE is the prefix, below $WORK
#   compile SOURCE PROGRAM    compiles with the flags that pkg-config gives for the API that SOURCE includes
#   started PROGRAM ARGUMENTS... TEXT   starts it in the background, and waits until it has printed TEXT; output: PROGRAM.out
#   spoken FILE TEXT          waits until a line of FILE has TEXT
#   ended PROGRAM             waits for the program that was started last, which must succeed

installed_tree() {
	local libdir
	command -v pkg-config >/dev/null || skip "there is no pkg-config (package pkg-config)"
	meson install -C "$BUILD" --no-rebuild --destdir "$WORK/root" >"$WORK/out" 2>&1 || fail "meson install: $(cat "$WORK/out")"
	libdir=$(find "$WORK/root" -name libdat.pc -printf '%h' -quit)
	[ -n "$libdir" ] || fail "libdat.pc is not installed"
	export PKG_CONFIG_PATH=$libdir PKG_CONFIG_SYSROOT_DIR=$WORK/root
	LD_LIBRARY_PATH=$(dirname "$libdir")
	export LD_LIBRARY_PATH
	TREE=$WORK/root$(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=prefix libdat)
}

compile() {
	local library=libdat flags
	grep -q '<rsmapi.h>' "$1" && library=librsm
	flags=$(pkg-config --cflags --libs "$library") || fail "pkg-config $library"
	# shellcheck disable=SC2086 # words are wanted
	"${CC:-cc}" -Wall -Wextra -Werror -O1 "$1" $flags -pthread -o "$2" 2>"$WORK/cc" || fail "$1: $(cat "$WORK/cc")"
}

spoken() {
	until grep -qF -- "$2" "$1"; do
		kill -0 "${APPLICATIONS[-1]}" 2>/dev/null || fail "$1 does not say \"$2\": $(cat "$1")"
		sleep 0.1
	done
}

started() {
	local text=${*: -1} name
	name=$(basename "$1")
	set -- "${@:1:$#-1}"
	: >"$name.out"
	"$@" >"$name.out" 2>&1 <&0 &
	APPLICATIONS+=("$!")
	spoken "$name.out" "$text"
}

ended() {
	wait "${APPLICATIONS[-1]}" || fail "$1: $(cat "$1.out")"
}
