#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test `onesidectl setup`: it configures two fresh hosts (namespaces with one end of a veth pair each), by options and by
# questions, for data planes that exchange RDMA. It refuses bad input, and loses no file.
. "$(dirname "$0")/lib.sh"
ONESIDECTL=${ONESIDECTL:-$BUILD/control/onesidectl}
net_init
need_root

setup() { ip netns exec "$host" "$ONESIDECTL" setup "$@"; }
# says TEXT OPTIONS...: setup must succeed, and print TEXT.
# refuses STATUS TEXT OPTIONS...: setup must fail with STATUS, and print one line with TEXT.
says() {
	setup "${@:2}" >"$WORK/out" 2>"$WORK/err" </dev/null || fail "setup ${*:2}: status $?: $(cat "$WORK/err")"
	expect "$1" "$WORK/out"
}
refuses() {
	setup "${@:3}" >"$WORK/out" 2>"$WORK/err" </dev/null
	[ $? = "$1" ] || fail "setup ${*:3}: not status $1: $(cat "$WORK/out" "$WORK/err")"
	expect "$2" "$WORK/err"
	[ "$(wc -l <"$WORK/err")" = 1 ] || fail "setup ${*:3}: $(cat "$WORK/err")"
}

make_namespace a
make_namespace b
make_veth "oneside-$$-a" "oneside-$$-b"
mkdir "$WORK/a" "$WORK/b" "$WORK/asked"

# ---- by options ----

host=oneside-$$-a
says "veth0            -             -                af_packet, af_xdp" --dry-run
says "framesz=8192,blocksz=65536,framecnt=1024" --dry-run --port veth0 --address 192.0.2.1/24
says "address = 192.0.2.1/24 2001:db8::1/64 198.51.100.1/24" --dry-run --port veth0 --address 192.0.2.1/24 \
	--address "2001:db8::1/64 198.51.100.1/24" --gateway 192.0.2.254 --gateway fe80::1
says "gateway = 192.0.2.254 fe80::1" --dry-run --port veth0 --address "192.0.2.1/24 2001:db8::1/64" \
	--gateway 192.0.2.254 --gateway fe80::1
for end in a b; do
	host=oneside-$$-$end own=1 peer=2
	[ $end = a ] || own=2 peer=1
	says "address = 192.0.2.$own/24" --yes --port veth0 --address "192.0.2.$own/24" --node $own --peer "$peer=192.0.2.$peer" \
		--output "$WORK/$end/oneside.conf"
	expect "onesidectl check $WORK/$end/oneside.conf" "$WORK/out"
	ip netns exec "$host" "$ONESIDECTL" check "$WORK/$end/oneside.conf" >"$WORK/out" 2>&1 || fail "check: $(cat "$WORK/out")"
	expect "Nothing essential is missing." "$WORK/out"
done
say "the written files pass check"

# ---- wrong options ----

host=oneside-$$-a
refuses 1 "no terminal" --output "$WORK/none" --port veth0 --address 192.0.2.1/24
refuses 1 "the address is missing" --yes --port veth0
refuses 1 "no such NIC or interface" --yes --port veth7 --address 192.0.2.1/24
refuses 1 "not a PCI device" --yes --port veth0 --driver vfio --address 192.0.2.1/24
refuses 1 "no such driver mode" --yes --port veth0 --driver dpdk --address 192.0.2.1/24
refuses 1 "prefix of the link is missing" --yes --port veth0 --address 192.0.2.1
refuses 1 "not a host's address" --yes --port veth0 --address 224.0.0.1/24
refuses 1 "not a host's address" --yes --port veth0 --address here
refuses 1 "given twice" --yes --port veth0 --address 192.0.2.1/24 --port veth0 --address 192.0.2.3/24
refuses 1 "--cores 4096" --yes --cores=4096 --port veth0 --address 192.0.2.1/24
refuses 1 "mtu 9000 is more than the interface's $CABLE_MTU" --yes --port veth0 --address 192.0.2.1/24 --mtu 9000
refuses 1 "write spin, yield or sleep" --yes --idle never --port veth0 --address 192.0.2.1/24
refuses 2 "onesidectl --help" --address 192.0.2.1/24
refuses 2 "onesidectl --help" --fast
refuses 2 "onesidectl --help" --yes --port
refuses 1 "exists; give --replace" --yes --port veth0 --address 192.0.2.9/24 --output "$WORK/a/oneside.conf"
grep -q '192.0.2.1/24' "$WORK/a/oneside.conf" || fail "a refusal has changed a file"
refuses 1 "No such file or directory" --yes --port veth0 --address 192.0.2.1/24 --output "$WORK/nowhere/at/oneside.conf"
# The kernel has the address on the interface, then a route.
ip -n "$host" addr add 192.0.2.77/24 dev veth0
refuses 1 "the kernel has address 192.0.2.77/24, on veth0" --dry-run --port veth0 --address 192.0.2.77/24
ip -n "$host" route add default via 192.0.2.78
refuses 1 "veth0 carries the default route, and af_xdp would take" --dry-run --port veth0 --driver af_xdp --address 192.0.2.1/24
refuses 1 "no such interface or NIC" --dry-run --port veth0 --driver af_xdp --address 192.0.2.1/24 --take-away veth1
says "af_xdp.conf" --dry-run --port veth0 --driver af_xdp --address 192.0.2.1/24 --take-away veth0
says "Proposed:  onesidectl setup --port memif" --dry-run
ip -n "$host" addr flush dev veth0
[ "$(find "$WORK/a" "$WORK/b" -type f | wc -l)" = 4 ] && [ ! -e "$WORK/none" ] || fail "files are left: $(find "$WORK" -type f)"
say "bad input is refused by name"

