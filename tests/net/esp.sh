#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Test two data planes whose traffic is encrypted by ESP.
#
#   esp.sh seen 4|6  The cable carries only ESP, ARP and neighbour discovery; tshark, with the keys, finds valid RoCE.
#   esp.sh keys      A change of keys under load loses nothing; a restart reuses no sequence number; frames with wrong
#                    keys or without ESP are dropped and counted; key files that others can read are refused; no key is
#                    disclosed.
#   esp.sh openssl   A data plane with crypto_openssl and one with its default driver understand each other.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/esp_lib.sh"
net_init
need_crypto ipsec_mb openssl

# Starts a pair over a veth, whose frames are captured; addresses ${N}1 and ${N}2.
start_seen_pair() {
	need_root
	make_namespace a
	make_namespace b
	make_veth "oneside-$$-a" "oneside-$$-b"
	# A capture at one end has the frames that the other end sends.
	start_capture from-a "oneside-$$-b" veth0
	start_capture from-b "oneside-$$-a" veth0
	PLANE_NETWORK=$N start_af_packet_plane a --state "$WORK/state-a" \
		"$(ipsec b "${N}2" "0x1001:$WORK/ab.key" "0x1002:$WORK/ba.key")"
	PLANE_NETWORK=$N start_af_packet_plane b --state "$WORK/state-b" \
		"$(ipsec a "${N}1" "0x1002:$WORK/ba.key" "0x1001:$WORK/ab.key")"
}

# uat FROM TO SPI FILE: prints tshark's preference for a key.
uat() {
	printf 'uat:esp_sa:"%s","%s","%s","%s","AES-GCM with 16 octet ICV [RFC4106]","0x%s","NULL",""' \
		"$FAMILY" "$1" "$2" "$3" "$(cat "$4")"
}

seen() {
	command -v tshark dumpcap >/dev/null || skip "there is no tshark (Debian: tshark)"
	case $1 in
	4) N=192.0.2. FAMILY=IPv4 ;;
	6) N=2001:db8:: FAMILY=IPv6 ;;
	esac
	make_key ab 36
	make_key ba 20
	start_seen_pair
	# shellcheck disable=SC2034 # of perf
	HOST=${N}2
	perf -t write_bw -s 65536 -n 20
	perf -t read_bw -s 5000 -n 20
	perf -t send_lat -s 100 -n 50
	perf -t put_bw -s 4096 -n 20
	stop_capture from-a
	stop_capture from-b
	mergecap -w "$WORK/cable.pcap" "$WORK/from-a.pcap" "$WORK/from-b.pcap" || fail "no capture"
	[ "$(drops b esp_icv)$(drops a esp_icv)$(drops a esp_replay)$(drops b esp_replay)" = 0000 ] ||
		fail "drops: $(ctl a show drops) $(ctl b show drops)"

	tshark -r "$WORK/cable.pcap" -Y 'not esp and not arp and not (icmpv6.type >= 133 and icmpv6.type <= 137)' >"$WORK/plain" 2>"$WORK/err"
	[ ! -s "$WORK/plain" ] || fail "plain frames on the cable: $(head -n 5 "$WORK/plain")"
	tshark -r "$WORK/cable.pcap" -o esp.enable_encryption_decode:TRUE \
		-o "$(uat "${N}1" "${N}2" 0x00001001 "$WORK/ab.key")" -o "$(uat "${N}2" "${N}1" 0x00001002 "$WORK/ba.key")" \
		-T fields -e esp.spi -e infiniband.bth.opcode >"$WORK/decrypted" 2>"$WORK/err"
	awk -F '\t' '$1 != "" { if ($2 == "") bad++; else good[$1]++ }
		END { for (spi in good) spis++; if (bad || spis != 2) { print bad " not decrypted, SPIs: " spis; exit 1 } }' \
		"$WORK/decrypted" || fail "tshark cannot decrypt it: $(head -n 20 "$WORK/decrypted" "$WORK/err")"
	say "$(wc -l <"$WORK/decrypted") frames seen"
	/usr/bin/python3 -B "$(dirname "$0")/esp_decrypt.py" "$WORK/cable.pcap" "$WORK/opened.pcap" "0x1001:$WORK/ab.key" "0x1002:$WORK/ba.key"
	case $? in
	0) /usr/bin/python3 -B "$(dirname "$0")/check_capture.py" "$WORK/opened.pcap" || fail "the decrypted frames are wrong" ;;
	77) leave_out "ICVs and ICRCs: there is no python3-cryptography" ;;
	*) fail "the ESP packets on the cable are wrong" ;;
	esac
	stop_plane a
	stop_plane b
}

