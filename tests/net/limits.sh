#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Data planes have small limits, and may not access private memory of applications (process_memory = no). Applications check
# the limits that are reported to them, and the effect of reaching each.
#
#   limits.sh local|memif
#   limits.sh deep          the deepest queues possible

. "$(dirname "$0")/lib.sh"
net_init
PROGRAM=$BUILD/tests/net/net-dat-limits
RSM=$BUILD/tests/net/net-rsm-limits

# Keep these limits equal to those in dat_limits.c and rsm_limits.c.
cat >"$WORK/limits.conf" <<-CONF
	[dataplane]
	process_memory = no
	[limits]
	max_pz = 5
	max_cq = 12
	max_cq_entries = 16
	max_qp = 48
	max_qp_wr = 64
	max_sge = 3
	max_listen = 4
	max_mr = 7
	max_mw = 6
	max_srq = 3
	max_srq_wr = 32
	max_rd_atomic = 2
	max_mr_bytes = 1M
	max_mr_total = 4M
	max_message = 64K
	max_clients_per_uid = 6
	max_segments = 2
	[port p0]
	rnr_retry = 2
CONF
OPTIONS=(--config "$WORK/limits.conf")

case $1 in
local)
	start_memif_plane a "${OPTIONS[@]}"
	"$PROGRAM" "$(plane_socket a)" "$(plane_socket a)" || fail "limits of one data plane"
	"$RSM" "$(plane_socket a)" "$(plane_socket a)" || fail "limits of RSM on one data plane"
	;;
memif)
	start_memif_pair "${OPTIONS[@]}"
	"$PROGRAM" "$(plane_socket a)" "$(plane_socket b)" || fail "limits of two data planes"
	"$RSM" "$(plane_socket a)" "$(plane_socket b)" || fail "limits of RSM on two data planes"
	stop_plane b
	;;
deep)
	start_memif_pair --limit max_qp_wr=65535 --limit max_cq_entries=196607
	"$BUILD/tests/net/net-dat-deep" "$(plane_socket a)" "$(plane_socket b)" || fail "deep queues"
	stop_plane b
	;;
*)
	fail "limits.sh: \"$1\" is not a kind of run"
	;;
esac
stop_plane a
