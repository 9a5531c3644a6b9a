#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the global names of the product against the prefixes of their rooms.

A global function or variable begins with a prefix of its room. Within a side (a key of PREFIXES) a prefix belongs to one
room. No two types of one program have the same name.

    names.py BUILD            checks; prints each wrong name; exit 1
"""

import collections
import os
import re
import sys

import rooms

ANYWHERE = {  # prefixes declared in one public header, and defined in the room of their subject
    "dataplane": "engine",     # engine.h
    "control": "main",         # of several programs
    "api/client": "one",       # client.h
    "api/dat": "dat dapl",     # uDAPL's calls
    "api/verbs": "ibv _ibv mult mbps",  # libibverbs's calls
    "api/rdmacm": "rdma",      # librdmacm's calls
    "api/run": "main",
}
PREFIXES = {
    "dataplane": {
        "base": "record state",
        "core": "core event stage stages stats timer",
        "engine": "counters idle loop telemetry",
        "esp": "esp",
        "mem": "bounce guard mem slab",
        "port": "device flow flows kernel_side link links memif port ports privilege recvmsg rings rss rx_wakeup sendmsg tx xdp",
        "qp": "client_fault cq doorbell keys local qp qpn rcio share srq steer ud user wake wqe",
        "rc": "rc",
        "wire": "icrc wire",
    },
    "control": {
        "attach": "attach client clients command copies entry grace identity job lane mapping mappings object extents pass "
                  "reaper reapers server user users work worker workers",
        "base": "acl arena control listening log port_space drr quota scm table",
        "cm": "cm sidr",
        "connect": "ah ahs balance conn conns cr listen listener listeners qp_connect qp_datagram qp_disconnect qp_engine_event "
                   "qp_error qp_rtr qp_rts qp_set resolution",
        "daemon": "calls check daemon devices hugepages journal kernel_addr notify telemetry watchdog",
        "metrics": "metrics",
        "neigh": "neigh",
        "objects": "attachment bind channel channels cq cqs hello key memory mr mr_cache mw place pz qp qpn qps region srq srqs "
                   "staging zones",
        "path": "addr path paths",
        "rsm": "export host hosts import rsm segment share",
        "setup": "setup",
        "ctl": "ctl show",
        "takeover": "takeover",
        "onesidectl": "ask capture check_config columns onesidectl top trace word",
    },
    "config": {"": "config"},
    "api/client": {
        "": "call client copied copier copiers lock wait watcher",
        "adopt": "aside cell file files fork joined maps mem mr_cache page piece pins place range range_cache ranges segment "
                 "segments shared stay transplant",
    },
    "api/dat": {
        "": "base cno cr ep event evd handle ia idmap lmr lost object pz rmr sp srq stash",
        "registry": "conf dats offer oneside refused registry explain explaining",
    },
    "api/dat2": {"": "dat dat2 event offer"},
    "api/verbs": {
        "": "bind channel cq device domain element events execute_ioctl expected give inline_room mw post qp refused srq ud verbs "
            "wr _verbs __verbs __ioctl",
    },
    "api/rdmacm": {
        "": "addr carrier channel cma device devices event external ids listening param reader rings udp "
              "raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap riounmap riowrite "
              "rlisten rpoll rread rreadv rrecv rrecvfrom rrecvmsg rselect rsend rsendmsg rsendto rsetsockopt "
              "rshutdown rsocket rwrite rwritev",
    },
    "api/run": {
        "": "run",
        "preload": "redirect __fxstatat __fxstatat64 __lxstat __lxstat64 __open64_2 __open_2 __openat64_2 __openat_2 "
                   "__readlink_chk __readlinkat_chk __realpath_chk __xstat __xstat64 access canonicalize_file_name chdir "
                   "eaccess euidaccess faccessat fopen fopen64 freeifaddrs fstatat fstatat64 getaddrinfo getifaddrs lstat "
                   "lstat64 open open64 openat openat64 opendir readlink readlinkat realpath scandir scandir64 stat stat64 "
                   "statx",
    },
    "api/rsm": {"": "rsm"},
}
PROGRAMS = (("dataplane", "control", "config"), ("api/client", "api/dat", "api/dat2"), ("api/client", "api/rsm"),
            ("api/client", "api/run"), ("api/client", "api/verbs"), ("api/client", "api/rdmacm"))
TYPE = re.compile(r"^[ \t]*(?:typedef )?(?:struct|union|enum)\s+(\w+)\s*\{", re.M)


def side_of(path):
    return next((side for side in sorted(PREFIXES, key=len, reverse=True) if path.startswith(side + "/")), None)


def prefixed(name, prefixes):
    return any(name == prefix or name.startswith(prefix + "_") for prefix in prefixes.split())


def owner(name, side):
    """Returns the rooms that own the longest prefix of this name."""
    best, found = 0, set()
    for room, prefixes in PREFIXES[side].items():
        for prefix in prefixes.split():
            if prefixed(name, prefix) and len(prefix) >= best:
                found = found | {room} if len(prefix) == best else {room}
                best = len(prefix)
    return found


def names(root, build):
    defined, _ = rooms.symbols(root, build)
    for name, sources in sorted(defined.items()):
        for source in sorted(sources):
            side = side_of(source)
            if side is None or prefixed(name, ANYWHERE.get(side, "")):
                continue
            room = os.path.dirname(os.path.relpath(source, side))
            owners = owner(name, side)
            if room not in owners:
                yield f"{source}: {name}: " + (f"a name of {side}/{min(owners)}" if owners else
                                               f"no prefix of its room (names.py: {PREFIXES[side].get(room)})")


def shared_prefixes():
    for side, table in PREFIXES.items():
        count = collections.Counter(prefix for prefixes in table.values() for prefix in prefixes.split())
        yield from (f"names.py: {side}: {prefix} is of {n} rooms" for prefix, n in count.items() if n > 1)


def types(root):
    where = collections.defaultdict(set)
    for path in rooms.sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for name in TYPE.findall(source.read()):
                where[name].add(path)
    for program in PROGRAMS:
        for name, paths in sorted(where.items()):
            inside = sorted(p for p in paths if p.startswith(tuple(top + "/" for top in program)))
            if len(inside) > 1:
                yield f"{name}: a type of one program in " + ", ".join(inside)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    bad = [*shared_prefixes(), *names(root, os.path.abspath(sys.argv[1])), *sorted(set(types(root)))]
    print("\n".join(bad) or "nothing to say")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
