#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Test onesidectl with a data plane that has a connection: the output and the effect of each command; wrong commands;
# permissions to query and to change; reload and SIGHUP, all or nothing; drain.
. "$(dirname "$0")/lib.sh"
ONESIDECTL=${ONESIDECTL:-$BUILD/control/onesidectl}
net_init
PORT="device = net_memif0
address = 192.0.2.1/24
mtu = $CABLE_MTU"

configuration() { # MORE...
	printf '%s\n' '[dataplane]' 'node = 1' "idle = $(plane_idle)" "$@" '[port p0]' "$PORT" >"$WORK/conf"
}
PEERS=$'[peer 2]\naddress = 192.0.2.2'
start() { # OPTIONS...
	# shellcheck disable=SC2046
	start_plane a $(plane_cores 1) $(eal_options a) "$(memif_device server)" -- --config "$WORK/conf" "$@"
}

ctl() { "$ONESIDECTL" "$@"; }
export ONESIDE_SOCKET
ONESIDE_SOCKET=$(plane_socket a)

# says TEXT COMMAND...: COMMAND must succeed, and print a line that has TEXT.
says() {
	local text=$1
	shift
	"$@" >"$WORK/out" 2>"$WORK/err" || fail "${*:1}: status $?: $(cat "$WORK/err")"
	expect "$text" "$WORK/out"
	[ ! -s "$WORK/err" ] || fail "$*: $(cat "$WORK/err")"
}
# refuses STATUS TEXT COMMAND...: COMMAND must fail with STATUS, and print only one line, which has TEXT.
refuses() {
	local status=$1 text=$2
	shift 2
	"$@" >"$WORK/out" 2>"$WORK/err"
	[ $? = "$status" ] || fail "$*: not status $status: $(cat "$WORK/out" "$WORK/err")"
	expect "$text" "$WORK/err"
	[ "$(wc -l <"$WORK/err")" = 1 ] && [ ! -s "$WORK/out" ] || fail "$*: $(cat "$WORK/out" "$WORK/err")"
}
# json COMMAND EXPRESSION...: keeps the output of COMMAND, and Python expressions on it (`d`), which judge evaluates.
ASKED=0
json() {
	local command=$1
	ASKED=$((ASKED + 1))
	# shellcheck disable=SC2086
	ctl $command --json >"$WORK/asked-$ASKED" 2>"$WORK/err" || fail "$command: $(cat "$WORK/err")"
	printf '%s\n' "$@" >"$WORK/asked-$ASKED.is"
}
judge() {
	python3 - "$WORK/asked-" "$ASKED" "$(dirname "$0")/../../doc/man/onesidectl.8" <<'PYTHON' || fail "what onesidectl prints as JSON"
import json, re, sys

# The manual page lists each name, and its kind.
page = open(sys.argv[3], encoding="utf-8").read()
page = page[page.index(".SS Names\n"):page.index(".SH PROTOCOL\n")]
documented = {}
for entry in page.split(".TP\n")[1:]:
    name, _, words = entry.partition("\n")
    words = words.split(".\n")[0].replace("\\fR", "").split()
    documented[name.replace("\\fB", "").replace("\\fR", "")] = {w.strip(",").replace("\\fI", ""): "\\fI" in w for w in words}
def check_names(d):
    for name, objects in d.items():
        for o in objects if isinstance(objects, list) else ():
            for key, value in o.items():
                if documented[name].get(key) != isinstance(value, str):
                    sys.exit(f"onesidectl(8) does not document {name}: {key}, or as another kind: {value!r}")
for number in range(1, int(sys.argv[2]) + 1):
    command, *expressions = open(f"{sys.argv[1]}{number}.is").read().splitlines()
    d = json.load(open(f"{sys.argv[1]}{number}"))
    if command.startswith("show"):
        check_names(d)
    for expression in expressions:
        if not eval(expression):
            sys.exit(f"{command}: not so: {expression}\n{json.dumps(d)[:3000]}")
PYTHON
	ASKED=0
}
# logged TEXT: waits until the data plane has logged TEXT.
logged() {
	until grep -qF -- "$1" "$(plane_log a)"; do
		kill -0 "$(plane_pid a)" 2>/dev/null || fail "the data plane does not log \"$1\""
		sleep 0.1
	done
}
# connection: makes a connection, which stays until descriptor 8 is closed; its process is $connected.
connection() {
	rm -f "$WORK/hold" "$WORK/ready"
	mkfifo "$WORK/hold" "$WORK/ready"
	"$BUILD/tests/net/net-dat-connected" "$(plane_socket a)" "$(plane_socket a)" <"$WORK/hold" >"$WORK/ready" 2>&1 &
	connected=$!
	APPLICATIONS+=("$connected")
	exec 8>"$WORK/hold" 9<"$WORK/ready"
	await_line ready
}
await_line() {
	local line
	while read -r -t 5000 line <&9; do
		[ "$line" = "$1" ] && return
		heard=$line
		[ -z "$1" ] && return
	done
	fail "no line \"$1\" comes from the application"
}

