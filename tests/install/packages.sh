#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Debian's packages: they are built, installed where nothing of ours is, used by a user, upgraded, removed and purged.
#
#   packages.sh quick    of what the build directory has compiled, by the rest of debian/rules; into this machine's
#                        file system with all changes kept apart
#   packages.sh full     by dpkg-buildpackage; lintian; into a root made by mmdebstrap, with what apt adds

. "$(dirname "$0")/../net/lib.sh"
how=$1
SOURCE=$(realpath "$(dirname "$0")/../..")
PACKAGES=(libdaplone2 libdat1-oneside liboneside-dev librsm2 oneside oneside-doc oneside-perf oneside-verbs)

[ "$(id -u)" = 0 ] || skip "a root directory needs root"
for program in dh dpkg-buildpackage dpkg; do
	command -v "$program" >/dev/null || skip "there is no $program; install dpkg-dev debhelper"
done
[ -e /usr/share/perl5/Debian/Debhelper/Sequence/installsysusers.pm ] || skip "debhelper is older than Debian 12's"
if [ -z "${ONESIDE_NAMESPACE:-}" ]; then
	unshare --mount --propagation private true 2>/dev/null || skip "namespaces cannot be made here"
	ONESIDE_NAMESPACE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
net_init
mkdir "$WORK/debs" "$WORK/source" "$WORK/layer" "$WORK/root"
net_at_exit() { umount -R -l "$WORK/root" "$WORK/layer" 2>/dev/null; }

# ---- building ----

tar -C "$SOURCE" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$WORK/source" --no-same-owner -xf - || fail "no copy of the sources"
cd "$WORK/source" || exit 1

run() { # WHAT COMMAND...
	local what=$1
	shift
	"$@" >"$WORK/out" 2>&1 || {
		tail -n 40 "$WORK/out" >&2
		fail "$what"
	}
}

# What the build directory has compiled, in the place where debian/rules would compile it.
take_compiled() {
	local file
	python3 - >"$WORK/outputs" <<'PYTHON'
import json, os, subprocess, glob
obj = os.path.abspath(glob.glob("obj-*")[0])
targets = json.loads(subprocess.run(["meson", "introspect", "--targets", obj], capture_output=True, check=True).stdout)
for target in targets:
    if target["installed"] and target["type"] in ("executable", "shared library", "shared module"):
        print(os.path.relpath(target["filename"][0], obj))
PYTHON
	while read -r file; do
		[ -e "$BUILD/$file" ] || fail "$file is not built"
		# With its links.
		cp -a "$BUILD/${file%%.so*}"$([ "$file" = "${file%%.so*}" ] || echo '.so*([.0-9])') "obj-$(gcc -print-multiarch)/$(dirname "$file")"
	done <"$WORK/outputs"
	printf "%s\n" "${PACKAGES[@]}" >debian/debhelper-build-stamp
}
shopt -s extglob

if [ "$how" = quick ]; then
	export DEB_BUILD_OPTIONS='nocheck nostrip noautodbgsym' DPKG_DEB_COMPRESSOR_TYPE=none
	run "debian/rules: configuring" debian/rules override_dh_auto_configure
	take_compiled
	run "debian/rules binary" debian/rules binary
else
	export DEB_BUILD_OPTIONS=nocheck
	run "dpkg-buildpackage" dpkg-buildpackage --build=full --no-sign
fi
# In full a source package and those with debug information, too.
for package in "${PACKAGES[@]}"; do
	mv "$WORK/${package}"_*.deb "$WORK/debs" || fail "there is no package $package"
