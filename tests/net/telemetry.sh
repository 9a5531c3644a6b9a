#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Telemetry lists all attachments of a process and all cores by their lcores; a malformed query gets an error with the
# reason.
. "$(dirname "$0")/lib.sh"
net_init
PLANE_CORES=2
start_memif_plane a
mkfifo "$WORK/hold" "$WORK/ready"
"$BUILD/tests/net/net-attachments" "$(plane_socket a)" 3 60 <"$WORK/hold" >"$WORK/ready" &
process=$!
APPLICATIONS+=("$process")
exec 8>"$WORK/hold"
read -r line <"$WORK/ready" && [ "$line" = ready ] || fail "the process does not attach"

python3 -B - "$(dirname "$0")/../../perf" "$(basename "$WORK")-a" "$process" <<'PYTHON' || fail "telemetry"
import sys
sys.path.insert(0, sys.argv[1])
from comparison.planes import telemetry
pid = sys.argv[3]

def ask(command):
    answer = telemetry(sys.argv[2], command)
    assert isinstance(answer, dict), f"{command}: {answer}"
    return answer

def pages(command):
    found, first = {}, 0
    while first is not None:
        page = ask(f"/oneside/{command},{pid},{first}")
        first = page.pop("next", None)
        assert not found.keys() & page.keys(), f"{command}: {page.keys()} again"
        found.update(page)
    return found.values()

clients = [c for c in ask("/oneside/clients").values() if c["pid"] == int(pid)]
assert sorted(c["qps"] for c in clients) == [3, 60], clients
cores = ask("/oneside/cores")
assert {str(c["core"]) for c in clients} == set(cores) == {"1", "2"}, (clients, cores.keys())
for command, each in (("qps", [3, 60]), ("regions", [1, 1])):
    found = pages(command)
    numbers = [entry["client"] for entry in found]
    assert sorted(numbers.count(n) for n in set(numbers)) == each, f"{command}: {numbers}"
assert len({qp["qpn"] for qp in pages("qps")}) == 63
assert ask(f"/oneside/qps,{pid}") == ask(f"/oneside/qps,{pid},0")
assert "next" in ask(f"/oneside/qps,{pid}")

for wrong in ("qps", "qps,", "qps,x", "qps,-1", "qps,1x", f"qps,{pid},", f"qps,{pid},x", f"qps,{pid},1,2", "qps,1",
              "qps,99999999999999999999", "regions", "regions,1", "segments,x", "clients,x", "clients,1,2", "neighbours,-1", "cores,1",
              "drops,1", "transport,1", "ports,1", "stages,maybe"):
    answer = ask(f"/oneside/{wrong}")
    assert list(answer) == ["error"] and answer["error"], f"{wrong}: {answer}"
    print(f"/oneside/{wrong}: {answer['error']}")
for right in ("segments", "segments,0", "clients,0", "neighbours", "neighbours,1", "drops", "transport", "ports", "stages"):
    assert "error" not in ask(f"/oneside/{right}"), right
PYTHON
exec 8>&-
wait "$process" || fail "the process: status $?"
stop_plane a
