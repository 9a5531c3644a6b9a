#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run each program of Debian's perftest with common options: connected out of band and by rdma_cm (-R), all sizes (-a), 16
# queue pairs, a shared receive queue, datagrams. verbs.sh and verbs_cm.sh have a selection:
#
#   verbs_perftest.sh local    both sides on one data plane
#   verbs_perftest.sh memif    on two data planes joined by memif

. "$(dirname "$0")/verbs_lib.sh"
command -v ib_write_bw >/dev/null || skip "ib_write_bw is missing: apt-get install perftest"
verbs_init "$1"

both() { # NAME PROGRAM OPTIONS...: runs the pair out of band and by rdma_cm
	local name=$1
	shift
	pair "$name" 18516 "$@"
	cm_pair "$name-R" "$@" -R -p 18518 -- "$@" -R -p 18518 "${addresses[0]}"
}

for program in ib_write ib_read ib_send ib_atomic; do
	for what in bw lat; do
		both "${program}_$what" "${program}_$what" -F -n 200
		# All atomics have the same size: no -a.
		[ "$program" = ib_atomic ] || both "${program}_$what-a" "${program}_$what" -F -a -n 5
	done
	both "${program}_bw-q" "${program}_bw" -F -n 50 -q 16
	both "${program}_bw-b" "${program}_bw" -F -n 200 -b
done
both ib_send_bw-srq ib_send_bw -F -n 200 --use-srq
both ib_send_bw-srq-q ib_send_bw -F -n 50 --use-srq -q 16
both ib_send_lat-srq ib_send_lat -F -n 200 --use-srq
# At most as many datagrams as there are receives: a datagram that finds no receive is lost.
both ib_send_bw-ud ib_send_bw -F -c UD -x 0 -n 200 -r 512
both ib_send_lat-ud ib_send_lat -F -c UD -x 0 -n 200 -r 512

# The ends of connections without rdma_cm recognize each other by what their cores exchange.
for plane in a b; do
	recognized=$("$BUILD/control/onesidectl" --socket "$(plane_socket $plane).ctl" show transport | awk '$1 == "recognized" {print $2}')
	[ "$1" = local ] || [ "$recognized" -gt 0 ] || fail "data plane $plane has recognized no peer"
done
