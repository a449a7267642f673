# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# A system of Debian 13 with Debian's packages goes over to ours and back again
# by APT; between, its programs work in the guest. What is done in the system
# stands in the script system, what is done in the guest in inside.

# step NAME...: a step of the script system
step()
{
	"$top/buildlib/chroot" "$tap_dir/root" "$tap_dir/install" root \
		sh -eu ./system "$@"
}

# A copy of a system with Debian's packages, and the packages of both
prepare()
{
	# shellcheck disable=SC2086 # lists of names
	stock=$("$top/buildlib/fetch" root stock "$base_suite" dpkg-dev gcc \
		libc6-dev $names $users)
	cp -a "$stock" "$tap_dir/root"
	mkdir "$tap_dir/install"
	cp "$here/system" "$tap_dir/install"
	# shellcheck disable=SC2016 # no command is meant
	sed -n '/^```c$/,/^```$/p' "$top/README.md" | sed '/^```/d' \
		>"$tap_dir/install/example.c"
	cp -r "$ours" "$tap_dir/install/ours"
	mkdir "$tap_dir/install/stock"
	cp "$tap_dir/stock"/*.deb "$tap_dir/install/stock"
	step prepare "$stock_version" "$version"
}

libs=usr/lib/x86_64-linux-gnu
pack()
{
	# libgcc_s is what threads need to end.
	(cd "$tap_dir/root" && "$top/buildlib/guest/system" . \
		"$tap_dir/archive" usr/bin/ibv_bufinfo usr/bin/ibv_devinfo \
		usr/bin/ibv_rc_pingpong usr/bin/rping usr/bin/ib_write_bw \
		"$libs/libgcc_s.so.1" "$libs"/libibverbs/librxe-rdmav*.so \
		etc/libibverbs.d/rxe.driver)
}

boot()
{
	boot_cases -- "$here/inside" "$top/tests/cases.sh" \
		"$top/tests/pairs.sh" "$top/buildlib/guest/enter" \
		"$tap_dir/archive"
}

# The installed libraries and no others; /lib is a link to usr/lib.
loads_installed()
{
	says loaded "init: .*/${libs#usr/}/libibverbs.so.1\$" \
		"init: .*/$libs/libibverbs/librxe-rdmav[0-9]*.so\$"
	! grep 'calling init: ' "$tap_dir/case" |
		grep -v -e 'init: /lib' -e 'init: /usr/lib'
}

ok "a system with Debian's packages" prepare
ok "APT goes from Debian's packages to ours" step upgrade
ok "a program of the README, built with the installed headers" step example
ok "the package of that program depends on a library with the verbs" \
	step dependencies
ok "the tools, their pages and the Python module are there" step tools
ok "what needs the private interface depends on its very version" step private
ok "APT mixes no private parts of Debian's packages and ours" step mixtures
ok "others' programs can be removed and installed" step others

ok "a small system is made of the installed one" pack
ok "the guest runs it" boot
ok "the programs load the installed libraries" loads_installed
ok "ibv_bufinfo" says bufinfo '^rxe0: buffers of 2M' '^  anon  *yes '
ok "ibv_devinfo" says devinfo 'hca_id:.*rxe0' 'state:.*PORT_ACTIVE'
ok "ibv_rc_pingpong with a buffer" says pingpong '^409600 bytes in' \
	'^server: 409600 bytes in'
ok "rping" says rping '^ping data: rdma-ping-4' \
	'^server: server ping data: rdma-ping-4'
ok "ib_write_bw" says write_bw '^ 65536  *50 '

ok "APT goes back to Debian's packages" step downgrade
