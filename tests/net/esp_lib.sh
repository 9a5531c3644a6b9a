# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Functions for pairs of data planes with keys; esp.sh sources this file after lib.sh.
ONESIDECTL=${ONESIDECTL:-$BUILD/control/onesidectl}
PERF=${PERF:-$BUILD/perf/oneside-perf}
# shellcheck disable=SC2034 # lib.sh's
CABLE_MTU=4228 # fits a path MTU of 4096 with headers and ESP

# need_crypto DRIVER...: skips the test unless one of the drivers is installed.
need_crypto() {
	local driver directory
	directory=$(pkg-config --variable=libdir libdpdk)/dpdk
	for driver in "$@"; do
		! compgen -G "$directory/pmds-*/librte_crypto_$driver.so" >/dev/null || return 0
	done
	skip "there is no driver for AES-GCM: $* (Debian: librte-crypto-ipsec-mb23, librte-crypto-openssl23)"
}

# make_key NAME BYTES: writes $WORK/NAME.key, with BYTES bytes of key and salt.
make_key() {
	(umask 077 && openssl rand -hex "$2" >"$WORK/$1.key")
}

# ipsec NAME PEER OUT IN [MORE]: prints an [ipsec] section as an option; OUT and IN are SPI:FILE.
ipsec() {
	printf -- '--ipsec=name=%s,address=%s,out=%s,in=%s%s' "$1" "$2" "$3" "$4" "${5:-}"
}

ctl() { # PLANE COMMAND...
	ONESIDE_SOCKET=$(plane_socket "$1") "$ONESIDECTL" "${@:2}"
}

# drops PLANE REASON: prints the drop counter, after time for its publication.
drops() {
	sleep 0.01
	ctl "$1" show drops --json | /usr/bin/python3 -c "import json,sys; print(sum(c['$2'] for c in json.load(sys.stdin)['drops']))"
}

# perf_begin OPTIONS...: starts an exchange between applications on a and b; perf_end waits for its end.
perf_begin() {
	: >"$WORK/server"
	ONESIDE_SOCKET=$(plane_socket b) "$PERF" --once "$@" 2>"$WORK/server" &
	PERF_SERVER=$!
	APPLICATIONS+=("$PERF_SERVER")
	until grep -qE 'serving on|published on' "$WORK/server"; do
		kill -0 "$PERF_SERVER" 2>/dev/null || fail "no server of $*: $(cat "$WORK/server")"
		sleep 0.05
	done
	ONESIDE_SOCKET=$(plane_socket a) "$PERF" "$@" --node 2 "${HOST:-192.0.2.2}" >"$WORK/out" 2>"$WORK/err" &
	PERF_CLIENT=$!
	APPLICATIONS+=("$PERF_CLIENT")
}

perf_end() {
	wait "$PERF_CLIENT" || fail "oneside-perf: $(cat "$WORK/err" "$WORK/server")"
	wait "$PERF_SERVER" || fail "the server of oneside-perf: $(cat "$WORK/server")"
	APPLICATIONS=()
}

# perf_break: ends the exchange, which must still be running.
perf_break() {
	kill "$PERF_CLIENT" "$PERF_SERVER" || fail "the exchange has ended: $(cat "$WORK/err" "$WORK/server")"
	wait "$PERF_CLIENT" "$PERF_SERVER"
	APPLICATIONS=()
}

perf() {
	perf_begin "$@"
	perf_end
}

# perf_dropped PLANE REASON OPTIONS...: an exchange must not succeed, and PLANE must count REASON; the client may time out.
perf_dropped() {
	local plane=$1 reason=$2 before
	shift 2
	before=$(drops "$plane" "$reason")
	perf_begin "$@"
	until [ "$(drops "$plane" "$reason")" -gt "$before" ]; do
		sleep 0.1
	done
	kill "$PERF_CLIENT" "$PERF_SERVER" 2>/dev/null
	wait "$PERF_CLIENT" && fail "an exchange in spite of $reason: $(cat "$WORK/out")"
	wait "$PERF_SERVER"
	APPLICATIONS=()
}