# ---- without a data plane ----

refuses 1 "no data plane listens" ctl show
refuses 1 "too long" ctl --socket "/tmp/$(printf '%0200d' 0)" show
for wrong in "" "dance" "show dances" "show clients user=1" "show clients pid=" "show clients pid=x" "show clients pid=1 pid=2" \
	"show clients uid=nobody-of-that-name" "metrics xml" "metrics prometheus now" "metrics --json" "top interval=0" "top fast" "trace 0x" "trace 1 2" "capture p0" "check a b" \
	"reload now" "peer" "peer add 1" "peer add x 192.0.2.1" "peer add 1 192.0.2.1 2" "peer remove" "client kill" \
	"client kill me" "move" "move 1" "move 1 x" "drain now" "log level" "log debug" "--loud show" "--socket"; do
	# shellcheck disable=SC2086
	refuses 2 "onesidectl --help" ctl $wrong
done
says "Usage: onesidectl" ctl --help
says "onesidectl " ctl --version

# ---- commands that need no data plane ----

configuration "keepalive_ms = often"
refuses 1 "keepalive_ms = often" ctl check "$WORK/conf"
# `check` takes the EAL options from eal.conf in the folder of the file, and starts nothing.
configuration "socket = $WORK/checked.sock"
eal_conf() { printf 'EAL_OPTIONS="--lcores=0,1@0 --no-huge -m 256 --no-pci %s"\n' "$1" >"$WORK/eal.conf"; }
eal_conf "$(memif_device server)"
says "Nothing essential is missing. Only a start shows" ctl check "$WORK/conf"
[ ! -e "$WORK/cable" ] || fail "check makes a device"
eal_conf "--vdev=net_af_packet0,iface=nothere"
ctl check "$WORK/conf" >"$WORK/out" 2>&1 && fail "a missing interface is not reported"
expect "there is no interface nothere" "$WORK/out"
rm "$WORK/eal.conf"
# completes WORDS... -- EXPECTED...: bash must offer EXPECTED for the last word.
completes() {
	local -a words=()
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	(
		. "$(dirname "$0")/../../control/onesidectl/onesidectl.bash"
		COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
		_onesidectl
		[ "${COMPREPLY[*]}" = "$*" ] || fail "${words[*]}: bash offers \"${COMPREPLY[*]}\", not \"$*\""
	) || exit 1
}
completes "$ONESIDECTL" sh -- show
completes "$ONESIDECTL" --json show p -- ports peers
completes "$ONESIDECTL" show clients p -- pid= port= peer=
completes "$ONESIDECTL" log level lib.eal de -- debug
completes "$ONESIDECTL" reload "" -- check upgrade
completes "$ONESIDECTL" setup --port memif --dri -- --driver
completes "$ONESIDECTL" setup --port memif --driver af_p -- af_packet
completes "$ONESIDECTL" setup --port mem -- memif
completes "$ONESIDECTL" metrics pro -- prometheus

