# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2046,SC2086,SC2154,SC2164 # sourced by run; lists of words
#
# What the base's own continuous integration builds and checks, as far as this
# machine has the tools: check-build (library names and symbol versions, headers
# on their own and in C++, what is installed, static linking, the ABI against
# the base's dumps), sparse, clang, a machine whose DMA is not coherent, one of
# 32 bits. Sourced by run.
#
# The base as it is passes check-build with the same tools, so the series has to.
# Of sparse it does not pass all, since this one is younger than its developers':
# what it says of the base is looked at too.

# Directories whose C files the series changes or adds
touched=$(git -C "$tree" diff --name-only base ibv_buf |
	sed -n 's,^\(libibverbs\|providers/[^/]*\)/.*\.[ch]$,\1,p' | sort -u)
options="-DIOCTL_MODE=both -DENABLE_WERROR=1 -DNO_PYVERBS=1 -DNO_MAN_PAGES=1
	-DCMAKE_BUILD_TYPE=Debug"

# source NAME COMMIT: a tree of its own, since some of the checks write there
source_of()
{
	mkdir "$tap_dir/$1"
	git -C "$tree" archive "$2" | tar -C "$tap_dir/$1" -xf -
}

# configure SOURCE NAME COMPILER OPTION...
configure()
{
	source=$tap_dir/$1
	binary=$tap_dir/$2
	compiler=$3
	shift 3
	CC=$compiler cmake -S "$source" -B "$binary" -G Ninja $options "$@" \
		>"$binary.log" 2>&1 || {
		cat "$binary.log"
		return 1
	}
}

# parts NAME: builds the directories that the series touches, of those that this
# machine has
parts()
{
	cd "$tap_dir/$1"
	ninja libibverbs/examples/all $(for dir in $touched; do
		[ ! -d "$dir" ] || echo "$dir/all"
	done)
}

check_build()
{
	configure ours gcc gcc -DENABLE_STATIC=1 -DCMAKE_INSTALL_PREFIX=/usr
	ninja -C "$tap_dir/gcc" | tail -n 20
	cd "$tap_dir/gcc"
	# It asks for a module that Debian has for its own python3 only.
	/usr/bin/python3 ../ours/buildlib/check-build --src ../ours \
		--cc gcc --cxx g++
}

compiles_with_clang()
{
	configure ours clang clang
	parts clang
}

# As the base's developers simulate it
compiles_without_barriers()
{
	cp -R "$tap_dir/ours" "$tap_dir/other"
	echo '#error "not for this machine"' >"$tap_dir/other/util/udma_barrier.h"
	configure other incoherent gcc
	parts incoherent
}

# Our files alone: the libraries that others need are not here for 32 bits, and
# the kernel's headers lie in the place for 64.
compiles_for_32_bits()
{
	ninja -C "$tap_dir/gcc" -t compdb >"$tap_dir/commands"
	git -C "$tree" diff --name-only --diff-filter=A base ibv_buf -- '*.c' \
		>"$tap_dir/added"
	sed -n 's/^ *"command": "\(.* -c .*\)",$/\1/p' "$tap_dir/commands" |
		sed 's/\\"/"/g' | grep -Ff "$tap_dir/added" >"$tap_dir/compile"
	[ "$(wc -l <"$tap_dir/compile")" -ge "$(wc -l <"$tap_dir/added")" ]
	cd "$tap_dir/gcc"
	asm=/usr/include/$(gcc -print-multiarch)
	sed "s,^[^ ]*,gcc -m32 -fsyntax-only -idirafter $asm,; s, -o [^ ]*,," \
		"$tap_dir/compile" | sh -ex
}

# says NAME: what sparse says of the build, without the places
says()
{
	ninja -C "$tap_dir/$1" -t clean >/dev/null
	parts "$1" >"$tap_dir/$1.out" 2>&1 || {
		cat "$tap_dir/$1.out"
		return 1
	}
	grep -E '(warning|error):' "$tap_dir/$1.out" |
		sed "s,$tap_dir/[^/]*/,,; s/:[0-9]*:[0-9]*:/:/" | sort -u \
		>"$tap_dir/$1.says"
}

sparse_is_no_worse()
{
	configure base sparse-base cgcc
	grep -q '^HAVE_NO_SPARSE:INTERNAL=$' "$tap_dir/sparse-base/CMakeCache.txt"
	configure ours sparse cgcc
	says sparse-base
	says sparse
	comm -13 "$tap_dir/sparse-base.says" "$tap_dir/sparse.says" \
		>"$tap_dir/worse"
	cat "$tap_dir/worse"
	[ ! -s "$tap_dir/worse" ]
}

source_of base base
source_of ours ibv_buf
ok "what check-build of the base asks for is there" check_build
ok "clang compiles what the series touches" compiles_with_clang
ok "it compiles where DMA is not coherent" compiles_without_barriers
ok "our files compile for 32 bits" compiles_for_32_bits
ok "sparse has no more to say than of the base" sparse_is_no_worse
