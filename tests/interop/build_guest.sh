#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
#   build_guest.sh DIRECTORY     makes DIRECTORY/vmlinux and DIRECTORY/initramfs, unless they are up to date
#
# The guest has Debian's kernel with Soft-RoCE, busybox, and the unmodified verbs programs of the host's packages.
# GUEST_PROGRAMS names more programs for the guest, GUEST_LIBRARIES the libraries that these open by name. If
# something is missing, the script prints the reason and ends with status 77.
set -u -o pipefail
PATH=$PATH:/usr/sbin:/sbin
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)

missing() {
	printf 'SKIPPED: %s\n' "$*"
	exit 77
}

exec 9>"$out/lock"
flock -w 120 9 || missing "another build of the guest holds $out/lock for more than 120 seconds"

programs="rping ucmatose ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_atomic_bw ib_read_lat ib_send_lat ib_atomic_lat ibv_rc_pingpong ibv_ud_pingpong udaddy ip rdma tc"
for program in qemu-system-x86_64 busybox cpio depmod modprobe python3 $programs; do
	command -v "$program" >/dev/null ||
		missing "there is no $program; install qemu-system-x86 busybox-static cpio kmod rdmacm-utils ibverbs-utils perftest iproute2"
done
busybox=$(command -v busybox)
ldd "$busybox" >/dev/null 2>&1 && missing "busybox is not the static one; install busybox-static"
# ldd does not show the Soft-RoCE provider, because libibverbs opens it by name.
provider=$(ls /usr/lib/*/libibverbs/librxe-*.so 2>/dev/null | head -n 1)
[ -n "$provider" ] || missing "verbs have no Soft-RoCE provider; install ibverbs-providers"

# ---- the kernel: the host's if it has the module, else Debian's package, unpacked and not installed ----

installed_kernel() {
	local version
	for version in $(ls /lib/modules 2>/dev/null | sort -rV); do
		[ -r "/boot/vmlinuz-$version" ] &&
			ls "/lib/modules/$version"/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko* >/dev/null 2>&1 || continue
		image=/boot/vmlinuz-$version
		modules=/
		kernel=$version
		return 0
	done
	return 1
}

downloaded_kernel() {
	local package deb
	if [ ! -s "$out/package/version" ]; then
		package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
		[ -n "$package" ] ||
			missing "neither this machine nor apt has a Debian kernel with Soft-RoCE; apt-get update, or install linux-image-amd64"
		rm -rf "$out/package"
		mkdir -p "$out/package/root"
		(cd "$out/package" && timeout 300 apt-get download -q "$package" >apt.log 2>&1) ||
			missing "apt cannot download $package: $(tail -n 1 "$out/package/apt.log")"
		deb=$(ls "$out"/package/*.deb)
		dpkg -x "$deb" "$out/package/root" || exit 1
		rm -f "$deb"
		depmod -b "$out/package/root" "$(ls "$out/package/root/lib/modules")" || exit 1
		ls "$out/package/root/lib/modules" >"$out/package/version"
	fi
	kernel=$(cat "$out/package/version")
	modules=$out/package/root
	image=$modules/boot/vmlinuz-$kernel
}

# Prints a hash of all inputs of the initramfs, so that a second call has nothing to do.
fingerprint() {
	{
		cat "$here/guest_init" "$here/build_guest.sh"
		stat -L -c '%n %s %Y' "$provider" ${GUEST_PROGRAMS:-} ${GUEST_LIBRARIES:-}
		for program in $programs; do stat -L -c '%n %s %Y' "$(command -v "$program")"; done
	} | sha256sum | cut -d' ' -f1
}
made_of=$(fingerprint)
if [ -s "$out/vmlinux" ] && [ -s "$out/initramfs" ] && [ "$(cat "$out/made-of" 2>/dev/null)" = "$made_of" ]; then
	exit 0
fi
rm -f "$out/made-of"
installed_kernel || downloaded_kernel

# Unpack the kernel's image once here: by itself at each boot it takes seconds under emulation.
python3 - "$image" "$out/vmlinux" <<'PYTHON' || cp "$image" "$out/vmlinux" || exit 1
import lzma, sys
image = open(sys.argv[1], "rb").read()
start = image.find(b"\xfd7zXZ\x00")
if start < 0:
    sys.exit(1)
open(sys.argv[2], "wb").write(lzma.LZMADecompressor().decompress(image[start:]))
PYTHON

# ---- the initramfs ----

root=$(mktemp -d "$out/root.XXXXXX") || exit 1
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,usr/bin,dev,proc,sys,tmp,run,etc/libibverbs.d,host,hostroot,lib64,lib/modules/"$kernel"}
ln -s bin "$root/sbin"

put_file() {
	[ -e "$root$1" ] && return
	mkdir -p "$root$(dirname "$1")" && cp -L "$1" "$root$1"
}
put_libraries() {
	local library
	for library in $(ldd "$1" 2>/dev/null | grep -o '/[^ )]*'); do put_file "$library"; done
}
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
for program in $programs ${GUEST_PROGRAMS:-}; do
	program=$(command -v "$program")
	rm -f "$root/bin/${program##*/}"
	cp -L "$program" "$root/usr/bin/" || exit 1
	put_libraries "$program"
done
for library in "$provider" ${GUEST_LIBRARIES:-}; do
	put_file "$library"
	put_libraries "$library"
done
cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/" || exit 1
put_file /lib64/ld-linux-x86-64.so.2
# glibc opens libgcc_s.so.1 by name when a thread ends.
put_file "$(ldconfig -p | awk '/libgcc_s.so.1.*x86-64/ {print $NF; exit}')"
printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"

for module in virtio_pci virtio_net virtio_blk ext4 veth 9p 9pnet_virtio rdma_rxe ib_uverbs rdma_ucm crc32_generic sch_netem sch_ingress cls_matchall act_mirred ifb vfio-pci vfio_iommu_type1 uio_pci_generic tun bridge sch_multiq cls_flower act_skbedit overlay esp4 esp6 xfrm_user gcm ctr ghash_generic seqiv sha512_generic drbg; do
	modprobe -d "$modules" -S "$kernel" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
done | sort -u | while read -r file; do
	part=lib/modules/$kernel/${file#*/lib/modules/"$kernel"/}
	mkdir -p "$root/$(dirname "$part")"
	cp "$file" "$root/$part"
done
cp "$modules/lib/modules/$kernel"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$kernel/" || exit 1
depmod -b "$root" "$kernel" || exit 1
[ -n "$(find "$root/lib/modules" -name 'rdma_rxe.ko*')" ] || missing "kernel $kernel has no Soft-RoCE"
install -m 755 "$here/guest_init" "$root/init"
(cd "$root" && find . -print0 | cpio --null -o -H newc --quiet -R 0:0) | gzip -1 >"$out/initramfs" || exit 1
printf '%s\n' "$kernel" >"$out/kernel"
printf '%s\n' "$made_of" >"$out/made-of"