# ---- show ----

configuration "$PEERS"
start
[ "$(stat -c %a "$(plane_socket a).ctl")" = 600 ] || fail "the control socket is open to others"
connection
pids=$(pgrep -P "$connected" | tr '\n' ' ')$connected
json "show version" "d['version'][0]['pid'] == $(plane_pid a)" "d['version'][0]['node'] == 1" "d['version'][0]['drains'] == 'no'"
json "show clients" "len(d['clients']) == 2" "all(str(c['pid']) in '$pids'.split() for c in d['clients'])" \
	"all(c['program'] == 'net-dat-connect'[:len(c['program'])] or c['program'].startswith('net-dat-conn') for c in d['clients'])" \
	"all(c['api'] == 'dat' and c['port'] == 'p0' and c['core'] == 1 and c['mrs'] == 1 and c['qps'] >= 1 for c in d['clients'])" \
	"sorted(c['listeners'] for c in d['clients']) == [0, 1]"
json "show connections" "len(d['connections']) == 2" "all(c['state'] == 'up' and c['kind'] == 'oneside' and c['by'] == 'cm' for c in d['connections'])" \
	"sorted(c['side'] for c in d['connections']) == ['active', 'passive']" \
	"{c['qpn'] for c in d['connections']} == {c['peer_qpn'] for c in d['connections']}" \
	"all(c['local'] == c['peer'] == '192.0.2.1' for c in d['connections'])"
json "show endpoints peer=192.0.2.1" "len(d['endpoints']) == 2" "all(e['state'] == 'connected' for e in d['endpoints'])"
json "show endpoints peer=192.0.2.9" "d == {'endpoints': []}"
json "show memory" "sorted(m['length'] for m in d['memory']) == [65536, 65536]"
json "show listeners" "len(d['listeners']) == 1 and d['listeners'][0]['state'] == 'listening'"
json "show ports port=p0" "d['ports'][0]['address'] == '192.0.2.1' and d['ports'][0]['device_name'] == 'net_memif0' and d['ports'][0]['mtu'] == $CABLE_MTU"
json "show cores" "[c['core'] for c in d['cores']] == [1] and d['cores'][0]['loops'] > 0"
json "show quota uid=$(id -u)" "len(d['quota']) == 1 and d['quota'][0]['clients'] == 2 and d['quota'][0]['bytes'] >= 131072"
json "show peers" "d == {'peers': [{'node': 2, 'address': '192.0.2.2', 'port': 'p0', 'secret': 'no'}]}"
json "show" "set(d) == {'version', 'ports', 'cores', 'clients', 'segments', 'drops'}"
json "show segments" "d == {'segments': []}"
json "show neighbours" "isinstance(d['neighbours'], list)"
json "show drops" "'no_queue_pair' in d['drops'][0]"
json "show transport" "'retransmitted' in d['transport'][0]"
one=$(ctl show clients | awk 'NR == 2 { print $2 }')
json "show clients pid=$one" "len(d['clients']) == 1"
json "show clients uid=12345" "d == {'clients': []}"
says "active   cm  192.0.2.1  192.0.2.1" ctl show connections
says "PROGRAM" ctl show clients
says "BUSY%-SINCE-START" ctl show cores
says "node 1, up" ctl show
completes "$ONESIDECTL" show clients port = "" -- p0
completes "$ONESIDECTL" show endpoints port=p -- port=p0
completes "$ONESIDECTL" client kill "${one:0:3}" -- $(ctl show clients | awk -v p="^${one:0:3}" '$2 ~ p { print $2 }' | sort -u)
refuses 1 "no such port" ctl show ports port=p9
refuses 1 "not an address" ctl show endpoints peer=there
refuses 1 "unknown word" ctl show cores pid=1
json "top count=1" "d['seconds'] > 0 and len(d['clients']) == 2 and 'work' in d['cores'][0]"
# On a terminal with few lines `top` shows what fits, and q ends it.
ONESIDECTL=$ONESIDECTL python3 - <<'PYTHON' || fail "top on a terminal"
import fcntl, os, pty, struct, sys, termios
control, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 9, 200, 0, 0))
before = termios.tcgetattr(terminal)
pid = os.fork()
if pid == 0:
    for fd in (0, 1, 2):
        os.dup2(terminal, fd)
    os.execv(os.environ["ONESIDECTL"], ["onesidectl", "top"])
