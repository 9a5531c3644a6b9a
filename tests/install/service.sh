#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test the installed tree at its prefix: systemd accepts the units, whose sandbox is strict; their commands work as the
# service's user with only its capabilities and system calls, and with only /run writable; the data plane notifies the
# service manager and its watchdog; installed applications find their libraries and the default socket; programs and
# libraries are hardened.
#
# The test runs in a mount namespace, with the installed tree at the prefix and a private /run, and in a network namespace
# with an interface.

. "$(dirname "$0")/../net/lib.sh"
SOURCE=$(realpath "$(dirname "$0")/../..")

[ "$(id -u)" = 0 ] || skip "namespaces need root"
command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze (package systemd)"
if [ -z "${ONESIDE_NAMESPACE:-}" ]; then
	unshare --mount --net --propagation private true 2>/dev/null || skip "namespaces cannot be made here"
	ONESIDE_NAMESPACE=1 exec unshare --mount --net --propagation private bash "$0" "$@"
fi

option() { # NAME: prints an option of the build
	meson introspect --buildoptions "$BUILD" | python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}

PREFIX=$(option prefix)
LIBDIR=$PREFIX/$(option libdir)
[ "$PREFIX" != /usr ] && [ -d "$PREFIX" ] || skip "nothing can be mounted over the prefix $PREFIX"
net_init
meson install -C "$BUILD" --no-rebuild --destdir "$WORK/root" >"$WORK/out" 2>&1 || fail "meson install: $(cat "$WORK/out")"
mount --bind "$WORK/root$PREFIX" "$PREFIX" && mount -t tmpfs run /run && mount -t sysfs sys /sys || fail "cannot mount"

# ---- files ----

for program in "$PREFIX"/*bin/oneside-*; do
	! ldd "$program" | grep 'not found' >&2 || fail "$program does not find its libraries"
done
grep -q "libdat.so.1 => $LIBDIR/libdat.so.1 " <<<"$(ldd "$PREFIX/bin/oneside-copy")" || fail "oneside-copy has another libdat"
say "installed programs find their libraries"

hardened() { # FILE NEEDLES...
	local file=$1 needle
	shift
	readelf -W --dynamic --program-headers --dyn-syms "$file" >"$WORK/elf" || fail "$file: readelf"
	for needle in GNU_RELRO BIND_NOW __stack_chk_fail "$@"; do
		grep -q "$needle" "$WORK/elf" || fail "$file: no $needle"
	done
}
hardened "$PREFIX/bin/oneside-dataplane" 'Flags: NOW PIE' __snprintf_chk
verbs=$LIBDIR/oneside/verbs
for library in libdat.so.1 libdaplone.so.1 libdaplone.so.2 librsm.so.2 oneside/verbs/libibverbs.so.1; do
	hardened "$LIBDIR/$library" '_chk@'
done
hardened "$verbs/librdmacm.so.1"
# Some programs open these libraries by their names without a version.
for library in libibverbs librdmacm; do
	[ "$(readlink -f "$verbs/$library.so")" = "$(readlink -f "$verbs/$library.so.1")" ] || fail "$verbs/$library.so is missing"
done
say "data plane and libraries are hardened"
! ldconfig -p | grep -F "$verbs" || fail "the system looks for libraries in $verbs"

# ---- the unit ----

UNITS=$PREFIX/lib/systemd/system
for unit in "$UNITS"/oneside{,@}.service; do
	systemd-analyze verify --man=no "$unit" >"$WORK/out" 2>&1 && ! grep -q "$unit" "$WORK/out" ||
		fail "systemd-analyze verify: $(cat "$WORK/out")"
	systemd-analyze security --no-pager --offline=true --threshold=39 "$unit" >"$WORK/out" ||
		fail "the sandbox is too wide: $(tail -n 1 "$WORK/out")"
	# A port's interface may be made at any time after the service was started.
	expect 'StartLimitIntervalSec=0' "$unit"
	say "$(basename "$unit") is accepted: $(sed -n 's/^.*\(Overall.*[0-9]\.[0-9]\).*/\1/p' "$WORK/out")"
done

# Create the service's user and folder by systemd's tools.
mkdir -p "$WORK/sys/etc"
cp /etc/passwd /etc/group "$WORK/sys/etc"
systemd-sysusers --root="$WORK/sys" "$PREFIX/lib/sysusers.d/oneside.conf" >"$WORK/out" 2>&1 &&
	mount --bind "$WORK/sys/etc/passwd" /etc/passwd && mount --bind "$WORK/sys/etc/group" /etc/group ||
	fail "systemd-sysusers: $(cat "$WORK/out")"
