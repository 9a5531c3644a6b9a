#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""confined.py UNIT COMMAND...: runs the command with only the system calls that SystemCallFilter= of the unit allows.
Other calls fail with EPERM, as SystemCallErrorNumber= of the unit requires."""
import ctypes
import errno
import os
import subprocess
import sys

ALLOW, ERRNO = 0x7fff0000, 0x00050000


def groups():
    """Groups of system calls that systemd defines: a dictionary of their members, which may be groups too."""
    found = {}
    text = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        if line.startswith("@"):
            group = found.setdefault(line.strip(), [])
        elif line.strip() and not line.strip().startswith("#") and found:
            group.append(line.strip())
    return found


def calls(names, known):
    for name in names:
        if name.startswith("@"):
            yield from calls(known[name], known)
        else:
            yield name


def main():
    unit, command = sys.argv[1], sys.argv[2:]
    with open(unit, encoding="utf-8") as file:
        settings = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    assert settings["SystemCallErrorNumber"] == "EPERM"
    lib = ctypes.CDLL("libseccomp.so.2")
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(ERRNO | errno.EPERM)))
    for name in set(calls(settings["SystemCallFilter"].split(), groups())):
        number = lib.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # the architecture has this call
            assert lib.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0) == 0, name
    assert lib.seccomp_load(context) == 0
    os.execvp(command[0], command)


main()
