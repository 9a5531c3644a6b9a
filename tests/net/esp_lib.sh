# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Pairs of data planes with keys: sourced by esp*.sh after lib.sh.
ONESIDECTL=${ONESIDECTL:-$BUILD/control/onesidectl}
PERF=${PERF:-$BUILD/perf/oneside-perf}
CABLE_MTU=4228 # a path MTU of 4096, its headers, and ESP

need_crypto() {
	[ -e /usr/lib/"$(uname -m)"-linux-gnu/dpdk ] && ls /usr/lib/*/dpdk/pmds-*/librte_crypto_ipsec_mb.so* >/dev/null 2>&1 ||
		skip "there is no driver for AES-GCM (Debian: librte-crypto-ipsec-mb23)"
}

# make_key NAME BYTES: $WORK/NAME.key, that many bytes of a key and its salt.
make_key() {
	(umask 077 && openssl rand -hex "$2" >"$WORK/$1.key")
}

# key_options NAME PEER OUT IN [MORE]: a section for a plane; OUT and IN are SPI:FILE.
ipsec() {
	printf -- '--ipsec=name=%s,address=%s,out=%s,in=%s%s' "$1" "$2" "$3" "$4" "${5:-}"
}

ctl() { # PLANE COMMAND...
	ONESIDE_SOCKET=$(plane_socket "$1") "$ONESIDECTL" "${@:2}"
}

# drops PLANE REASON: the counter, when it has been published.
drops() {
	sleep 0.01
	ctl "$1" show drops --json | python3 -c "import json,sys; print(sum(c['$2'] for c in json.load(sys.stdin)['drops']))"
}

# perf OPTIONS...: an exchange between applications of a and of b; figures in $WORK/out.
perf() {
	local server tenths=100
	: >"$WORK/server"
	ONESIDE_SOCKET=$(plane_socket b) timeout 100 "$PERF" --once "$@" 2>"$WORK/server" &
	server=$!
	APPLICATIONS+=("$server")
	until grep -qE 'serving on|published on' "$WORK/server"; do
		kill -0 "$server" 2>/dev/null && [ "$tenths" -gt 0 ] || fail "no server of $*: $(cat "$WORK/server")"
		sleep 0.1
		tenths=$((tenths - 1))
	done
	ONESIDE_SOCKET=$(plane_socket a) timeout 100 "$PERF" "$@" --node 2 192.0.2.2 >"$WORK/out" 2>"$WORK/err" ||
		fail "oneside-perf $*: $(cat "$WORK/err" "$WORK/server")"
	wait "$server" || fail "the server of oneside-perf $*: $(cat "$WORK/server")"
	APPLICATIONS=()
}