systemd-tmpfiles --create "$PREFIX/lib/tmpfiles.d/oneside.conf" || fail "systemd-tmpfiles"
[ "$(stat -c %U:%G:%a /run/oneside)" = oneside:oneside:755 ] || fail "/run/oneside: $(stat -c %U:%G:%a /run/oneside)"

# of_unit KEY: prints the last value of KEY in $UNIT, for the instance $INSTANCE
of_unit() {
	sed -n "s/^$1=//p" "$UNIT" | sed "\$!d; s/%i/$INSTANCE/g"
}

# MEMLOCK stands for LimitMEMLOCK=infinity; if root may not raise the limit here, CAP_IPC_LOCK replaces it.
MEMLOCK=(prlimit --memlock=unlimited)
"${MEMLOCK[@]}" true 2>/dev/null || MEMLOCK=()

# as_unit UNIT INSTANCE [DROP-IN]: sets CONFINED, a prefix that runs a command as the service manager does.
as_unit() {
	local capability sum
	local -a sets=()
	UNIT=$UNITS/$1 INSTANCE=$2
	ENVIRONMENT=$(of_unit EnvironmentFile)
	ENVIRONMENT=${ENVIRONMENT#-}
	for key in bounding-set:CapabilityBoundingSet inh-caps:AmbientCapabilities ambient-caps:AmbientCapabilities; do
		sum=-all
		for capability in $(sed -n "s/^${key#*:}=//p" "$UNIT" ${3:+"$3"} | tr '[:upper:]' '[:lower:]'); do
			sum+=,+${capability#cap_}
		done
		[ ${#MEMLOCK[@]} -gt 0 ] || sum+=,+ipc_lock
		sets+=("--${key%:*}" "$sum")
	done
	install -d -m "$(of_unit RuntimeDirectoryMode)" -o "$(of_unit User)" -g "$(of_unit Group)" "/run/$(of_unit RuntimeDirectory)"
	CONFINED=(env "RUNTIME_DIRECTORY=/run/$(of_unit RuntimeDirectory)" "WATCHDOG_USEC=2000000"
		"${MEMLOCK[@]}"
		python3 "$(dirname "$0")/confined.py" "$UNIT"
		setpriv --reuid "$(of_unit User)" --regid "$(of_unit Group)" --init-groups "${sets[@]}" --no-new-privs)
}

# Like the service manager, split only $EAL_OPTIONS into words, and expand nothing else.
command_line() { # KEY: in COMMAND
	local word
	COMMAND=()
	set -f
	for word in $(of_unit "$1"); do
		# shellcheck disable=SC2206 # words are wanted
		[ "$word" = "\$EAL_OPTIONS" ] && COMMAND+=($EAL_OPTIONS) || COMMAND+=("$word")
	done
	set +f
}

# Stands for the service manager: prints each message that is sent to an address as a line.
manager() { # ADDRESS
	python3 -u -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\0", 1) if sys.argv[1][0] == "@" else sys.argv[1])
print("listening")
while True:
	print(s.recv(4096).decode())' "$1" >"$WORK/notified" &
	APPLICATIONS+=("$!")
	wait_for listening "$WORK/notified"
	[ "${1#/}" = "$1" ] || chmod 666 "$1"
}

wait_for() { # TEXT FILE
	until grep -q "$1" "$2"; do
		sleep 0.1
	done
}

copies() {
	local receiver
	head -c 1000000 /dev/urandom >"$WORK/file"
	"$PREFIX/bin/oneside-copy" receive "$WORK/copy" 2>"$WORK/receiver" &
	receiver=$!
	APPLICATIONS+=("$receiver")
	wait_for 'waiting for a sender' "$WORK/receiver"
	"$PREFIX/bin/oneside-copy" send "$WORK/file" 192.0.2.1 >/dev/null || fail "the sender"
	wait "$receiver" || fail "the receiver: $(cat "$WORK/receiver")"
	cmp "$WORK/file" "$WORK/copy" || fail "the copy differs"
}

# Runs oneside-run as a user without privileges, at the default socket.
nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
		"$PREFIX/bin/oneside-run" "$@"
}

rdma_programs() {
	local server
	command -v rping >/dev/null && command -v ibv_devinfo >/dev/null || {
		leave_out "there is no rping or ibv_devinfo; install rdmacm-utils and ibverbs-utils"
		return
	}
	nobody ibv_devinfo -v >"$WORK/devinfo" 2>&1 || fail "ibv_devinfo: $(cat "$WORK/devinfo")"
	expect '::ffff:192.0.2.1, RoCE v2' "$WORK/devinfo"
	nobody sh -c "LD_TRACE_LOADED_OBJECTS=1 exec $(command -v rping)" >"$WORK/loaded"
	for library in libibverbs librdmacm; do
		expect "$library.so.1 => $verbs/$library.so.1 " "$WORK/loaded"
	done
	nobody rping -s -P -a 192.0.2.1 >"$WORK/rping" 2>&1 &
	server=$!
	APPLICATIONS+=("$server")
	# The server prints nothing when it listens; until then a client is refused.
	until nobody rping -c -a 192.0.2.1 -C 3 -V >"$WORK/client" 2>&1; do
		kill -0 "$server" 2>/dev/null || fail "rping: $(cat "$WORK/rping" "$WORK/client")"
		sleep 0.1
	done
	end_process "$server" 10
}

reload() { # TEXT: what ExecReload prints
	command_line ExecReload
	env "$(of_unit Environment)" "${CONFINED[@]}" "${COMMAND[@]}" >"$WORK/out" 2>&1 ||
		fail "ExecReload: $(cat "$WORK/out" "$WORK/service.log")"
	expect "$1" "$WORK/out"
}

pings() { grep -c 'ping data' "$WORK/client"; }

# Runs ExecReload after the data plane's file has changed: the new process takes over beneath rping.
upgrades() {
	local old before client looks=600
	old=$(plane_pid service)
	command -v rping >/dev/null || return 0
	nobody rping -s -P -a 192.0.2.1 >"$WORK/rping" 2>&1 &
	APPLICATIONS+=("$!")
	until nobody rping -c -a 192.0.2.1 -C 1 >"$WORK/client" 2>&1; do sleep 0.1; done
	nobody rping -c -v -V -a 192.0.2.1 >"$WORK/client" 2>&1 &
	client=$!
	APPLICATIONS+=("$client")
	wait_for 'ping data' "$WORK/client"
	cp "$PREFIX/bin/oneside-dataplane" "$PREFIX/bin/new" && mv "$PREFIX/bin/new" "$PREFIX/bin/oneside-dataplane"
	reload "has taken over from process $old"
	say "$(cat "$WORK/out")"
	PLANE_PID[service]=$(sed -n 's/^process \([0-9]*\) .*/\1/p' "$WORK/out")
	wait "$old" || fail "the old process ended with status $?"
	expect "MAINPID=$(plane_pid service)" "$WORK/notified"
	before=$(pings)
	until [ "$(pings)" -ge $((before + 3)) ]; do
		[ "$looks" -gt 0 ] && kill -0 "$client" || fail "rping does not go on: $(tail -n 3 "$WORK/client" "$WORK/rping")"
		sleep 0.1
		looks=$((looks - 1))
	done
	end_process "$client" 10
	reload 'nothing has changed'
	: >"$WORK/notified"
	wait_for WATCHDOG=1 "$WORK/notified"
	kill "$(plane_pid service)"
	wait_for STOPPING=1 "$WORK/notified"
	unset "PLANE_PID[service]"
	say "ExecReload upgrades a changed data plane, and reads the configuration otherwise"
}

# Prints the EAL_OPTIONS of doc/install.md for a driver, with the interface of this test.
documented() {
	sed -n "s/^EAL_OPTIONS=\"-l 0,1 \(.*--vdev=net_$1.*\)\"\$/\1/p" "$SOURCE/doc/install.md" | sed 's/iface=eth1/iface=veth0/' | grep .
}

# serves UNIT INSTANCE ADDRESS DRIVER [DROP-IN]: runs the unit with the sample configuration and a device as documented,
# and the service manager's substitute at ADDRESS.
serves() {
	local address=$3 socket eal
	as_unit "$1" "$2" ${5:+"$5"}
	eal=$(documented "$4") || fail "doc/install.md has no EAL_OPTIONS for $4"
	socket=/run/$(of_unit RuntimeDirectory)/oneside.sock
	export ONESIDE_SOCKET=$socket
	[ -n "$INSTANCE" ] || unset ONESIDE_SOCKET # test the default
	mkdir -p "$(dirname "$ENVIRONMENT")"
	[ -e "${ENVIRONMENT%/*}/oneside.conf" ] || cp "$PREFIX/etc/oneside/oneside.conf" "${ENVIRONMENT%/*}"
	printf 'EAL_OPTIONS="%s"\n' "$(plane_cores 0) $eal" >"$ENVIRONMENT"
	# shellcheck disable=SC1090
	. "$ENVIRONMENT"
	manager "$address"
	command_line ExecStartPre
	NOTIFY_SOCKET=$address "${CONFINED[@]}" "${COMMAND[@]}" >"$WORK/out" 2>&1 || fail "ExecStartPre: $(cat "$WORK/out")"
	! grep -q "^EAL:" "$WORK/out" || fail "ExecStartPre starts EAL: $(cat "$WORK/out")"
	command_line ExecStart
	NOTIFY_SOCKET=$address "${CONFINED[@]}" "${COMMAND[@]}" >"$WORK/service.log" 2>&1 &
	PLANE_PID[service]=$!
	wait_for READY=1 "$WORK/notified"
	expect "serving on $socket" "$WORK/service.log"
	[ "$(stat -c %U "/proc/$(plane_pid service)")" = oneside ] || fail "it does not run as oneside"
	wait_for WATCHDOG=1 "$WORK/notified"
	copies
	rdma_programs
	[ "$4" != af_packet ] || {
		upgrades
		return
	}
	kill "$(plane_pid service)"
	wait "$(plane_pid service)" || fail "after SIGTERM: status $?"
	unset "PLANE_PID[service]"
	wait_for STOPPING=1 "$WORK/notified"
	# WATCHDOG=1 may come even after STOPPING=1.
	[ "$(grep -v WATCHDOG=1 "$WORK/notified" | tr '\n' ' ')" = "listening READY=1 STOPPING=1 " ] || fail "the service manager was notified: $(cat "$WORK/notified")"
	say "ExecStart serves installed applications, and Debian's programs for a user without rights, on net_$4, and notifies the service manager at ${address//$$/PID}"
}

# Make the file system read-only as ProtectSystem=strict does, except for the folders that this test writes.
net_at_exit() {
	mount -o remount,rw,bind / && umount -l "$PREFIX" "$PREFIX" /etc/passwd /etc/group "$WORK"
}
ip link add veth0 type veth peer name veth1 && ip link set veth0 up && ip link set veth1 up || fail "no veth pair"
mount --bind "$WORK" "$WORK" && mount --bind "$WORK/root$PREFIX" "$PREFIX" && mount -o remount,ro,bind / ||
	fail "cannot make the file system read-only"
! touch /oneside-written 2>/dev/null || fail "the file system can be written"
as_unit oneside.service ''
! "${CONFINED[@]}" unshare --mount true 2>/dev/null || fail "system calls are not filtered"
serves oneside.service '' "$WORK/notify" memif
serves oneside@.service b "@oneside-$$" af_packet "$PREFIX/share/doc/oneside/examples/take-over.conf"

# Test that `onesidectl check` checks with the user and the socket of the service, or of the instance.
looks() { # STATUS TEXT [FILE]
	local status=0
	"$PREFIX/bin/onesidectl" check "${@:3}" >"$WORK/out" 2>&1 || status=$?
	[ "$status" = "$1" ] || fail "onesidectl check ${*:3}: status $status: $(cat "$WORK/out")"
	expect "$2" "$WORK/out"
}
etc=$PREFIX/etc/oneside
(umask 077 && head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$etc/peer2.secret")
cp "$etc/oneside.conf" "$WORK/sample.conf"
sed "/^address = 192.0.2.2/a secret_file = $etc/peer2.secret" "$WORK/sample.conf" >"$etc/oneside.conf"
looks 1 "peer2.secret: user $(id -u oneside) may not read it"
chown oneside "$etc/peer2.secret"
looks 0 'Nothing essential is missing.'
cp "$WORK/sample.conf" "$etc/oneside.conf"
looks 0 'Nothing essential is missing.' "$etc/b/oneside.conf"
chown root /run/oneside/b
(cd "$etc/b" && looks 1 "missing: socket /run/oneside/b/oneside.sock: no file can be made in /run/oneside/b" oneside.conf) || exit 1
chown oneside /run/oneside/b
say "onesidectl check checks with the user and the socket of the service"
examples=$PREFIX/share/doc/oneside/examples
if python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW, 0)' 2>/dev/null; then
	mkdir -p "$PREFIX/etc/oneside/x"
	sed '/^address = 192.0.2.1/a mtu = 1500' "$PREFIX/etc/oneside/oneside.conf" >"$PREFIX/etc/oneside/x/oneside.conf" # as doc/install.md requires for af_xdp
	serves oneside@.service x "@oneside-x-$$" af_xdp "$examples/af_xdp.conf"
else
	leave_out "this kernel has no AF_XDP sockets: the drop-in for af_xdp"
fi

# The documented EAL options for NICs, which this machine lacks, may fail only because the NICs are missing.
as_unit oneside.service ''
while read -r eal; do
	# shellcheck disable=SC2086 # words are wanted
	"${CONFINED[@]}" "$PREFIX/bin/oneside-dataplane" $eal -- --config "$PREFIX/etc/oneside/oneside.conf" --precheck >"$WORK/out" 2>&1
	! grep '^missing: ' "$WORK/out" | grep -v '^missing: hugepages: \|: there is no PCI device \|^missing: processors: ' >&2 || fail "doc/install.md: $eal"
	grep -q 'essential' "$WORK/out" || fail "doc/install.md: $eal: $(cat "$WORK/out")"
done < <(sed -n 's/^EAL_OPTIONS="\(.* -a .*\)"$/\1/p' "$SOURCE/doc/install.md")
say "EAL options of doc/install.md are those that work"