seen = b""
while seen.count(b"CLIENT") < 2 or not seen.endswith(b"\n"):
    seen += os.read(control, 65536)
page = seen.split(b"\x1b[J")[1].decode()
assert "and 2 more" in page and page.count("\n") <= 9, page
os.write(control, b"xq")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert termios.tcgetattr(terminal) == before, "it leaves the terminal as another"
PYTHON
judge
say "all objects are shown"

# ---- changes ----

says "changed: peers" ctl peer add 9 192.0.2.9 port=p0
json "show peers" "[p['node'] for p in d['peers']] == [2, 9]"
refuses 1 "remove it first" ctl peer add 9 192.0.2.10
refuses 1 "no port reaches" ctl peer add 10 198.51.100.1
refuses 1 "there is no port p7" ctl peer add 10 192.0.2.10 port=p7
refuses 1 "not an IPv4" ctl peer add 10 nowhere
refuses 1 "1 to 63" ctl peer add 64 192.0.2.10
says "changed: peers" ctl peer remove 2
refuses 1 "no such peer" ctl peer remove 2
json "show peers" "[p['node'] for p in d['peers']] == [9]"
# The file has the peers as before: a reload restores them.
says "would change: peers" ctl reload check
json "show peers" "[p['node'] for p in d['peers']] == [9]"
says "changed: peers" ctl reload
json "show peers" "[p['node'] for p in d['peers']] == [2]"
says "nothing has changed" ctl reload
configuration "keepalive_ms = 5000" "$PEERS"$'\n[limits]\nmax_clients = 77\nmax_bytes_per_uid = 3G'
kill -HUP "$(plane_pid a)"
logged "changed: keepalive_ms, max_clients, max_bytes_per_uid"
json "show version" "d['version'][0]['clients_max'] == 77"
json "show quota" "d['quota'][0]['bytes_max'] == 3 << 30"
# All or nothing: if one key cannot change, no other key changes.
configuration "work_pool = 4096" "$PEERS"$'\n[limits]\nmax_clients = 78'
refuses 1 "work_pool = 4096, which was 65536: it cannot change" ctl reload
configuration "$PEERS"$'\n[limits]\nmax_clients = 78'
sed -i 's/mtu = .*/mtu = 1500/' "$WORK/conf"
refuses 1 "port p0: mtu = 1500, which was $CABLE_MTU: it cannot change" ctl reload
configuration "$PEERS"$'\n[limits]\nmax_clients = many'
refuses 1 "max_clients = many" ctl reload
refuses 1 "max_clients = many" ctl reload check
rm "$WORK/conf"
refuses 1 "file $WORK/conf: " ctl reload
json "show version" "d['version'][0]['clients_max'] == 77"
json "show connections" "len([c for c in d['connections'] if c['state'] == 'up']) == 2"
configuration "$PEERS"
says "debug and worse" ctl log level oneside.control debug
refuses 1 "no such level" ctl log level loud
refuses 1 "no log type matches" ctl log level oneside.nothing debug
says "notice and worse" ctl log level notice
# debugs more|no: fails unless a short attachment logs lines, or no lines, of level debug.
debugs() {
	local before
	before=$(grep -c ' debug ' "$(plane_log a)")
	"$BUILD/tests/net/net-attachments" "$(plane_socket a)" 1 1 </dev/null >"$WORK/out" 2>&1 || fail "an attachment: $(cat "$WORK/out")"
	if [ "$(grep -c ' debug ' "$(plane_log a)")" -gt "$before" ]; then
		[ "$1" = more ] || fail "debug is logged: $(grep ' debug ' "$(plane_log a)" | tail -n 1)"
	else
		[ "$1" = no ] || fail "no debug is logged"
	fi
}
says "changed: keepalive_ms, log_level, max_clients, max_bytes_per_uid" ctl reload
debugs no
configuration "log_level = debug" "$PEERS"
says "would change: log_level" ctl reload check
debugs no
says "changed: log_level" ctl reload
debugs more
configuration "log_level = loud" "$PEERS"
refuses 1 "log_level = loud" ctl reload
configuration "log_level = notice" "work_pool = 4096" "$PEERS"
refuses 1 "work_pool = 4096, which was 65536: it cannot change" ctl reload
debugs more
# A reload undoes `log level`: the level is that of the file, or without the key that of the start.
configuration "log_level = info" "$PEERS"
says "changed: log_level" ctl reload
debugs no
says "debug and worse" ctl log level debug
debugs more
says "changed: log_level" ctl reload
debugs no
says "debug and worse" ctl log level debug
configuration "$PEERS"
says "changed: log_level" ctl reload
debugs no
says "nothing has changed" ctl reload
refuses 1 "no such attachment" ctl client kill 1
refuses 1 "no such attachment" ctl client kill client=999999
refuses 1 "no such queue pair" ctl move 0x123456 1
refuses 1 "no such polling core" ctl move 0x123456 999
judge
say "changes are made as a whole, or refused by name"

