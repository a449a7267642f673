# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# Programs that were built for one library on another: they run, with traffic,
# where the other has all they need, and are refused by name where not. Sourced
# by run.

# The program for each rdma-core, that in C++, and what upstream needs to run
prepare()
{
	compile "$tap_dir/for-ours" "$ours/include" "$ours/lib/libibverbs.so" \
		"$here/program.c" "$top/tests/guest/rdma.c"
	compile "$tap_dir/for-upstream" "$upstream/usr/include" \
		"$upstream_library" "$here/program.c" "$top/tests/guest/rdma.c"
	cplusplus c++11
	(cd "$upstream" && "$top/buildlib/guest/system" . "$tap_dir/archive" \
		usr/lib/x86_64-linux-gnu/libibverbs.so.1 \
		usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so \
		etc/libibverbs.d/rxe.driver)
}

# The headers of the base warn in C++; that is not ours to see.
cplusplus()
{
	g++ -std="$1" -g -Wall -Wextra -Wpedantic -Werror \
		-isystem "$ours/include" "$here/cplusplus.cc" \
		"$ours/lib/libibverbs.so" -Wl,-rpath,"$ours/lib" \
		-o "$tap_dir/cplusplus"
}

boot()
{
	boot_cases --build "$ours" \
		--copy "$stock/lib/libibverbs.so.1" \
		--copy "$(provider "$stock")" \
		--copy "$stock/etc/libibverbs.d/rxe.driver" \
		--copy "$stock/bin/ibv_devinfo" -- \
		"$here/inside" "$top/tests/cases.sh" \
		"$top/buildlib/guest/enter" "$tap_dir/archive" "$ours" \
		"$stock" "$tap_dir/for-ours" "$tap_dir/for-upstream" \
		"$tap_dir/cplusplus"
}

# carries CASE LIBRARY: the program had that library, and 17 results, all good.
carries()
{
	said "$1"
	said "$1" >"$tap_dir/case"
	grep -qx "# library: $2.*" "$tap_dir/case"
	[ "$(grep -c '^ok ' "$tap_dir/case")" -eq 17 ]
	grep -qx '1\.\.17' "$tap_dir/case"
}

# On rxe ours has parent domains; upstream has none there, which the program
# takes as it is.
has_parent_domain()
{
	said "$1" >"$tap_dir/case"
	! grep '^# no parent domain' "$tap_dir/case"
}

finds_device()
{
	said "$1"
	said "$1" | grep -q 'hca_id:.*rxe0'
}

# user SYMBOL LIBRARY: a program that calls it if it gets an argument, bound as
# late as can be, and by itself
user()
{
	cat >"$tap_dir/user.c" <<-END
		extern void $1(void);
		int main(int argc, char **argv)
		{
			(void)argv;
			if (argc > 1)
				$1();
			return 0;
		}
	END
	gcc -fno-builtin "$tap_dir/user.c" "$2" -o "$tap_dir/user" \
		-Wl,-z,lazy -Wl,-rpath,"$ours/lib" \
		-Wl,--unresolved-symbols=ignore-in-shared-libs
	shift 2
	LD_LIBRARY_PATH=$ours/lib "$@" "$tap_dir/user"
}

# On ours, what uses all that upstream has in nodes that we have, and we lack
lacks()
{
	compile "$tap_dir/lacks" "$upstream/usr/include" "$upstream_library" \
		"$here/lacks.c"
	nm -D --undefined-only --with-symbol-versions "$tap_dir/lacks" |
		sed -n 's/.* U \(.*@IBVERBS_\)/\1/p' | sort |
		diff "$tap_dir/lacking" -
	"$@" "$tap_dir/lacks"
}

# A program that is being built for ours does not get them.
links()
{
	user "${1%@*}" "$ours/lib/libibverbs.so" true
}

# A program of ours on this machine, with the loader and libraries of upstream's
on_upstream()
{
	user "$1" "$ours/lib/libibverbs.so" true
	"$upstream/lib64/ld-linux-x86-64.so.2" --inhibit-cache \
		--library-path "$upstream_libs" "$tap_dir/user"
}

for standard in c++20 c++17 c++14; do
	ok "an example in C++ compiles and links as $standard" \
		cplusplus "$standard"
done
ok "programs compile for either library, the example as c++11" prepare
ok "the guest runs them" boot

lib=/usr/lib/x86_64-linux-gnu/libibverbs.so
ok "built for ours, on ours: every verb, with data" \
	carries ours-on-ours "$(readlink -f "$ours/lib")/libibverbs.so"
ok "built for upstream, on ours: every verb, with data" \
	carries upstream-on-ours "$(readlink -f "$ours/lib")/libibverbs.so"
ok "built for ours, on upstream: every verb, with data" \
	carries ours-on-upstream "$lib"
ok "built for upstream, on upstream: every verb, with data" \
	carries upstream-on-upstream "$lib"
ok "built for upstream, on ours: has a parent domain with the flag" \
	has_parent_domain upstream-on-ours
ok "the example in C++, on ours" said cplusplus-on-ours
refuses "built for ours, on stock: misses the node by name" \
	"version \`IBVERBS_1.15' not found" said ours-on-stock

# All that upstream has and we have not in some way is of one node that we lack.
sed 's/@/@@/' "$tap_dir/lacking" | sort - "$tap_dir/ours" |
	comm -13 - "$tap_dir/upstream" >"$tap_dir/foreign"
ok "upstream has symbols of node 1.16, which we lack" [ -s "$tap_dir/foreign" ]
while read -r symbol <&3; do
	refuses "${symbol%@@*} of upstream's 1.16 is missed at load" \
		"version \`IBVERBS_1.16' not found" \
		user "${symbol%@@*}" "$upstream_library"
done 3<"$tap_dir/foreign"
ok "what we lack of other nodes is answered for, bound late" lacks env
ok "what we lack of other nodes is answered for, bound at load" \
	lacks env LD_BIND_NOW=1
while read -r symbol <&3; do
	refuses "$symbol is not for programs built for ours" \
		"undefined reference to \`${symbol%@*}'" links "$symbol"
done 3<"$tap_dir/lacking"
for symbol in ibv_alloc_user_buf ibv_free_user_buf; do
	refuses "$symbol, on upstream: misses the node by name" \
		"version \`IBVERBS_1.19' not found" on_upstream "$symbol"
done

ok "our library works with our provider" finds_device devinfo-ours
ok "a stock library works with a stock provider" finds_device devinfo-stock
# It has the stock node, but for one function alone: compat_stock.c.
refuses "our library refuses a stock provider and logs it" \
	"couldn't load driver
undefined symbol:
, version $(private_node "$(provider "$stock")")
No IB devices found" said devinfo-ours-stock-provider
refuses "a stock library refuses our provider and logs it" \
	"couldn't load driver
version \`$(private_node "$(provider "$ours")")' not found
No IB devices found" said devinfo-stock-our-provider
