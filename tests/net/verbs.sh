#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run the unmodified programs of Debian's ibverbs-utils, rdmacm-utils and perftest on oneside's libibverbs and librdmacm
# (verbs_cm.sh has the programs of rdma_cm):
#
#   verbs.sh local    both sides on one data plane
#   verbs.sh memif    on two data planes joined by memif
#   verbs.sh lanes    on one data plane with two polling cores, each queue pair on the next core
#   verbs.sh CABLE short    one program of each kind

. "$(dirname "$0")/verbs_lib.sh"
for program in ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ib_write_bw rping ucmatose; do
	command -v "$program" >/dev/null || skip "$program is missing: apt-get install ibverbs-utils rdmacm-utils perftest"
done
verbs_init "$1"
SHORT=${2:-}

also() { # NAME PORT PROGRAM...: like pair; not in a short run
	[ -n "$SHORT" ] || pair "$@"
}

# ---- devices ----

on 0 ibv_devices >"$WORK/devices" || fail "ibv_devices"
expect p0 "$WORK/devices"
on 0 ibv_devinfo -v >"$WORK/devinfo" || fail "ibv_devinfo"
for line in 'hca_id:	p0' 'Ethernet' PORT_ACTIVE 'active_mtu:		4096' "GID[  0]:		::ffff:${addresses[0]}, RoCE v2" 'max_sge:			8'; do
	expect "$line" "$WORK/devinfo"
done

# Without a data plane the libraries have no device.
BARE="env ONESIDE_SOCKET=$WORK/nobody LD_LIBRARY_PATH=$BUILD/api/verbs:$BUILD/api/rdmacm"
$BARE ibv_devices >"$WORK/nobody.out" || fail "ibv_devices without a data plane"
$BARE ibv_devinfo >"$WORK/nobody.out" 2>&1 && fail "ibv_devinfo found a device without a data plane"
expect 'No IB devices found' "$WORK/nobody.out"
$BARE ONESIDE_DEBUG=loud ibv_devices >"$WORK/nobody.out" 2>&1 || fail "ibv_devices with ONESIDE_DEBUG=loud"
expect 'oneside: ONESIDE_DEBUG = loud: this is not a number; write 1, or 0' "$WORK/nobody.out"

# ---- ping-pong: with -c the contents are checked ----

also rc 18515 ibv_rc_pingpong -g 0 -c -n 200
pair rc-events 18515 ibv_rc_pingpong -g 0 -c -e -n 200
pair rc-long 18515 ibv_rc_pingpong -g 0 -c -s 1000000 -n 50
also rc-small-mtu 18515 ibv_rc_pingpong -g 0 -c -m 256 -s 3000 -n 100
also rc-new-send 18515 ibv_rc_pingpong -g 0 -c -N -n 200
pair srq 18515 ibv_srq_pingpong -g 0 -c -n 200
also srq-events 18515 ibv_srq_pingpong -g 0 -c -e -n 200
pair ud 18515 ibv_ud_pingpong -g 0 -c -n 200
also ud-events 18515 ibv_ud_pingpong -g 0 -c -e -n 200
also ud-mtu 18515 ibv_ud_pingpong -g 0 -c -s 4096 -n 100

# ---- perftest; -F switches its checks of the machine's clock off ----

also write_bw 18516 ib_write_bw -F -n 1000
also write_bw-8 18516 ib_write_bw -F -n 1000 -s 8
pair write_bw-qps 18516 ib_write_bw -F -n 200 -q 64
also write_lat 18516 ib_write_lat -F -n 300
also write_lat-inline 18516 ib_write_lat -F -n 300 -s 200 -I 220
also read_bw 18516 ib_read_bw -F -n 1000
also read_lat 18516 ib_read_lat -F -n 300
pair read_bw-qps 18516 ib_read_bw -F -n 200 -q 16
also send_bw 18516 ib_send_bw -F -n 1000
also send_bw-qps 18516 ib_send_bw -F -n 200 -q 64
pair send_bw-srq 18516 ib_send_bw -F -n 500 --use-srq -q 2
pair send_lat 18516 ib_send_lat -F -n 300
pair atomic_bw 18516 ib_atomic_bw -F -n 500
also atomic_lat 18516 ib_atomic_lat -F -n 300 -A CMP_AND_SWAP
# At most as many datagrams as there are receives: a datagram that finds no receive is lost.
pair ud_send_bw 18516 ib_send_bw -c UD -x 0 -F -n 400 -r 512 -s 2048
also ud_send_lat 18516 ib_send_lat -c UD -x 0 -F -n 300 -r 512

# With -e perftest sleeps until each completion. Its latency test of SEND has two CQs on one channel, and takes each event
# for one completion. perftest has no events for WRITE.
also send_lat-events 18516 ib_send_lat -F -e -n 2000
also send_lat-events-sizes 18516 ib_send_lat -F -e -a -n 100
also read_lat-events 18516 ib_read_lat -F -e -n 500
also atomic_lat-events 18516 ib_atomic_lat -F -e -n 500
also send_bw-events 18516 ib_send_bw -F -e -n 1000
pair read_bw-events 18516 ib_read_bw -F -e -n 1000 -q 4
also atomic_bw-events 18516 ib_atomic_bw -F -e -n 500

# ---- unsupported features ----

on 0 ibv_uc_pingpong -g 0 >"$WORK/uc" 2>&1 && fail "a UC queue pair"
expect "Couldn't create QP" "$WORK/uc"

# ---- events of the link, and of the data plane's end: no program waits for ever ----

said() { # FILE WORDS
	until grep -q "$2" "$WORK/$1"; do
		sleep 0.1
	done
}

on 0 ibv_asyncwatch >"$WORK/watch" 2>&1 &
watch=$!
APPLICATIONS+=("$watch")
on 0 ibv_rc_pingpong -g 0 -e -p 18517 >"$WORK/left.server" 2>&1 &
left=$!
APPLICATIONS+=("$left")
said watch 'async event FD'
await_listening 18517 "$left" left
kill_plane b
said watch 'IBV_EVENT_PORT_ERR'
start_memif_plane b
said watch 'IBV_EVENT_PORT_ACTIVE'
kill_plane a
said watch IBV_EVENT_DEVICE_FATAL
kill "$watch" "$left" 2>/dev/null
wait "$watch" "$left" 2>/dev/null
true
