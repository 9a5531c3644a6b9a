#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the Debian packages, install them in a root without oneside, use them as a user, upgrade, remove and purge them.
#
#   packages.sh quick    packages the programs that the build directory has
#   packages.sh full     builds by dpkg-buildpackage, runs lintian, installs into a root made by mmdebstrap with the
#                        dependencies that apt adds, runs autopkgtest

. "$(dirname "$0")/../net/lib.sh"
. "$(dirname "$0")/packages_lib.sh"
how=$1
packages_init "$@"
make_packages "$how"
if [ "$how" = full ]; then
	if command -v lintian >/dev/null; then
		# The maintainers have no public mail address yet, and do not upload to Debian.
		run "lintian" lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog \
			"$WORK"/*.changes
		say "lintian has nothing to say"
	else
		leave_out "there is no lintian; install it"
	fi
fi
make_root "$how"

listing() { # prints all files that a package may have created or removed
	(cd "$WORK/root" && find etc usr lib run var/lib/systemd -xdev ! -name '*.pyc' ! -path 'etc/ld.so.cache' ! -path 'usr/share/man/*' \
		! -path 'etc/*-' ! -path run/adduser -printf '%p %l\n' | sort)
}

listing >"$WORK/before"
install_packages
grep -q '^oneside:' "$WORK/root/etc/passwd" || fail "there is no user oneside"
[ "$(chroot "$WORK/root" stat -c %U:%a /run/oneside)" = oneside:755 ] || fail "/run/oneside is not oneside's, with mode 755"
inside dpkg --verify "${PACKAGES[@]}"
[ ! -s "$WORK/out" ] || fail "not as in the packages: $(cat "$WORK/out")"
[ ! -L "$WORK/root/etc/systemd/system/multi-user.target.wants/oneside.service" ] || fail "the service is enabled before it is configured"
for library in libibverbs librdmacm; do
	ls "$WORK"/root/usr/lib/*/oneside/verbs/$library.so >"$WORK/out" 2>&1 || fail "no package has $library.so"
done
say "installed"

as_user /tmp/source/debian/tests/demo
tail -n 1 "$WORK/out"
as_user /tmp/source/debian/tests/build
say "programs build against it"

# ---- upgrade: an administrator's changes stay ----

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
install_packages
inside dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' "${PACKAGES[@]}"
[ "$(grep -c " $upgraded installed\$" "$WORK/out")" = ${#PACKAGES[@]} ] || fail "not upgraded: $(cat "$WORK/out")"
expect '# changed here' "$WORK/root/etc/oneside/oneside.conf"
[ -L "$WORK/root/etc/systemd/system/multi-user.target.wants/oneside.service" ] || fail "an upgrade disables the service"
as_user /tmp/source/debian/tests/demo
say "upgraded"

# An administrator creates files that the packages do not have.
inside install -d /etc/oneside/b
inside cp /etc/oneside/oneside.conf /etc/oneside/b/oneside.conf
inside install -m 0600 -o oneside /dev/null /etc/oneside/b/peer2.secret
inside cp /etc/oneside/oneside.conf /etc/oneside/oneside.conf.old
inside systemctl enable oneside@b
# State directories have the sequence numbers of keys, for instances too.
inside install -d -o oneside -m 0700 /var/lib/oneside /var/lib/oneside-b
inside dpkg --remove "${PACKAGES[@]}"
[ -d "$WORK/root/var/lib/oneside" ] && [ -d "$WORK/root/var/lib/oneside-b" ] || fail "a removal forgets the sequence numbers of keys"
expect '# changed here' "$WORK/root/etc/oneside/oneside.conf"
[ ! -e "$WORK/root/usr/bin/oneside-dataplane" ] || fail "removed, but there"
inside dpkg --purge "${PACKAGES[@]}"
listing | diff "$WORK/before" - >"$WORK/out" || fail "purged, but not as before: $(cat "$WORK/out")"
! grep '^oneside:' "$WORK/root/etc/passwd" "$WORK/root/etc/group" || fail "purged, but its user is there"
[ -z "$(find "$WORK/root/var/lib" -maxdepth 1 -name 'oneside*')" ] || fail "purged, but its state is there"
say "removed and purged: nothing is left"
[ "$how" = full ] || exit 0

if command -v autopkgtest >/dev/null; then
	autopkgtests
	say "autopkgtest: $(paste -sd, "$WORK/expected")"
else
	leave_out "there is no autopkgtest; install it"
fi
