#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Run the commands of README.md from a clone to ib_write_bw between two data planes, as an ordinary user, except for the
# packages, and print how long they took.
. "$(dirname "$0")/../net/lib.sh"
SOURCE=$(realpath "$(dirname "$0")/../..")
for program in git meson ninja ib_write_bw; do
	command -v $program >/dev/null || skip "$program is missing: apt-get install git meson perftest"
done
[ "$(allowed_cpus | head -n 2 | tr '\n' ' ')" = "0 1 " ] || skip "the commands name processors 0 and 1"
[ -e /usr/include/rdma/rdma_cma.h ] || skip "rdma/rdma_cma.h is missing: apt-get install libibverbs-dev librdmacm-dev"
net_init
chmod 777 "$WORK"
ORDINARY=()
[ "$(id -u)" != 0 ] || ORDINARY=(unshare -n setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all)

# The script waits for events where README.md sleeps, since machines are busy.
sed -n '/^## From clone/,/^## /p' "$SOURCE/README.md" | sed -n '/^```/,/^```/p' | grep -v '^```\|apt install' >"$WORK/commands"
[ "$(grep -c '^sleep' "$WORK/commands")" = 2 ] || fail "README.md: other commands than this test knows: $(cat "$WORK/commands")"
sed -i "s,/tmp/,$WORK/,g; s, --idle sleep, --idle sleep --keepalive-ms 60000," "$WORK/commands"
python3 - "$WORK" <<'PYTHON' || fail "the commands cannot be changed"
import sys
path, work = sys.argv[1] + "/commands", sys.argv[1]
with open(path) as file:
    text = file.read()
for shown in ("until shows a ports up && shows b ports up; do alive 1; alive 2", "until shows a listeners ib_write_bw; do alive 3"):
    text = text.replace("sleep 5\n", shown + "; sleep 0.1; done\n", 1)
with open(path, "w") as file:
    file.write(text)
PYTHON
{
	cat <<-END
		trap 'kill %1 %2; wait' EXIT
		alive() { jobs -r | grep -q "^\[\$1\]" || { echo "job \$1 has ended"; exit 1; }; }
		shows() { build/control/onesidectl --socket "$WORK/\$1.sock.ctl" show "\$2" 2>&1 | grep -qw "\$3"; } # a|b WHAT TEXT
	END
	cat "$WORK/commands"
	echo 'wait %3'
} >"$WORK/script"

git -c safe.directory='*' clone -q "$SOURCE" "$WORK/clone" || skip "$SOURCE is not a repository that can be cloned"
[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$WORK/clone"
cd "$WORK/clone" || exit 1
SECONDS=0
"${ORDINARY[@]}" env -i HOME="$WORK" XDG_RUNTIME_DIR="$WORK" PATH="$PATH" bash -em "$WORK/script" >"$WORK/out" 2>&1 ||
	fail "README.md: $(tail -n 40 "$WORK/out")"
grep -q '^ 65536 ' "$WORK/out" || fail "README.md: no figures: $(tail -n 40 "$WORK/out")"
say "README.md: from a clone to ib_write_bw between two data planes in $SECONDS seconds"
