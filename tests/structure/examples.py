#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the EXAMPLES of manual pages compile, with the declarations that a reader would assume.

    examples.py CC ROOT        checks doc/man of ROOT; prints the compiler's errors; exit 1
"""

import glob
import os
import re
import subprocess
import sys

LISTING = re.compile(r"^\.nf\n(.*?)^\.fi", re.M | re.S)
COMMON = ("arpa/inet.h", "netinet/in.h", "stdatomic.h", "stdint.h", "stdio.h", "stdlib.h", "string.h", "unistd.h")
AROUND = {
    "3dat": ("dat/udat.h", """
DAT_RETURN ret; DAT_EVENT event; DAT_COUNT nmore; DAT_IA_HANDLE ia; DAT_PZ_HANDLE pz; DAT_EP_HANDLE ep;
DAT_EVD_HANDLE evd, connect_evd, cr_evd, request_evd; DAT_RMR_HANDLE rmr; DAT_LMR_CONTEXT lmr_context, header_context;
DAT_RMR_TRIPLET told; void *buffer, *header, *request; DAT_VLEN size;
"""),
    "3rsm": ("rsmapi.h", """
int result; rsmapi_controller_handle_t controller; rsm_memseg_export_handle_t segment; rsm_memseg_import_handle_t import;
char *text;
"""),
}
# Pages that readers open first, and that must have examples.
EXPECTED = ("dat_ep_connect.3dat", "dat_ep_post_rdma_read.3dat", "dat_ep_post_rdma_write.3dat", "dat_ep_post_recv.3dat",
            "dat_ep_post_send.3dat", "dat_lmr_create.3dat", "dat_rmr_bind.3dat", "dat_rmr_create.3dat",
            "rsm_memseg_export_publish.3rsm", "rsm_memseg_import_connect.3rsm", "rsm_memseg_import_get.3rsm",
            "rsm_memseg_import_init_barrier.3rsm", "rsm_memseg_import_put.3rsm")


def example(page):
    """Returns the code of the section EXAMPLES, as a reader sees it."""
    section = re.search(r"^\.SH EXAMPLES\n(.*?)(?=^\.SH )", page, re.M | re.S)
    code = "\n".join(LISTING.findall(section.group(1))) if section else ""
    return code.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    compiler, root = sys.argv[1:]
    include = [f"-I{root}/api/{api}/include" for api in ("dat", "rsm")]
    bad, seen = [], set()
    for path in sorted(glob.glob(f"{root}/doc/man/*.3*")):
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as page:
            code = example(page.read())
        if not code:
            continue
        seen.add(name)
        header, around = AROUND[name.rsplit(".", 1)[1]]
        program = "".join(f"#include <{h}>\n" for h in (*COMMON, header)) + around + \
            f'void example(void);\nvoid\nexample(void)\n{{\n#line 1 "{name}"\n{code}\n}}\n'
        done = subprocess.run([compiler, "-std=gnu11", "-Wall", "-Wextra", "-Wno-unused", "-Werror", "-fsyntax-only", *include,
                               "-x", "c", "-"], input=program, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            bad.append(done.stderr)
    bad += [f"{name}: no EXAMPLES" for name in EXPECTED if name not in seen]
    print("\n".join(bad) or f"{len(seen)} pages with examples, which compile")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
