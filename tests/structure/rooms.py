#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the dependencies between the rooms of the product.

A room is a folder of sources. Room A uses room B if a source of A includes a header of B, or if an object of A refers to a
symbol that an object of B defines. The graph must have no circle.

    rooms.py BUILD          checks; prints each circle with the files and names that form it; exit 1
    rooms.py BUILD --draw   prints the rooms in layers: each uses only rooms below it
    rooms.py BUILD --why A B  prints the includes and symbols by which room A uses room B
"""

import collections
import json
import os
import re
import subprocess
import sys

TOPS = ("dataplane", "control", "config", "api")
PROGRAMS = (("dataplane", "control", "config"), ("api",))
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def room_of(path):
    return os.path.dirname(path)


def sources(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", *TOPS],
                            capture_output=True, text=True)
    files = listed.stdout.split()
    if listed.returncode != 0 or not files:  # not a checkout: take all files
        files = [os.path.relpath(os.path.join(folder, name), root) for top in TOPS
                 for folder, _, names in os.walk(os.path.join(root, top)) for name in names]
    return {f for f in files if f.endswith((".c", ".h")) and os.path.exists(os.path.join(root, f))}


def includes(root, files):
    for path in sorted(files):
        with open(os.path.join(root, path), encoding="utf-8") as source:
            for name in INCLUDE.findall(source.read()):
                for base in (os.path.dirname(path), "", "api"):
                    target = os.path.normpath(os.path.join(base, name))
                    if target in files:
                        yield path, target, "#include"
                        break


def objects(root, build):
    """Yields the source and the object file of each compilation of the product."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as commands:
        for entry in json.load(commands):
            source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
            if source.startswith(tuple(top + "/" for top in TOPS)) and not entry["output"].startswith("tests/"):
                yield source, os.path.join(entry["directory"], entry["output"])


def symbols(root, build):
    defined, wanted, seen = collections.defaultdict(set), {}, set()
    nm = "gcc-nm"  # also reads objects with link-time optimization
    for source, path in objects(root, build):
        if source in seen or not os.path.exists(path):
            continue
        seen.add(source)
        output = subprocess.run([nm, path], capture_output=True, text=True, check=True).stdout
        wanted[source] = set()
        for line in output.splitlines():
            kind, name = line.split()[-2:]
            if kind == "U":
                wanted[source].add(name)
            elif kind.isupper():
                defined[name].add(source)
    if len(seen) < 20:
        sys.exit("rooms.py: no objects in " + build + "; build it first")
    return defined, wanted


def c_library():
    """Returns the symbols of the C library: references to them mean the C library, even if a room defines the name too."""
    path = subprocess.run(["gcc", "-print-file-name=libc.so.6"], capture_output=True, text=True, check=True).stdout
    output = subprocess.run(["nm", "-D", "--defined-only", path.strip()], capture_output=True, text=True,
                            check=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines()}


def links(root, build):
    defined, wanted = symbols(root, build)
    theirs = c_library()
    for source, names in wanted.items():
        program = next(tops for tops in PROGRAMS if source.startswith(tops))
        for name in names - theirs:
            # If two libraries define a name, the definition in the nearest folder counts.
            near = [d for d in defined.get(name, ()) if d.startswith(program) and d != source]
            near.sort(key=lambda d: -len(os.path.commonprefix([d, source])))
            if near:
                yield source, near[0], name


def graph(root, build):
    uses = collections.defaultdict(lambda: collections.defaultdict(set))
    everything = list(includes(root, sources(root))) + list(links(root, build))
    for source, target, name in everything:
        if room_of(source) != room_of(target):
            uses[room_of(source)][room_of(target)].add((source, target, name))
        uses[room_of(target)]  # a room even if it uses none
    return uses


def circles(uses):
    """Returns the strongly connected components of more than one room (Tarjan's algorithm)."""
    order, low, stack, found, on = {}, {}, [], [], set()

    def visit(room):
        order[room] = low[room] = len(order)
        stack.append(room)
        on.add(room)
        for other in uses[room]:
            if other not in order:
                visit(other)
                low[room] = min(low[room], low[other])
            elif other in on:
                low[room] = min(low[room], order[other])
        if low[room] == order[room]:
            one = []
            while not one or one[-1] != room:
                one.append(stack.pop())
                on.discard(one[-1])
            if len(one) > 1:
                found.append(sorted(one))

    for room in list(uses):
        if room not in order:
            visit(room)
    return found


def layers(uses):
    depth = {}

    def of(room):
        if room not in depth:
            depth[room] = 1 + max((of(other) for other in uses[room]), default=0)
        return depth[room]

    rows = collections.defaultdict(list)
    for room in list(uses):
        rows[of(room)].append(room)
    return rows


def explain(uses, a, b):
    for source, target, name in sorted(uses[a][b]):
        print(f"    {source} -> {target}: {name}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    uses = graph(root, build)
    if sys.argv[2:3] == ["--why"]:
        explain(uses, *sys.argv[3:5])
        return 0
    found = circles(uses)
    for one in found:
        print("a circle:", ", ".join(one))
        for a in one:
            for b in uses[a]:
                if b in one:
                    print(f"  {a} -> {b}")
                    explain(uses, a, b)
    if found:
        return 1
    if sys.argv[2:3] == ["--draw"]:
        for depth, rooms in sorted(layers(uses).items(), reverse=True):
            print(f"{depth:2}  " + "  ".join(sorted(rooms)))
    print(f"{len(uses)} rooms, no circle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