done
say "packages: $(du -ch "$WORK"/debs/*.deb | tail -n 1 | cut -f1)"
[ "$how" = quick ] || {
	if command -v lintian >/dev/null; then
		# The maintainers have no public address yet; nothing is asked of Debian.
		run "lintian" lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
			"$WORK"/*.changes
		say "lintian has nothing to say"
	else
		leave_out "there is no lintian; install it"
	fi
}

# ---- a root where nothing of ours is ----

if [ "$how" = quick ]; then
	# Of another file system than what it covers.
	mount -t tmpfs layer "$WORK/layer" && mkdir "$WORK/layer"/{upper,work} &&
		mount -t overlay -o "lowerdir=/,upperdir=$WORK/layer/upper,workdir=$WORK/layer/work" root "$WORK/root" 2>/dev/null ||
		skip "this machine has no overlay file system"
	dpkg-query -W -f '${db:Status-Status}\n' librte-meta-net 2>/dev/null | grep -qx installed ||
		skip "DPDK's drivers are not installed as Debian's packages"
else
	command -v mmdebstrap >/dev/null || skip "there is no mmdebstrap; install it"
	mount -t tmpfs root "$WORK/root"
	run "mmdebstrap" mmdebstrap --variant=minbase --include=systemd,librte-meta-bus,librte-meta-mempool,librte-meta-net,libdapl2 \
		--include=libibverbs1,librdmacm1,rdmacm-utils,gcc,libc6-dev,pkg-config,procps "$(. /etc/os-release && printf %s "$VERSION_CODENAME")" "$WORK/root"
fi
for name in proc sys dev; do
	mount --rbind "/$name" "$WORK/root/$name" || fail "no /$name"
done
mount -t tmpfs run "$WORK/root/run" && mount -t tmpfs tmp "$WORK/root/tmp" && chmod 1777 "$WORK/root/tmp" || fail "no /run"
install -d "$WORK/root/tmp/source/tests/net"
cp -r debian "$WORK/root/tmp/source"
cp tests/net/lib.sh "$WORK/root/tmp/source/tests/net"
cp "$WORK"/debs/*.deb "$WORK/root/tmp"

inside() {
	run "$*" chroot "$WORK/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}
as_user() {
	inside setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
}
listing() { # all that a package may have made or taken away
	(cd "$WORK/root" && find etc usr lib run var/lib/systemd -xdev ! -name '*.pyc' ! -path 'etc/ld.so.cache' ! -path 'usr/share/man/*' \
		! -path 'etc/*-' ! -path run/adduser -printf '%p %l\n' | sort)
}

listing >"$WORK/before"
# shellcheck disable=SC2046,SC2016 # words are wanted; the inner shell's
inside sh -c 'dpkg --install "$@"' sh $(cd "$WORK/root" && ls tmp/*.deb | sed 's#^#/#')
grep -q '^oneside:' "$WORK/root/etc/passwd" || fail "there is no user oneside"
[ "$(chroot "$WORK/root" stat -c %U:%a /run/oneside)" = oneside:755 ] || fail "there is no /run/oneside of its own"
inside dpkg --verify "${PACKAGES[@]}"
[ ! -s "$WORK/out" ] || fail "not as in the packages: $(cat "$WORK/out")"
[ ! -L "$WORK/root/etc/systemd/system/multi-user.target.wants/oneside.service" ] || fail "the service is enabled before it is configured"
say "installed"

as_user /tmp/source/debian/tests/demo
tail -n 1 "$WORK/out"
as_user /tmp/source/debian/tests/build
say "programs build against it"

# ---- upgrade: what an administrator has changed stays ----

upgraded=9.9.9
for package in "$WORK"/debs/*.deb; do
	rm -rf "$WORK/again"
	dpkg-deb -R "$package" "$WORK/again"
	sed -i "s/^Version: .*/Version: $upgraded/; s/(= [^)]*)/(= $upgraded)/g" "$WORK/again/DEBIAN/control"
	sed -i "s/librte\\([^ ]*\\) (= $upgraded)/librte\\1/g" "$WORK/again/DEBIAN/control"
	run "dpkg-deb" dpkg-deb -Znone -b "$WORK/again" "$WORK/root/tmp/$(basename "$package")"
done
echo '# changed here' >>"$WORK/root/etc/oneside/oneside.conf"
inside systemctl enable oneside
# shellcheck disable=SC2016
inside sh -c 'dpkg --install "$@"' sh $(cd "$WORK/root" && ls tmp/*.deb | sed 's#^#/#')
inside dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' "${PACKAGES[@]}"
[ "$(grep -c " $upgraded installed\$" "$WORK/out")" = ${#PACKAGES[@]} ] || fail "not upgraded: $(cat "$WORK/out")"
expect '# changed here' "$WORK/root/etc/oneside/oneside.conf"
[ -L "$WORK/root/etc/systemd/system/multi-user.target.wants/oneside.service" ] || fail "an upgrade disables the service"
as_user /tmp/source/debian/tests/demo
say "upgraded"

inside dpkg --remove "${PACKAGES[@]}"
expect '# changed here' "$WORK/root/etc/oneside/oneside.conf"
[ ! -e "$WORK/root/usr/sbin/oneside-dataplane" ] || fail "removed, but there"
inside dpkg --purge "${PACKAGES[@]}"
listing | diff "$WORK/before" - >"$WORK/out" || fail "purged, but not as before: $(cat "$WORK/out")"
! grep '^oneside:' "$WORK/root/etc/passwd" "$WORK/root/etc/group" || fail "purged, but its user is there"
say "removed and purged: nothing is left"
