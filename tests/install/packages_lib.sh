# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Functions to build and install Debian packages; need tests/net/lib.sh, root, and a mount namespace.
#
#   packages_init                 skips the test if a tool is missing; enters a mount namespace; calls net_init
#   make_packages quick|full      makes packages in $WORK/debs: of the programs that the build directory has, by the
#                                 rest of debian/rules; or by dpkg-buildpackage
#   make_root quick|full          makes $WORK/root, a root without oneside: this machine's file system below an overlay,
#                                 or one made by mmdebstrap; packages are in its /tmp, autopkgtests in /tmp/source
#   close_root                    unmounts /proc, /sys, /dev, /run and /tmp of the root
#   inside COMMAND..., as_user COMMAND...   runs COMMAND in the root; output in $WORK/out; a failure ends the test
#   run WHAT COMMAND...           runs COMMAND outside of the root, otherwise like `inside`
#   autopkgtests                  runs debian/tests as Debian does, in a root made by mmdebstrap without our packages
SOURCE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
PACKAGES=(libdaplone2 libdat1-oneside liboneside-dev librsm2 oneside oneside-doc oneside-perf oneside-verbs)
TESTED_WITH=(gcc libc6-dev pkg-config procps rdmacm-utils) # other packages that debian/tests/control names
shopt -s extglob

packages_init() {
	local program
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
}

net_at_exit() { umount -R -l "$WORK/root" "$WORK/layer" 2>/dev/null; }

run() { # WHAT COMMAND...
	local what=$1
	shift
	"$@" >"$WORK/out" 2>&1 || {
		tail -n 40 "$WORK/out" >&2
		fail "$what"
	}
}

# ---- building ----

# Copies the programs of the build directory to where debian/rules would build them.
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
		# Copy a library with its symbolic links.
		cp -a "$BUILD/${file%%.so*}"$([ "$file" = "${file%%.so*}" ] || echo '.so*([.0-9])') "obj-$(gcc -print-multiarch)/$(dirname "$file")"
	done <"$WORK/outputs"
	printf "%s\n" "${PACKAGES[@]}" >debian/debhelper-build-stamp
}

make_packages() {
	local package
	# tar has status 1 if a folder changed meanwhile: in other tests Python writes compiled files into it.
	{ tar -C "$SOURCE" --exclude='./build*' --exclude=./.git --exclude=__pycache__ -cf - . || [ $? = 1 ]; } |
		tar -C "$WORK/source" --no-same-owner -xf - ||
		fail "no copy of the sources"
	cd "$WORK/source" || exit 1
	if [ "$1" = quick ]; then
		export DEB_BUILD_OPTIONS='nocheck nostrip noautodbgsym' DPKG_DEB_COMPRESSOR_TYPE=none
		run "debian/rules: configuring" debian/rules override_dh_auto_configure
		take_compiled
		run "debian/rules binary" debian/rules binary
	else
		export DEB_BUILD_OPTIONS=nocheck
		run "dpkg-buildpackage" dpkg-buildpackage --build=full --no-sign
	fi
	# A full build also makes a source package and packages with debug information: take only ours.
	for package in "${PACKAGES[@]}"; do
		cp "$WORK/${package}"_*.deb "$WORK/debs" || fail "there is no package $package"
	done
	say "packages: $(du -ch "$WORK"/debs/*.deb | tail -n 1 | cut -f1)"
}

# ---- installing ----

# Prints the other packages that our packages depend on: the first alternative of each.
dependencies() {
	local deb
	for deb in "$WORK"/debs/*.deb; do
		dpkg-deb -f "$deb" Pre-Depends Depends
	done | sed 's/^[A-Za-z-]*: //' | tr ',' '\n' | sed 's/|.*//; s/(.*//; s/ //g' | grep . | grep -vxF "$(printf '%s\n' "${PACKAGES[@]}")" | sort -u
}

make_root() {
	local name
	if [ "$1" = quick ]; then
		dpkg-query -W -f '${db:Status-Status}\n' librte-meta-net 2>/dev/null | grep -qx installed ||
			skip "DPDK's drivers are not installed as Debian's packages"
		# The upper folder of an overlay must be outside of its lower one: use a tmpfs.
		mount -t tmpfs layer "$WORK/layer" && mkdir "$WORK/layer"/{upper,work} &&
			mount -t overlay -o "lowerdir=/,upperdir=$WORK/layer/upper,workdir=$WORK/layer/work" root "$WORK/root" 2>/dev/null ||
			skip "this machine has no overlay file system"
	else
		command -v mmdebstrap >/dev/null || skip "there is no mmdebstrap; install it"
		mount -t tmpfs root "$WORK/root"
		run "mmdebstrap" mmdebstrap --variant=minbase --include=apt-utils "--include=${TESTED_WITH[*]}" \
			"--include=$(dependencies | paste -sd,)" "$(. /etc/os-release && printf %s "$VERSION_CODENAME")" "$WORK/root"
	fi
	for name in proc sys dev; do
		mount --rbind "/$name" "$WORK/root/$name" || fail "no /$name"
	done
	mount -t tmpfs run "$WORK/root/run" && mount -t tmpfs tmp "$WORK/root/tmp" && chmod 1777 "$WORK/root/tmp" || fail "no /run"
	install -d "$WORK/root/tmp/source/tests/net"
	cp -r "$SOURCE/debian" "$WORK/root/tmp/source"
	cp "$SOURCE/tests/net/lib.sh" "$WORK/root/tmp/source/tests/net"
	cp "$WORK"/debs/*.deb "$WORK/root/tmp"
}

close_root() {
	local name
	for name in proc sys dev run tmp; do
		umount -R -l "$WORK/root/$name" || fail "/$name stays"
	done
}

inside() {
	run "$*" chroot "$WORK/root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

as_user() {
	inside setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
}

# Installs all packages in /tmp of the root.
install_packages() {
	local -a files
	mapfile -t files < <(cd "$WORK/root" && ls tmp/*.deb)
	inside dpkg --install "${files[@]/#//}"
}

# Purges the packages that tests need: autopkgtest must install, for each test, only the packages that
# debian/tests/control names.
autopkgtests() {
	local user=tester status=0
	inside useradd --create-home "$user"
	inside apt-get --yes purge --auto-remove "${TESTED_WITH[@]}"
	autopkgtest --no-built-binaries --apt-upgrade --user "$user" --output-dir "$WORK/tested" "$WORK"/debs/*.deb \
		"$WORK/root/tmp/source" -- chroot "$WORK/root" >"$WORK/out" 2>&1 || status=$?
	# Status 2: a test was skipped, such as `service`, which needs a service manager.
	[ "$status" = 0 ] || [ "$status" = 2 ] || {
		tail -n 30 "$WORK/out" "$WORK"/tested/*-std* >&2
		fail "autopkgtest: status $status"
	}
	printf '%s\n' 'build PASS' 'demo PASS' 'service SKIP' >"$WORK/expected"
	awk '{ print $1, $2 }' "$WORK/tested/summary" | sort -u | diff "$WORK/expected" - >"$WORK/out" || fail "autopkgtest: $(cat "$WORK/out")"
}
