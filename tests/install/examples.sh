#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compile the examples as a newcomer does, from the installed tree with only the compiler and pkg-config, and run them
# on one data plane. Their output and the data that they fetch are compared with their input.

. "$(dirname "$0")/../net/lib.sh"
. "$(dirname "$0")/tree.sh"
net_init
installed_tree
EXAMPLES=$TREE/share/doc/oneside/examples

for source in "$EXAMPLES"/*.c; do
	compile "$source" "$WORK/$(basename "$source" .c)"
done
say "compiled: $(cd "$EXAMPLES" && echo *.c)"

start_memif_plane a
ONESIDE_SOCKET=$(plane_socket a)
export ONESIDE_SOCKET
cd "$WORK" || exit 1

# ---- uDAPL ----

started ./dat_pingpong server 'waiting for a client'
./dat_pingpong client 192.0.2.1 300 5000 >ping || fail "dat_pingpong client"
ended dat_pingpong
expect '300 messages of 5000 bytes and their answers' ping
expect '300 messages answered' dat_pingpong.out
say "dat_pingpong: $(cat ping)"

mkfifo lines
exec 3<>lines
started ./dat_kv serve 'serving' <lines 3>&- # without descriptor 3, so that its input ends when the test closes it
for i in $(seq 1 200); do
	echo "key$i value of $i"
done >&3
spoken dat_kv.out 'stored key200'
./dat_kv get 192.0.2.1 key1 key77 key200 >got || fail "dat_kv get"
printf 'key1 value of 1\nkey77 value of 77\nkey200 value of 200\n' | cmp - got || fail "dat_kv: $(cat got)"
echo 'key77 another' >&3
echo 'last one' >&3
spoken dat_kv.out 'stored last'
./dat_kv get 192.0.2.1 key77 nothing >got 2>err && fail "dat_kv get of a missing key: status 0"
expect 'key77 another' got
expect 'nothing is not there' err
exec 3>&-
ended dat_kv
say "dat_kv: 200 entries, read without the server"

mkdir served
dd if=/dev/urandom of=served/large bs=1000 count=4321 2>err || fail "dd"
: >served/empty
echo secret >secret
ln -s ../secret served/link
started ./dat_files serve served 'serving served'
for name in large empty; do
	./dat_files get 192.0.2.1 "$name" "copy.$name" >out || fail "dat_files get $name"
	cmp "served/$name" "copy.$name" || fail "dat_files: $name is not as served"
done
for name in none ../secret link .; do
	./dat_files get 192.0.2.1 "$name" copy >out 2>err && fail "dat_files get $name: status 0"
	expect 'the server says: ' err
done
kill "${APPLICATIONS[-1]}"
wait "${APPLICATIONS[-1]}"
say "dat_files: $(stat -c %s copy.large) bytes"

# ---- RSM ----

started ./rsm_ring consume p0 0x400000 5000 'node 1'
./rsm_ring produce p0 1 0x400000 5000 || fail "rsm_ring produce"
ended rsm_ring
expect '5000 records' rsm_ring.out
say "rsm_ring: 5000 records"

started ./rsm_table own p0 0x400001 3 'node 1'
members=()
for i in 1 2 3; do
	./rsm_table join p0 1 0x400001 "member$i" $((i * 1000)) &
	members+=("$!")
done
for member in "${members[@]}"; do
	wait "$member" || fail "rsm_table join"
done
ended rsm_table
for line in 'member1 1000' 'member2 2000' 'member3 3000' 'total 6000'; do
	expect "$line" rsm_table.out
done
say "rsm_table: $(tail -n 1 rsm_table.out)"

# An error message explains the refusal, and names the call.
ONESIDE_DEBUG=1 ./dat_pingpong client 0.0.0.0 >out 2>err && fail "dat_pingpong to an invalid address: status 0"
expect 'oneside: dat_ep_connect: ' err
expect 'dat_pingpong: dat_ep_connect: DAT_INVALID_ADDRESS DAT_INVALID_ADDRESS_MALFORMED' err
stop_plane a
