#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Debian's QEMU migrates a running guest from one data plane to another by "rdma:", on oneside's libibverbs and
# librdmacm. The guest reads and writes a disk all the time, without the host's page cache: the kernel moves data to and from
# the guest's memory while that is registered. Memory and disk must be intact, and the guest must continue.
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

DISK=/var/tmp/${WORK##*/}.disk
net_at_exit() { rm -f "$DISK"; }
truncate -s 16M "$DISK" || fail "there is no space for $DISK"
dd if="$DISK" of=/dev/null bs=1M count=1 iflag=direct status=none || skip "/var/tmp has no direct I/O"

# The guest counts, verifies the checksum of a file in memory, and dirties other memory meanwhile. A second process reads a
# copy of its beginning from the disk through the guest's page cache, which is emptied each time. A third writes blocks
# directly, and verifies the block that it wrote eight blocks before.
mkdir -p "$WORK/extra"
cat >"$WORK/extra/migrant" <<'GUEST'
#!/bin/sh
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=80% tmp /tmp
exec >/dev/ttyS0 2>&1
modprobe -a virtio_pci virtio_blk
until [ -b /dev/vda ]; do sleep 0.1; done
head -c 33554432 /dev/urandom >/tmp/data
head -c 4194304 /tmp/data >/tmp/beginning
dd if=/tmp/beginning of=/dev/vda bs=1M conv=fsync status=none
sum=$(md5sum </tmp/data)

read_disk() {
	while :; do
		echo 1 >/proc/sys/vm/drop_caches
		if dd if=/dev/vda bs=1M count=4 status=none | cmp -s - /tmp/beginning; then echo "read"; else echo "broken disk"; fi
	done
}

# Blocks are at 4 to 11 MiB.
write_disk() {
	local m=0 at sum
	while :; do
		m=$((m + 1))
		at=$((4 + m % 8))
		head -c 1048576 /dev/urandom >/tmp/block
		eval "sum=\$sum$at"
		[ "$m" -le 8 ] || [ "$(dd if=/dev/vda bs=1M count=1 skip=$at iflag=direct status=none | md5sum)" = "$sum" ] ||
			echo "broken block $m"
		eval "sum$at='$(md5sum </tmp/block)'"
		dd if=/tmp/block of=/dev/vda bs=1M seek=$at oflag=direct status=none && echo "wrote $m"
	done
}

read_disk &
write_disk &
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
		-drive "file=$DISK,if=none,id=disk,format=raw,cache=none,aio=native" -device virtio-blk-pci,drive=disk \
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

# has NAME N: the guest of QEMU NAME has verified its memory and read the disk N times, and has written three blocks for each
has() {
	[ "$(lines "$1" whole)" -ge "$2" ] && [ "$(lines "$1" read)" -ge "$2" ] && [ "$(lines "$1" wrote)" -ge $(($2 * 3)) ]
}
lines() { grep -c "^$2" "$WORK/$1.console" 2>/dev/null; }
is_over() { grep -Eq '"status": "(completed|failed)"' <<<"$(qmp source query-migrate)"; }

capabilities='{"capabilities": [{"capability": "rdma-pin-all", "state": '$([ $PIN = on ] && echo true || echo false)'}]}'
qemu 0 source
source=$QEMU
qemu 1 target -incoming defer
until_true 60 "QEMU starts" test -S "$WORK/source.qmp" -a -S "$WORK/target.qmp"
qmp source migrate-set-capabilities "$capabilities" >/dev/null || fail "the source"
qmp target migrate-set-capabilities "$capabilities" >/dev/null || fail "the target"
qmp target migrate-incoming "{\"uri\": \"rdma:${addresses[1]}:4444\"}" >/dev/null || fail "no listener"
until_true "$GUEST_BOOT" "the guest boots" has source 3
qmp source migrate-set-parameters '{"max-bandwidth": 10000000000, "downtime-limit": 2000}' >/dev/null || fail "parameters"
qmp source migrate "{\"uri\": \"rdma:${addresses[1]}:4444\"}" >/dev/null || fail "no migration"
until_true 120 "the migration ends" is_over
status=$(qmp source query-migrate)
grep -q '"status": "completed"' <<<"$status" || fail "migration: $status: $(cat "$WORK/source.log" "$WORK/target.log")"
kill "$source"
until_true "$GUEST_BOOT" "the guest goes on" has target 3 # nine blocks: all that the source wrote are verified
grep broken "$WORK"/*.console && fail "the guest's memory or disk is damaged"
last=$(grep -o '^whole [0-9]*' "$WORK/source.console" | tail -n 1)
first=$(grep -o '^whole [0-9]*' "$WORK/target.console" | head -n 1)
[ "${first#whole }" -gt "${last#whole }" ] || fail "the guest restarted: count ${first#whole } after ${last#whole }"
qmp target quit >/dev/null 2>&1
say "moved: $(python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["ram"]["transferred"] >> 20, "MiB in", s["total-time"], "ms, stopped for", s["downtime"], "ms")' <<<"$status")"
