#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Debian's QEMU migrates a running guest from one data plane to another by "rdma:", on oneside's libibverbs and
# librdmacm. The guest's memory must be intact, and the guest must continue.
#
#   migrate.sh pin|chunks     registers all of the guest's memory beforehand, or chunks on demand

. "$(dirname "$0")/guest.sh"
. "$(dirname "$0")/../net/verbs_lib.sh"
case ${1:-} in
pin) PIN=on ;;
chunks) PIN=off ;;
*) fail "migrate.sh: \"${1:-}\" is neither pin nor chunks" ;;
esac
qemu-system-x86_64 --version >/dev/null 2>&1 || skip "there is no qemu-system-x86_64; install qemu-system-x86"
grep -q librdmacm <<<"$(ldd "$(command -v qemu-system-x86_64)")" || skip "this QEMU has no RDMA"
verbs_init memif
interop_init

# The guest counts, verifies the checksum of a file in memory, and dirties other memory meanwhile.
mkdir -p "$WORK/extra"
cat >"$WORK/extra/migrant" <<'GUEST'
#!/bin/sh
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=80% tmp /tmp
exec >/dev/ttyS0 2>&1
head -c 33554432 /dev/urandom >/tmp/data
sum=$(md5sum </tmp/data)
n=0
while :; do
	n=$((n + 1))
	head -c 262144 /dev/urandom >/tmp/other$((n % 4))
	if [ "$(md5sum </tmp/data)" = "$sum" ]; then echo "whole $n"; else echo "broken $n"; fi
done
GUEST
chmod +x "$WORK/extra/migrant"
(cat "$INTEROP/initramfs" && cd "$WORK/extra" && echo migrant | cpio -o -H newc --quiet | gzip) >"$WORK/initramfs" ||
	fail "no initramfs"

# qemu END NAME ARGUMENTS...: starts QEMU in the background, on data plane END (0 or 1)
qemu() {
	local end=$1 name=$2
	shift 2
	"$RUN" --socket "${sockets[$end]}" qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
		-M q35 -accel tcg -cpu Haswell-noTSX -m 256 -kernel "$INTEROP/vmlinux" -initrd "$WORK/initramfs" \
		-append "console=ttyS0 quiet panic=-1 nokaslr mitigations=off $CLOCK no_timer_check rdinit=/migrant" \
		-serial "file:$WORK/$name.console" -qmp "unix:$WORK/$name.qmp,server=on,wait=off" \
		"$@" </dev/null >"$WORK/$name.log" 2>&1 &
	APPLICATIONS+=($!)
	QEMU=$!
}

# qmp NAME COMMAND [ARGUMENTS-JSON]: prints the answer of QEMU NAME to a QMP command
qmp() {
	python3 -B - "$WORK/$1.qmp" "$2" "${3:-}" <<'PYTHON'
import json, socket, sys
path, command, arguments = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(60)
    s.connect(path)
    stream = s.makefile("rw")
    stream.readline()
    for request in {"execute": "qmp_capabilities"}, {"execute": command, **({"arguments": json.loads(arguments)} if arguments else {})}:
        stream.write(json.dumps(request) + "\n")
        stream.flush()
        while "event" in (answer := json.loads(stream.readline())):
            pass
        if "error" in answer:
            sys.exit(f"{command}: {answer['error']['desc']}")
    print(json.dumps(answer["return"]))
PYTHON
}

# until_true SECONDS WHAT COMMAND...: repeats COMMAND until it succeeds; WHAT: the message if it does not
until_true() {
	local tenths=$(($1 * 10)) what=$2
	shift 2
	until "$@"; do
		[ "$tenths" -gt 0 ] || fail "$what: $(tail -n 5 "$WORK"/*.console "$WORK"/*.log)"
		sleep 0.1
		tenths=$((tenths - 1))
	done
}

wholes() { grep -c '^whole' "$WORK/$1.console" 2>/dev/null; }
has_wholes() { [ "$(wholes "$1")" -ge "$2" ]; }
is_over() { grep -Eq '"status": "(completed|failed)"' <<<"$(qmp source query-migrate)"; }

capabilities='{"capabilities": [{"capability": "rdma-pin-all", "state": '$([ $PIN = on ] && echo true || echo false)'}]}'
qemu 0 source
source=$QEMU
qemu 1 target -incoming defer
until_true 60 "QEMU starts" test -S "$WORK/source.qmp" -a -S "$WORK/target.qmp"
qmp source migrate-set-capabilities "$capabilities" >/dev/null || fail "the source"
qmp target migrate-set-capabilities "$capabilities" >/dev/null || fail "the target"
qmp target migrate-incoming "{\"uri\": \"rdma:${addresses[1]}:4444\"}" >/dev/null || fail "no listener"
until_true "$GUEST_BOOT" "the guest boots" has_wholes source 3
qmp source migrate-set-parameters '{"max-bandwidth": 10000000000, "downtime-limit": 2000}' >/dev/null || fail "parameters"
qmp source migrate "{\"uri\": \"rdma:${addresses[1]}:4444\"}" >/dev/null || fail "no migration"
until_true 120 "the migration ends" is_over
status=$(qmp source query-migrate)
grep -q '"status": "completed"' <<<"$status" || fail "migration: $status: $(cat "$WORK/source.log" "$WORK/target.log")"
kill "$source"
until_true 60 "the guest goes on" has_wholes target 3
grep broken "$WORK"/*.console && fail "the guest's memory is damaged"
last=$(grep -o '^whole [0-9]*' "$WORK/source.console" | tail -n 1)
first=$(grep -o '^whole [0-9]*' "$WORK/target.console" | head -n 1)
[ "${first#whole }" -gt "${last#whole }" ] || fail "the guest restarted: count ${first#whole } after ${last#whole }"
qmp target quit >/dev/null 2>&1
say "moved: $(python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["ram"]["transferred"] >> 20, "MiB in", s["total-time"], "ms, stopped for", s["downtime"], "ms")' <<<"$status")"