# ---- a second data plane on this machine ----

mkdir -p "$WORK/etc/oneside/second" "$WORK/etc/oneside/third"
says "role=server" --yes --port memif --output "$WORK/etc/oneside/oneside.conf"
says "role=client" --yes --port memif --output "$WORK/etc/oneside/second/oneside.conf"
expect "address = 192.0.2.2/24" "$WORK/etc/oneside/second/oneside.conf"
refuses 1 "is the client of the cable /run/oneside/cable; give --role server, or another --cable" \
	--yes --port memif --output "$WORK/etc/oneside/third/oneside.conf"
refuses 1 "has address 192.0.2.1/24; give another by --address" \
	--yes --port memif --cable /run/oneside/other --output "$WORK/etc/oneside/third/oneside.conf"
says "address = 192.0.2.3/24" --yes --port memif --cable /run/oneside/other --address 192.0.2.3/24 \
	--output "$WORK/etc/oneside/third/oneside.conf"
say "a second data plane gets the other end of the cable, and an unused address"

# ---- by questions ----

python3 - ip netns exec "$host" "$ONESIDECTL" setup --output "$WORK/asked/oneside.conf" <<'PYTHON' || fail "the questions"
import os, pty, sys
said = [("Port [", "veth7"), ("no such NIC", None), ("Port [", "veth0"), ("Driven by [af_packet]", "vfio"),
        ("not a PCI device", None), ("Driven by [af_packet]", ""), ("Its own address", "192.0.2.1"),
        ("prefix of the link", None), ("Its own address", "192.0.2.255/24"), ("its broadcast", None), ("Port [", "veth0"),
        ("Driven by", ""), ("Its own address", "192.0.2.1/24"), ("Another port [none]", ""), ("Node of RSM", "64"),
        ("write 1 to 63", None), ("Node of RSM", "1"), ("Peer in RSM", "2=198.51.100.2"), ("no port reaches", None),
        ("Peer in RSM", "2=192.0.2.2"), ("Peer in RSM", ""), ("Write these files? [yes]", "perhaps"),
        ("Write yes or no", None), ("Write these files? [yes]", "yes")]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = ""
for text, answer in said:
    while text not in seen:
        try:
            part = os.read(fd, 4096)
        except OSError:
            part = b""
        if not part:
            sys.exit(f"it ends, and does not say {text!r}: {seen!r}")
        seen += part.decode()
    seen = seen.split(text, 1)[1]
    if answer is not None:
        os.write(fd, (answer + "\n").encode())
try:
    while part := os.read(fd, 4096):
        seen += part.decode()
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PYTHON
cmp "$WORK/a/oneside.conf" "$WORK/asked/oneside.conf" && cmp "$WORK/a/eal.conf" "$WORK/asked/eal.conf" || fail "questions give another configuration than options"
says "192.0.2.9/24" --yes --replace --port veth0 --address 192.0.2.9/24 --output "$WORK/asked/oneside.conf"
cmp "$WORK/a/oneside.conf" "$WORK/asked/oneside.conf.old" || fail "the replaced file is not kept"
say "questions give the same configuration as options"

# ---- data planes with the written files ----

for end in a b; do
	# shellcheck disable=SC1090,SC1091 # as the service manager reads it
	EAL_OPTIONS=$(. "$WORK/$end/eal.conf" && printf '%s' "$EAL_OPTIONS")
	# shellcheck disable=SC2086
	PLANE_NETNS=oneside-$$-$end start_plane $end $EAL_OPTIONS "--file-prefix=$(basename "$WORK")-$end" -- --config "$WORK/$end/oneside.conf"
done
head -c 1000001 /dev/urandom >"$WORK/file"
: >"$WORK/receiver"
ONESIDE_SOCKET=$(plane_socket a) "$BUILD/perf/oneside-copy" receive "$WORK/copy" 2>"$WORK/receiver" &
receiver=$!
APPLICATIONS+=("$receiver")
until grep -q 'waiting for a sender' "$WORK/receiver"; do
	kill -0 "$receiver" 2>/dev/null || fail "no receiver: $(cat "$WORK/receiver")"
	sleep 0.1
done
ONESIDE_SOCKET=$(plane_socket b) "$BUILD/perf/oneside-copy" send "$WORK/file" 192.0.2.1 >"$WORK/out" 2>&1 || fail "the sender: $(cat "$WORK/out")"
wait "$receiver" || fail "the receiver: $(cat "$WORK/receiver")"
cmp "$WORK/file" "$WORK/copy" || fail "the copy differs"
ONESIDE_SOCKET=$(plane_socket b) "$ONESIDECTL" metrics >"$WORK/out" || fail "metrics"
awk '/^oneside_core_tx_bytes_total/ { sent += $2 } END { exit sent <= 1000001 }' "$WORK/out" || fail "the data did not pass over the wire"
stop_plane a
stop_plane b
say "a megabyte passes by RDMA"
