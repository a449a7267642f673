# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# What the headers tell a compiler: the same numbers, layouts and signatures as
# upstream's, in C; and in C++ no complaint that the base's headers have not.
# Sourced by run.

# asserts INCLUDE SOURCE: the static assertions of SOURCE hold.
asserts()
{
	gcc -std=gnu11 -fsyntax-only -Wall -Wextra -Werror -I "$1" "$2"
}

# The types that verbs.h of $1 defines
types()
{
	echo '#include <infiniband/verbs.h>' | gcc -E -P -I "$1" -x c - |
		sed -n 's/^\(\(struct\|enum\) ibv_[a-z0-9_]*\) {.*/\1/p' | sort
}

# A library $2 with a function for each of our types, as verbs.h of $1 has it,
# since abidiff compares what functions take. One that is not there is an error.
takers()
{
	{
		echo '#include <infiniband/verbs.h>'
		types "$ours/include" | while read -r kind name; do
			echo "void take_$name($kind $name *p) { (void)p; }"
		done
	} | gcc -g -O0 -fPIC -shared -Werror -I "$1" -x c - -o "$2"
}

# More enumerators are no change to abidiff, and are none: programs pass them
# and get an error. struct verbs_context, which grows at its front, is not among
# these types; numbers.c has what programs know of it.
types_are_upstreams()
{
	[ "$(types "$ours/include" | wc -l)" -gt 100 ]
	takers "$ours/include" "$tap_dir/ours.so"
	takers "$upstream/usr/include" "$tap_dir/upstream.so"
	abidiff "$tap_dir/ours.so" "$tap_dir/upstream.so"
}

# Public headers: those that the base's development packages install
headers="infiniband/arch.h infiniband/efadv.h infiniband/hnsdv.h
	infiniband/manadv.h infiniband/mlx4dv.h infiniband/mlx5dv.h
	infiniband/opcode.h infiniband/sa-kern-abi.h infiniband/sa.h
	infiniband/tm_types.h infiniband/verbs.h infiniband/verbs_api.h
	rdma/rdma_cma.h rdma/rdma_verbs.h"
new_headers="infiniband/verbs_buf.h infiniband/verbs_mr_ex.h"

# complaints STANDARD INCLUDE HEADER...: what the compiler says, each as often as
# it does, without places
complaints()
{
	standard=$1
	include=$2
	shift 2
	for header; do
		echo "#include <$header>" | g++ -std="$standard" -fsyntax-only \
			-Wall -Wextra -Wpedantic -I "$include" -x c++ - 2>&1 ||
			echo "error: $header does not compile"
	done | sed -n 's/.*\(warning\|error\): /\1: /p' | sort
}

cplusplus_like_base()
{
	# shellcheck disable=SC2086 # lists of names
	{
		complaints "$1" "$stock/include" $headers >"$tap_dir/base"
		complaints "$1" "$ours/include" $headers $new_headers \
			>"$tap_dir/mine"
	}
	comm -13 "$tap_dir/base" "$tap_dir/mine" >"$tap_dir/more"
	cat "$tap_dir/more"
	[ ! -s "$tap_dir/more" ]
}

# Our own headers alone: the base's warnings are not ours to have.
cplusplus_of_ours()
{
	for header in $new_headers; do
		echo "#include <$header>" | g++ -std="$1" -fsyntax-only -Wall \
			-Wextra -Wpedantic -Werror -I "$ours/include" -x c++ -
	done
}

ok "numbers, layouts and signatures are the design's, in our headers" \
	asserts "$ours/include" "$here/ours.c"
ok "numbers, layouts and signatures are the design's, in upstream's headers" \
	asserts "$upstream/usr/include" "$here/numbers.c"
ok "types of our headers are equal to those of upstream's" types_are_upstreams
for standard in c++11 c++14 c++17 c++20; do
	ok "$standard: our headers compile, and warn of nothing new" \
		cplusplus_like_base "$standard"
	ok "$standard: the new headers warn of nothing" \
		cplusplus_of_ours "$standard"
done

# The headers of the guest's kernel are the truth of what the kernel takes.
kernel_headers=$("$top/buildlib/fetch" files abi/kernel trixie-backports \
	linux-libc-dev)/usr/include
ok "numbers of the kernel's interface, in our kernel-headers" \
	asserts "$build/tree/kernel-headers" "$top/kernel-headers/uapi.c"
ok "numbers of the kernel's interface, in those of the guest's kernel" \
	asserts "$kernel_headers" "$top/kernel-headers/uapi.c"