# conf PLANE LINES...: writes the configuration of PLANE, whose [ipsec] section has LINES.
conf() {
	local name=$1 own=1 peer=2
	shift
	[ "$name" = b ] && own=2 peer=1
	{
		printf '%s\n' '[dataplane]' "node = $own" "state = $WORK/state-$name" "idle = $(plane_idle)" \
			'[port p0]' 'device = net_memif0' "address = 192.0.2.$own/24" "mtu = $CABLE_MTU" \
			"[peer $peer]" "address = 192.0.2.$peer"
		[ $# = 0 ] || printf '%s\n' '[ipsec other]' "address = 192.0.2.$peer" "$@"
	} >"$WORK/$name.conf"
}
start() { # PLANE EAL...
	local role=server
	[ "$1" = b ] && role=client
	# shellcheck disable=SC2046
	start_plane "$1" $(plane_cores 1) $(eal_options "$1") "$(memif_device "$role")" "${@:2}" -- --config "$WORK/$1.conf"
}
reload() { # PLANE LINES...
	conf "$@"
	ctl "$1" reload >"$WORK/reload" 2>&1 || fail "reload: $(cat "$WORK/reload")"
}
reload_refused() { # TEXT PLANE LINES...
	conf "${@:2}"
	ctl "$2" reload >"$WORK/reload" 2>&1 && fail "reload is not refused: $(cat "$WORK/reload")"
	expect "$1" "$WORK/reload"
}
# sa PLANE SPI FACT: prints a fact of a security association.
sa() {
	ctl "$1" show ipsec --json | python3 -c "
import json, sys
print([s['$3'] for s in json.load(sys.stdin)['ipsec'] if int(s['spi'], 0) == $2][0])"
}
# nothing_dropped: fails if ESP processing has dropped a frame at either end.
nothing_dropped() {
	local plane reason
	for plane in a b; do
		for reason in plain length spi address replay icv limit no_association; do
			[ "$(drops "$plane" "esp_$reason")" = 0 ] || fail "plane $plane: $(ctl "$plane" show drops)"
		done
	done
}
# await_use PLANE SPI [COUNT]: waits until more than COUNT (0) packets have used the association.
await_use() {
	until [ "$(sa "$1" "$2" packets)" -gt "${3:-0}" ]; do
		kill -0 "$(plane_pid "$1")" 2>/dev/null || fail "nothing goes by SPI $2"
		sleep 0.1
	done
}

# Searches for keys in the plane's log, command line and output, and in the memory that a core dump would contain.
no_key_leaked() { # PLANE
	cat "$(plane_log "$1")" "/proc/$(plane_pid "$1")/cmdline" >"$WORK/shown"
	ctl "$1" show ipsec --json >>"$WORK/shown"
	python3 - "$(plane_pid "$1")" "$WORK/shown" "$WORK"/*.key <<'PYTHON' || fail "a key is where it should not be"
import re, sys
keys = {path: open(path).read().strip() for path in sys.argv[3:]}
shown = open(sys.argv[2], "rb").read()
bad = [f"{path}: it is shown" for path, text in keys.items() if text[:-8].encode() in shown]
wanted = {path: bytes.fromhex(text)[:-4] for path, text in keys.items()}
hidden, areas = 0, []
with open(f"/proc/{sys.argv[1]}/smaps") as smaps:
    for line in smaps:
        area = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) .*", line)
        if area:
            areas.append([int(area[1], 16), int(area[2], 16), area[3], line, False])
        elif line.startswith("VmFlags:"):
            areas[-1][4] = " dd" in line
with open(f"/proc/{sys.argv[1]}/mem", "rb", 0) as memory:
    for start, end, rights, line, dd in areas:
        if rights[0] != "r" or "[v" in line or end - start > 1 << 30:
            continue
        for at in range(start, end, 1 << 24):
            try:
                memory.seek(at)
                data = memory.read(min(1 << 24, end - at) + 0)
            except OSError:
                break
            for path, key in wanted.items():
                if key in data:
                    hidden += dd
                    if not dd:
                        bad.append(f"{path}: in memory that is dumped: {line.strip()}")
print("\n".join(bad), f"{hidden} times in memory that is not dumped")
sys.exit(bool(bad) or hidden == 0)
PYTHON
}

change_under_load() {
	local ab1="0x1001:$WORK/ab.key" ba1="0x1002:$WORK/ba.key" ab2="0x2001:$WORK/ab2.key" ba2="0x2002:$WORK/ba2.key"
	perf_begin -t write_bw -s 4096 -D 86400
	await_use a 0x1001 100
	reload b "out = $ba1" "in = $ab1" "in_next = $ab2"
	reload a "out = $ab2" "in = $ba1" "in_next = $ba2"
	await_use b 0x2001
	reload b "out = $ba2" "in = $ab2"
	await_use a 0x2002
	reload a "out = $ab2" "in = $ba2"
	await_use a 0x2001 "$(sa a 0x2001 packets)"
	perf_break
	nothing_dropped
	[ "$(ctl a show ipsec --json | grep -o '"spi"' | wc -l)" = 2 ] || fail "old keys are still there"
}

restart() {
	local used
	used=$(sa a 0x2001 number)
	kill_plane a
	start a
	perf -t write_bw -s 4096 -n 50
	[ "$(sa a 0x2001 number)" -gt "$used" ] || fail "after $used comes $(sa a 0x2001 number)"
	nothing_dropped
	# An orderly end skips no sequence number.
	used=$(sa a 0x2001 number)
	stop_plane a
	grep -qx "number $((used + 1))" "$WORK"/state-a/00002001-* || fail "$used numbers were used: $(cat "$WORK"/state-a/00002001-*)"
	start a
	perf -t write_bw -s 4096 -n 50
	nothing_dropped
}

refusals() {
	local ab2="0x2001:$WORK/ab2.key" ba2="0x2002:$WORK/ba2.key"
	chmod 644 "$WORK/ab.key"
	reload_refused 'chmod 600' a "out = 0x3001:$WORK/ab.key" "in = $ba2"
	chmod 600 "$WORK/ab.key"
	reload_refused 'give each SPI and direction its own' a "out = $ab2" "in = 0x2002:$WORK/ab2.key"
	printf '00112233\n' >"$WORK/short.key"
	chmod 600 "$WORK/short.key"
	reload_refused '20 to 36 bytes' a "out = 0x3001:$WORK/short.key" "in = $ba2"
	reload_refused 'it has no key to send' a "in = $ba2"
	perf -t write_bw -s 4096 -n 20
	nothing_dropped
	# Data plane a sends with another key than b's.
	reload a "out = 0x2001:$WORK/ab.key" "in = $ba2"
	reload a "out = 0x2001:$WORK/ab.key" "in = $ba2"
	expect 'nothing has changed' "$WORK/reload"
	make_key ab 36
	reload a "out = 0x2001:$WORK/ab.key" "in = $ba2"
	expect 'changed: keys of ipsec' "$WORK/reload"
	perf_dropped b esp_icv -t write_bw -s 4096 -n 20
	# Without keys a sends without ESP.
	reload a
	perf_dropped b esp_plain -t write_bw -s 4096 -n 20
	reload b
	perf -t write_bw -s 4096 -n 20
}

keys() {
	local key
	for key in ab ab2; do make_key $key 36; done
	for key in ba ba2; do make_key $key 20; done
	conf a "out = 0x1001:$WORK/ab.key" "in = 0x1002:$WORK/ba.key"
	conf b "out = 0x1002:$WORK/ba.key" "in = 0x1001:$WORK/ab.key"
	start a
	start b
	change_under_load
	# Not with OpenSSL, which has keys anywhere in memory; then the data plane disables its core dumps.
	grep -q 'event=esp_crypto device=crypto_openssl' "$(plane_log a)" || no_key_leaked a
	restart
	refusals
	stop_plane a
	stop_plane b
}

by_openssl() {
	need_crypto openssl
	make_key ab 36
	make_key ba 20
	conf a "out = 0x1001:$WORK/ab.key" "in = 0x1002:$WORK/ba.key"
	conf b "out = 0x1002:$WORK/ba.key" "in = 0x1001:$WORK/ab.key"
	start a --vdev crypto_openssl0
	start b
	expect 'event=esp_crypto device=crypto_openssl0' "$(plane_log a)"
	expect 'event=esp_crypto device=crypto_' "$(plane_log b)"
	perf -t write_bw -s 65536 -n 20
	perf -t read_bw -s 5000 -n 20
	perf -t send_lat -s 100 -n 50
	nothing_dropped
	[ "$(sa a 0x1001 packets)" -gt 300 ] || fail "little was encrypted: $(ctl a show ipsec)"
	stop_plane a
	stop_plane b
}

case ${1:-} in
seen) seen "${2:-4}" ;;
keys) keys ;;
openssl) by_openssl ;;
*) fail "usage: esp.sh seen 4|6, esp.sh keys, esp.sh openssl" ;;
esac
