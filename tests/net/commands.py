# SPDX-License-Identifier: BSD-3-Clause
# Print the commands of documents, one per line: fenced blocks of Markdown, text between .nf and .fi in section EXAMPLES of
# a man page, and the example at the end of --help's synopsis. Comments and a final & are removed, lines that end in a
# backslash are joined, and && separates commands.
#   commands.py FILE...
import re
import sys

PROGRAM = re.compile(r"^(\S*/)?(oneside-[a-z]+|quickstart|meson|ninja|hugeadm|dpdk-devbind\.py)( |$)")


def blocks(path, text):
    if path.endswith(".md"):
        return re.findall(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S)
    if re.search(r"\.[1-8][a-z]*$", path):
        examples = text.partition(".SH EXAMPLES")[2].partition("\n.SH ")[0]
        plain = examples.replace(r"\-", "-").replace(r"\e", "\\").replace(r"\&", "")
        return re.findall(r"^\.nf\n(.*?)^\.fi", plain, re.M | re.S)
    return re.findall(r"^  oneside-dataplane -l.*?(?=\nand )", text, re.M | re.S)


def commands(block):
    for line in block.replace("\\\n", "").splitlines():
        for part in line.split("&&"):
            command = " ".join(part.partition(" # ")[0].split()).removeprefix("sudo ").removesuffix(" &")
            if PROGRAM.match(command):
                yield command


for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        found = [c for block in blocks(name, file.read()) for c in commands(block)]
    if not found:
        sys.exit(f"{name}: no command is found")
    print("\n".join(found))