# ---- trace, and an attachment that is ended ----

ctl --json trace >"$WORK/trace" 2>"$WORK/err" &
tracer=$!
APPLICATIONS+=("$tracer")
until grep -q '^tracing' "$WORK/err"; do
	kill -0 "$tracer" || fail "trace: $(cat "$WORK/err")"
	sleep 0.05
done
ctl trace pid="$one" count=3 >"$WORK/trace-pid" 2>"$WORK/err-pid" &
second=$!
APPLICATIONS+=("$second")
until grep -q '^tracing' "$WORK/err-pid"; do sleep 0.05; done
says "1 attachment is ended" ctl client kill "$one"
wait "$second" || fail "trace of a process: $(cat "$WORK/err-pid")"
[ "$(wc -l <"$WORK/trace-pid")" = 3 ] || fail "trace count=3: $(cat "$WORK/trace-pid")"
# shellcheck disable=SC2086 # both processes: their connection is broken
kill $pids 2>/dev/null
wait "$connected"
exec 8>&- 9<&-
until [ "$(ctl show clients --json | tr -d ' \n')" = '{"clients":[]}' ]; do
	sleep 0.1
done
until grep -q '"gone"' "$WORK/trace"; do
	sleep 0.1
done
kill "$tracer"
wait "$tracer"
APPLICATIONS=()
python3 - "$WORK/trace" "$one" <<'PYTHON' || fail "the trace"
import json, sys
transitions = [p["transition"] for p in map(json.loads, open(sys.argv[1])) if "transition" in p]
ended = [e for e in transitions if e["object"] == "attachment" and e.get("pid") == int(sys.argv[2])]
assert [(e["from"], e["to"]) for e in ended] == [("attached", "leaving"), ("leaving", "removing"),
    ("removing", "quiescing"), ("quiescing", "gone")], ended
assert ended[0]["why"] == "an administrator has ended it", ended[0]
assert any(e["object"] == "connection" and e["from"] == "up" and e["to"] == "over" for e in transitions), transitions
assert any(e["object"] == "queue pair on its core" for e in transitions), "no transition of a core"
assert all(e["allowed"] for e in transitions)
PYTHON
refuses 1 "hugepages" ctl capture
say "transitions are traced"

# ---- permissions ----

