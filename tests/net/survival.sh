#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Hostile applications harm neither the data plane nor other applications; applications survive a killed data plane; a new
# data plane serves on its socket.

. "$(dirname "$0")/lib.sh"
net_init
PROGRAMS=$BUILD/tests/net

# Data planes run without capabilities, which even access to memory of other users' applications does not need.
[ "$(id -u)" = 0 ] && PLANE_WITHOUT_CAPABILITIES=1
start_memif_pair
say "== hostile applications on data plane a, next to well-behaved ones"
"$PROGRAMS/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" last_byte_last >"$WORK/beside" 2>&1 &
beside=$!
APPLICATIONS+=("$beside")
"$PROGRAMS/net-hostile" "$(plane_socket a)" || fail "hostile applications"
wait "$beside" || {
	cat "$WORK/beside" >&2
	fail "a hostile application harmed a well-behaved one"
}
kill -0 "$(plane_pid a)" || fail "data plane a did not survive"

say "== page faults that are not answered, of an application on data plane b, and of one on a whose peer is on the same core"
"$PROGRAMS/net-dat-unanswered" "$(plane_socket a)" "$(plane_socket a)" >"$WORK/within" 2>&1 &
within=$!
APPLICATIONS+=("$within")
"$PROGRAMS/net-dat-unanswered" "$(plane_socket a)" "$(plane_socket b)"
case $? in
0 | 77) ;;
*) fail "page faults that are not answered, over the wire" ;;
esac
wait "$within"
case $? in
0 | 77) cat "$WORK/within" ;;
*) fail "page faults that are not answered, within a data plane: $(cat "$WORK/within")" ;;
esac

say "== data plane a is killed under an application"
"$PROGRAMS/net-dat-death" "$(plane_socket a)" "$(plane_socket b)" "$(plane_pid a)" || fail "death of a data plane"
wait "$(plane_pid a)" 2>/dev/null
unset "PLANE_PID[a]"

say "== a new data plane on the same socket serves"
start_memif_plane a
"$PROGRAMS/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" send rdma || fail "after the restart"
stop_plane a
stop_plane b

say "== the cable's client starts before its server"
start_memif_plane b
start_memif_plane a
"$PROGRAMS/net-dat-transfer" "$(plane_socket a)" "$(plane_socket b)" scatter || fail "with the cable's server late"
stop_plane a
stop_plane b
