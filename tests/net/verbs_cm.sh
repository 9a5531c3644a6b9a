#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run Debian's programs of rdma_cm on oneside's librdmacm; over IPv6 also programs that connect out of band:
#
#   verbs_cm.sh local|memif|veth6 [short]    short: less of rping's and ucmatose's options

. "$(dirname "$0")/verbs_lib.sh"
for program in rping ucmatose udaddy rdma_server rdma_xserver cmtime ib_write_bw ibv_rc_pingpong; do
	command -v "$program" >/dev/null || skip "$program is missing: apt-get install ibverbs-utils rdmacm-utils perftest"
done
verbs_init "$1"

to=${addresses[0]}
nobody=192.0.2.77
[ "$1" = veth6 ] && nobody=2001:db8::77
# rping's client has status 0 even if its pings fail; with -v it prints each.
rping_pair() { # NAME COUNT SERVER-OPTIONS -- CLIENT-OPTIONS
	local name=$1 count=$2
	local -a serve=()
	shift 2
	while [ "$1" != -- ]; do
		serve+=("$1")
		shift
	done
	shift
	cm_pair "$name" rping -s -C "$count" "${serve[@]}" -- rping -c -v -V -C "$count" -a "$to" "$@"
	expect "ping data: rdma-ping-$((count - 1)):" "$WORK/$name.client"
}
rping_pair rping 20 -a "$to" -p 7174 -V -- -p 7174
rping_pair rping-any 5 -p 7174 -V -S 4000 -- -p 7174 -S 4000
cm_pair ucmatose ucmatose -b "$to" -c 5 -C 3 -S 1000 -- ucmatose -s "$to" -c 5 -C 3 -S 1000
rping_pair rping-source 3 -V -- -I "${addresses[1]}"
cm_pair ucmatose-ib ucmatose -b "$to" -p 7475 -P ib -c 2 -C 3 -- ucmatose -s "$to" -p 7475 -P ib -c 2 -C 3
cm_pair ucmatose-timeout ucmatose -b "$to" -c 2 -C 3 -a 19 -- ucmatose -s "$to" -c 2 -C 3 -a 19
if [ "${2:-}" != short ]; then
	rping_pair rping-verbose 2 -v -d -a "$to" -S 100 -- -d -S 100
	rping_pair rping-own 5 -q -V -- -q
	rping_pair rping-own-client 5 -V -- -q
	rping_pair rping-own-server 5 -q -V -S 9000 -- -S 9000
	SERVER_STAYS=yes rping_pair rping-persistent 3 -P -a "$to" --
	cm_pair ucmatose-many ucmatose -b "$to" -c 100 -C 1 -- ucmatose -s "$to" -c 100 -C 1
	cm_pair ucmatose-migrate ucmatose -b "$to" -c 5 -C 3 -m -- ucmatose -s "$to" -c 5 -C 3 -m
fi
cm_pair ucmatose-tos ucmatose -b "$to" -c 2 -C 3 -t 0x28 -- ucmatose -s "$to" -c 2 -C 3 -t 0x28
cm_pair rdma_client rdma_server -s "$to" -- rdma_client -s "$to"
cm_pair rdma_xclient rdma_xserver -p 7470 -c r -- rdma_xclient -s "$to" -p 7470 -c r
cm_pair udaddy udaddy -b "$to" -c 3 -C 5 -S 1000 -- udaddy -s "$to" -c 3 -C 5 -S 1000
SERVER_STAYS=yes cm_pair cmtime cmtime -b "$to" -c 50 -- cmtime -s "$to" -c 50

# fio's writer is the client for each verb. With SEND the receiver verifies the data. fio requests no RNR retries, so all
# receives must be posted beforehand: 64 of 64 KiB.
job() { # PORT VERB read|write [OPTIONS...]
	printf '%s\n' fio --name=job --ioengine=rdma --verify_state_save=0 --hostname="$to" --port="$1" --verb="$2" --rw="$3" \
		--bs=64k --size=4m "${@:4}"
}

fio_pair() { # NAME PORT VERB [OPTIONS...]
	local -a serve send
	mapfile -t serve < <(job "$2" "$3" read --iodepth=64 "${@:4}")
	mapfile -t send < <(job "$2" "$3" write --iodepth=8 "${@:4}")
	cm_pair "$1" "${serve[@]}" -- "${send[@]}"
	expect 'err= 0' "$WORK/$1.client"
	expect 'err= 0' "$WORK/$1.server"
}

if [ "$1" = veth6 ]; then
	: # fio's engine supports IPv4 only
elif command -v fio >/dev/null; then
	fio_pair fio-write 7201 write
	fio_pair fio-read 7202 read
	fio_pair fio-send 7203 send
	fio_pair fio-verify 7204 send --verify=crc32c
else
	leave_out "fio is missing: apt-get install fio"
fi

# Connections to ports without a listener and to an unused address fail.
on 1 rping -c -a "$to" -p 7999 -C 1 >"$WORK/refused" 2>&1 && fail "rping connected to a port without a listener"
expect RDMA_CM_EVENT_REJECTED "$WORK/refused"
on 1 udaddy -s "$to" -C 1 >"$WORK/unsupported" 2>&1 && fail "udaddy connected to a port without a listener"
expect RDMA_CM_EVENT_UNREACHABLE "$WORK/unsupported"
on 1 rping -c -a "$nobody" -p 7999 -C 1 >"$WORK/silent" 2>&1 && fail "rping connected to an unused address"
expect RDMA_CM_EVENT_UNREACHABLE "$WORK/silent"


# Unsupported features are refused.
on 1 rdma_xclient -s "$to" -c x >"$WORK/xrc" 2>&1 && fail "XRC"
expect 'rdma_create_ep: Operation not supported' "$WORK/xrc"

if [ "$1" = veth6 ]; then # perftest does not support IPv6 addresses, but GIDs
	pair rc 18515 ibv_rc_pingpong -g 0 -c -n 200
	pair write_bw 18516 ib_write_bw -F -x 0 -n 500
	pair ud 18515 ibv_ud_pingpong -g 0 -c -n 200
	exit
fi
cm_pair write_bw-R ib_write_bw -F -R -n 500 -p 18518 -- ib_write_bw -F -R -n 500 -p 18518 "$to"
cm_pair send_lat-R ib_send_lat -F -R -n 300 -p 18518 -- ib_send_lat -F -R -n 300 -p 18518 "$to"