stop_plane a
[ ! -e "$(plane_socket a).ctl" ] || fail "the control socket is left behind"
if [ "$(id -u)" = 0 ]; then
	configuration "ctl_group = 61001" "ctl_admin_group = 61002" "$PEERS"
	start
	as() { # UID GROUPS COMMAND...
		local uid=$1 groups=--clear-groups
		[ -z "$2" ] || groups=--groups=$2
		shift 2
		setpriv --reuid "$uid" --regid 61000 "$groups" "$@"
	}
	cp "$ONESIDECTL" "$WORK/onesidectl" # readable for every user
	for command in "show" "reload" "drain"; do
		refuses 1 "ctl_group" as 61000 "" "$WORK/onesidectl" $command
	done
	says "CLIENT" as 61000 61001 "$WORK/onesidectl" show clients
	says "node 1" as 61000 61001 "$WORK/onesidectl" show
	says "# EOF" as 61000 61001 "$WORK/onesidectl" metrics
	for command in "reload" "reload check" "drain" "peer add 9 192.0.2.9" "peer remove 2" "client kill 1" "move 1 1" "log level debug"; do
		# shellcheck disable=SC2086
		refuses 1 "may only show" as 61000 61001 "$WORK/onesidectl" $command
	done
	says "nothing has changed" as 61000 61002,61003 "$WORK/onesidectl" reload
	# A changed group applies to new connections to the socket, whose mode follows.
	configuration "$PEERS"
	says "changed: ctl_group, ctl_admin_group" ctl reload
	[ "$(stat -c %a "$(plane_socket a).ctl")" = 600 ] || fail "the control socket stays open to others"
	refuses 1 "may not access" as 61000 61001 "$WORK/onesidectl" show
	stop_plane a
	# Run the data plane like the service: as an unprivileged user, who is in neither group.
	configuration "ctl_group = 61001" "ctl_admin_group = 61002" "log_level = debug" "$PEERS"
	chmod 1777 "$WORK"
	printf '#!/bin/sh\nRUNTIME_DIRECTORY=%s exec setpriv --reuid 61500 --regid 61500 --clear-groups %s "$@"\n' "$WORK" "$DATAPLANE" \
		>"$WORK/as-service"
	chmod 755 "$WORK/as-service"
	rm -f "$WORK/cable"
	DATAPLANE=$WORK/as-service start
	[ "$(stat -c %u "$(plane_socket a).ctl")" = 61500 ] || fail "the data plane does not run as 61500"
	refuses 1 "may not access" as 61000 "" "$WORK/onesidectl" show
	refuses 1 "may not access" as 61000 61500 "$WORK/onesidectl" show
	says "node 1" as 61000 61001 "$WORK/onesidectl" show
	refuses 1 "may only show" as 61000 61001 "$WORK/onesidectl" reload
	says "nothing has changed" as 61000 61002 "$WORK/onesidectl" reload
	says "nothing has changed" as 61500 "" "$WORK/onesidectl" reload
	says "nothing has changed" ctl reload
	say "only root, the data plane's user and the groups have access"
	debugs more
	configuration "ctl_group = 61001" "ctl_admin_group = 61002" "$PEERS"
	says "changed: log_level" ctl reload
	debugs no
	stop_plane a
	start
else
	leave_out "other users need root"
	start
fi

# ---- drain ----

connection
says "no new attachments or connections" ctl drain
json "show version" "d['version'][0]['drains'] == 'yes'"
echo more >&8
await_line ""
[ "$heard" = DAT_INSUFFICIENT_RESOURCES ] || fail "while it drains a connection is: $heard"
"$BUILD/tests/net/net-attachments" "$(plane_socket a)" 1 1 </dev/null >"$WORK/out" 2>&1 && fail "an attachment while it drains"
kill -0 "$(plane_pid a)" || fail "it has not waited for the connection: $(cat "$(plane_log a)")"
exec 8>&-
wait "$connected" || fail "the connection that was there: status $?"
exec 9<&-
APPLICATIONS=()
wait "$(plane_pid a)" || fail "drained, it ends with status $?"
unset "PLANE_PID[a]"
grep -q "event=drained text=.the last connection has ended" "$(plane_log a)" || fail "it does not say why it has ended"
[ ! -e "$(plane_socket a)" ] && [ ! -e "$(plane_socket a).ctl" ] || fail "a socket is left behind"
judge
say "a drained data plane ends"
