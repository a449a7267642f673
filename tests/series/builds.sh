# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2086,SC2154 # sourced by run; lists of names
#
# Tests that each commit of the series configures and builds without warnings:
# libibverbs with its examples, the providers that do something of their own in
# the series, and those that it touches. Sourced by run. One build directory
# goes through the commits, so that each builds only what it changes.

# Configures and builds commit $1 with the C flags $2.
builds()
{
	git -C "$tap_dir/each" checkout -q "$1"
	cmake -S "$tap_dir/each" -B "$tap_dir/each-build$2" -G Ninja \
		-DNO_PYVERBS=1 -DNO_MAN_PAGES=1 -DIN_PLACE=1 \
		-DCMAKE_BUILD_TYPE=None "-DCMAKE_C_FLAGS=$2 -Werror"
	providers=$(git -C "$tap_dir/each" diff --name-only base "$1" |
		sed -n 's,^\(providers/[^/]*\)/.*,\1,p')
	targets=$(printf '%s/all\n' libibverbs libibverbs/examples \
		providers/rxe providers/mlx5 providers/efa $providers | sort -u)
	ninja -C "$tap_dir/each-build$2" $targets
}

git clone -q "$repo/build/tree" "$tap_dir/each"
for commit in $(git -C "$tap_dir/each" rev-list --reverse base..); do
	subject=$(git -C "$tap_dir/each" log -1 --format=%s "$commit")
	ok "builds without warnings: $subject" builds "$commit" -O0
done
ok "builds without warnings, optimised: the whole series" builds "$commit" -O2
