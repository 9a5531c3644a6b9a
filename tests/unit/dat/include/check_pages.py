#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_pages.py CC INCLUDE PAGE...: compares the structures in manual pages with the headers.

Some page must show every structure or union that a call takes from its caller. Every structure shown must have the
header's fields, at the same offsets and of the same sizes.
"""
import re
import subprocess
import sys

# Pages refer to the header for tables of functions, which only authors of providers need.
NOT_SHOWN = {"DAT_PROVIDER"}

DEFINITION = re.compile(r"typedef (struct|union) \w+ \{\n(.*?)\n\} (\w+);", re.S)
ALIAS = re.compile(r"typedef (DAT_\w+) (DAT_\w+);")
TAKEN = re.compile(r'"\s*IN (?:const )?(DAT_[A-Z_]+)')


def examples(page):
    return "\n".join(re.findall(r"^\.nf\n(.*?)^\.fi", page, re.S | re.M))


def fields(body):
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return re.findall(r"(\w+)(?:\[\w+\])?;", body)


def assertions(kind, body, name):
    yield f"typedef {kind} {{\n{body}\n}} page_{name};"
    yield f'_Static_assert(sizeof(page_{name}) == sizeof({name}), "{name}");'
    for field in fields(body):
        yield f'_Static_assert(offsetof(page_{name}, {field}) == offsetof({name}, {field}), "{name}.{field}");'
        yield (f"_Static_assert(sizeof(((page_{name} *)0)->{field}) == sizeof((({name} *)0)->{field}), "
               f'"{name}.{field}");')


def main():
    compiler, include, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    header = "".join(open(f"{include}/dat/{name}").read() for name in ("dat.h", "udat.h"))
    structures = {name: fields(body) for _, body, name in DEFINITION.findall(header)}
    structures.update({alias: structures[name] for name, alias in ALIAS.findall(header) if name in structures})
    taken, shown, program = set(), {}, ["#include <stddef.h>", "#include <dat/udat.h>"]
    for path in paths:
        page = open(path).read()
        taken.update(TAKEN.findall(page.split(".SH DESCRIPTION")[0]))
        example = examples(page)
        for kind, body, name in DEFINITION.findall(example):
            shown[name] = fields(body)
            program += assertions(kind, body, name)
        shown.update({alias: shown[name] for name, alias in ALIAS.findall(example) if name in shown})
    taken = (taken & set(structures)) - NOT_SHOWN
    wrong = [f"{name} is on no page" for name in sorted(taken - set(shown))]
    wrong += [f"{name}: {shown[name]} instead of {structures[name]}"
              for name in sorted(shown) if shown[name] != structures.get(name)]
    if len(taken) < 10 or len(shown) < 10:
        wrong.append(f"only {len(taken)} structures are taken and {len(shown)} shown: this script does not find them")
    result = subprocess.run([compiler, "-I", include, "-fsyntax-only", "-x", "c", "-"],
                            input="\n".join(program) + "\n", text=True)
    for line in wrong:
        print(line)
    sys.exit(1 if wrong or result.returncode else 0)


main()
