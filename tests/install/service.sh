#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What is installed, where it is installed: the units are such that systemd accepts them, with a sandbox worth the name;
# their commands work, as their user with its capabilities and system calls only, and where only /run can be written; the
# service manager is told, and its watchdog; installed applications find their libraries and are served at the default socket; what runs with privileges is
# hardened.
#
# In namespaces: of mounts, with the installed tree at the prefix and a /run of its own; of the network, with an interface.

. "$(dirname "$0")/../net/lib.sh"
SOURCE=$(realpath "$(dirname "$0")/../..")

[ "$(id -u)" = 0 ] || skip "namespaces need root"
command -v systemd-analyze >/dev/null || skip "there is no systemd-analyze (package systemd)"
if [ -z "${ONESIDE_NAMESPACE:-}" ]; then
	unshare --mount --net --propagation private true 2>/dev/null || skip "namespaces cannot be made here"
	ONESIDE_NAMESPACE=1 exec unshare --mount --net --propagation private bash "$0" "$@"
fi

option() { # of the build
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
say "data plane and libraries are hardened"
! ldconfig -p | grep -F "$verbs" || fail "the system looks for libraries in $verbs"

# ---- the unit ----

UNITS=$PREFIX/lib/systemd/system
for unit in "$UNITS"/oneside{,@}.service; do
	systemd-analyze verify --man=no "$unit" >"$WORK/out" 2>&1 && ! grep -q "$unit" "$WORK/out" ||
		fail "systemd-analyze verify: $(cat "$WORK/out")"
	systemd-analyze security --no-pager --offline=true --threshold=39 "$unit" >"$WORK/out" ||
		fail "the sandbox is too wide: $(tail -n 1 "$WORK/out")"
	say "$(basename "$unit") is accepted: $(sed -n 's/^.*\(Overall.*[0-9]\.[0-9]\).*/\1/p' "$WORK/out")"
done

# The user and the folder that the service needs, as systemd makes them.
mkdir -p "$WORK/sys/etc"
cp /etc/passwd /etc/group "$WORK/sys/etc"
systemd-sysusers --root="$WORK/sys" "$PREFIX/lib/sysusers.d/oneside.conf" >"$WORK/out" 2>&1 &&
	mount --bind "$WORK/sys/etc/passwd" /etc/passwd && mount --bind "$WORK/sys/etc/group" /etc/group ||
	fail "systemd-sysusers: $(cat "$WORK/out")"
systemd-tmpfiles --create "$PREFIX/lib/tmpfiles.d/oneside.conf" || fail "systemd-tmpfiles"
[ "$(stat -c %U:%G:%a /run/oneside)" = oneside:oneside:755 ] || fail "/run/oneside: $(stat -c %U:%G:%a /run/oneside)"

# of_unit KEY: its last value in $UNIT, for the instance $INSTANCE
of_unit() {
	sed -n "s/^$1=//p" "$UNIT" | sed "\$!d; s/%i/$INSTANCE/g"
}

# LimitMEMLOCK=infinity; where this root must not raise it, the capability that stands for that.
MEMLOCK=(prlimit --memlock=unlimited)
"${MEMLOCK[@]}" true 2>/dev/null || MEMLOCK=()

# as_unit UNIT INSTANCE [DROP-IN]: CONFINED is what runs a command as the service manager does.
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

# As the service manager does: the variable is split into words, and nothing else is a shell's.
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

# What is sent to an address, a line each.
manager() { # ADDRESS
	python3 -u -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1].replace("@", "\0", 1) if sys.argv[1][0] == "@" else sys.argv[1])
print("listening")
while True:
	print(s.recv(4096).decode())' "$1" >"$WORK/told" &
	APPLICATIONS+=("$!")
	wait_for listening "$WORK/told"
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

# As a user without any rights, at the default socket.
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
	# It says nothing when it listens: a client is refused until then.
	until nobody rping -c -a 192.0.2.1 -C 3 -V >"$WORK/client" 2>&1; do
		kill -0 "$server" 2>/dev/null || fail "rping: $(cat "$WORK/rping" "$WORK/client")"
		sleep 0.1
	done
	end_process "$server" 10
}

# What doc/install.md gives as EAL_OPTIONS for a driver, with the interface that there is.
documented() {
	sed -n "s/^EAL_OPTIONS=\"-l 0,1 \(.*--vdev=net_$1.*\)\"\$/\1/p" "$SOURCE/doc/install.md" | sed 's/iface=eth1/iface=veth0/' | grep .
}

# serves UNIT INSTANCE ADDRESS DRIVER [DROP-IN]: the sample configuration with a device as documented, and the manager at
# the address.
serves() {
	local address=$3 socket eal
	as_unit "$1" "$2" ${5:+"$5"}
	eal=$(documented "$4") || fail "doc/install.md has no EAL_OPTIONS for $4"
	socket=/run/$(of_unit RuntimeDirectory)/oneside.sock
	export ONESIDE_SOCKET=$socket
	[ -n "$INSTANCE" ] || unset ONESIDE_SOCKET # the default
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
	wait_for READY=1 "$WORK/told"
	expect "serving on $socket" "$WORK/service.log"
	[ "$(stat -c %U "/proc/$(plane_pid service)")" = oneside ] || fail "it does not run as oneside"
	wait_for WATCHDOG=1 "$WORK/told"
	copies
	rdma_programs
	kill "$(plane_pid service)"
	wait "$(plane_pid service)" || fail "after SIGTERM: status $?"
	unset "PLANE_PID[service]"
	wait_for STOPPING=1 "$WORK/told"
	# It lives while it ends, too.
	[ "$(grep -v WATCHDOG=1 "$WORK/told" | tr '\n' ' ')" = "listening READY=1 STOPPING=1 " ] || fail "the manager was told: $(cat "$WORK/told")"
	say "ExecStart serves installed applications, and Debian's programs for a user without rights, on net_$4, and tells the manager at ${address//$$/PID}"
}

# As ProtectSystem=strict does, but for what this test writes.
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
serves oneside@.service b "@oneside-$$" af_packet

# onesidectl check looks as the service will, and as the instance: by its user, with its socket.
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
say "onesidectl check looks as the service will"
examples=$PREFIX/share/doc/oneside/examples
if python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW, 0)' 2>/dev/null; then
	mkdir -p "$PREFIX/etc/oneside/x"
	sed '/^address = 192.0.2.1/a mtu = 1500' "$PREFIX/etc/oneside/oneside.conf" >"$PREFIX/etc/oneside/x/oneside.conf" # as it says there
	serves oneside@.service x "@oneside-x-$$" af_xdp "$examples/af_xdp.conf"
else
	leave_out "this kernel has no AF_XDP sockets: the drop-in for af_xdp"
fi

# Of NICs that are not here nothing but their absence may be found wrong.
as_unit oneside.service ''
while read -r eal; do
	# shellcheck disable=SC2086 # words are wanted
	"${CONFINED[@]}" "$PREFIX/bin/oneside-dataplane" $eal -- --config "$PREFIX/etc/oneside/oneside.conf" --precheck >"$WORK/out" 2>&1
	! grep '^missing: ' "$WORK/out" | grep -v '^missing: hugepages: \|: there is no PCI device \|^missing: processors: ' >&2 || fail "doc/install.md: $eal"
	grep -q 'essential' "$WORK/out" || fail "doc/install.md: $eal: $(cat "$WORK/out")"
done < <(sed -n 's/^EAL_OPTIONS="\(.* -a .*\)"$/\1/p' "$SOURCE/doc/install.md")
say "EAL options of doc/install.md are those that work"
