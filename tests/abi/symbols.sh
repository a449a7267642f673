# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# What the library exports: all that stock does, the symbols of the series in
# the nodes that upstream has them in, for programs that are already built also
# those that upstream has besides in these nodes, and a private node of its own.
# Sourced by run.

cat >"$tap_dir/added" <<-END
	ibv_alloc_buf@@IBVERBS_1.17
	ibv_alloc_user_buf@@IBVERBS_1.19
	ibv_export_buf_dmabuf_fd@@IBVERBS_1.18
	ibv_free_buf@@IBVERBS_1.17
	ibv_free_user_buf@@IBVERBS_1.19
	ibv_reg_buf_mr@@IBVERBS_1.17
	ibv_reg_mr_ex@@IBVERBS_1.15
END

# Not for the linker: one @
cat >"$tap_dir/lacking" <<-END
	_ibv_query_comp_cntr_caps@IBVERBS_1.18
	ibv_alloc_dmah@IBVERBS_1.15
	ibv_create_comp_cntr@IBVERBS_1.18
	ibv_dealloc_dmah@IBVERBS_1.15
	ibv_destroy_comp_cntr@IBVERBS_1.18
	ibv_inc_comp_cntr@IBVERBS_1.18
	ibv_inc_err_comp_cntr@IBVERBS_1.18
	ibv_qp_attach_comp_cntr@IBVERBS_1.18
	ibv_read_comp_cntr@IBVERBS_1.18
	ibv_read_err_comp_cntr@IBVERBS_1.18
	ibv_set_comp_cntr@IBVERBS_1.18
	ibv_set_err_comp_cntr@IBVERBS_1.18
END
sort "$tap_dir/added" "$tap_dir/lacking" >"$tap_dir/new"

only_adds()
{
	comm -23 "$tap_dir/stock" "$tap_dir/ours" >"$tap_dir/gone"
	cat "$tap_dir/gone"
	[ ! -s "$tap_dir/gone" ] || return
	comm -13 "$tap_dir/stock" "$tap_dir/ours" | diff "$tap_dir/new" -
}

# Of what we add, all but the user verbs.
like_upstream()
{
	grep -v _user_buf "$tap_dir/new" | sed 's/@@*/@@/' | sort |
		comm -23 - "$tap_dir/upstream" >"$tap_dir/unlike"
	cat "$tap_dir/unlike"
	[ ! -s "$tap_dir/unlike" ]
}

# No symbol of upstream's may stand in another node of ours.
no_other_node()
{
	sed 's/@.*//' "$tap_dir/upstream" >"$tap_dir/names"
	grep -v _user_buf "$tap_dir/ours" | comm -23 - "$tap_dir/lacking" |
		grep -F -w -f "$tap_dir/names" |
		comm -23 - "$tap_dir/upstream" >"$tap_dir/other"
	cat "$tap_dir/other"
	[ ! -s "$tap_dir/other" ]
}

# Nodes that a library defines, other than the private one
nodes()
{
	nm -D --defined-only --with-symbol-versions "$1" |
		sed -n 's/.* A \(IBVERBS_[0-9.]*\)$/\1/p' | sort -V
}

new_nodes()
{
	nodes "$stock/lib/libibverbs.so.1" >"$tap_dir/nodes"
	[ -s "$tap_dir/nodes" ] || return
	printf 'IBVERBS_1.%s\n' 15 17 18 19 | cat "$tap_dir/nodes" - |
		sort -V >"$tap_dir/want"
	nodes "$ours/lib/libibverbs.so.1" | diff "$tap_dir/want" -
}

# By the debug records: the functions, and the types that they reach
abi_only_grows()
{
	cat >"$tap_dir/private" <<-END
		[suppress_function]
		symbol_version_regexp = ^IBVERBS_PRIVATE_
		[suppress_variable]
		symbol_version_regexp = ^IBVERBS_PRIVATE_
	END
	abidiff --suppressions "$tap_dir/private" \
		--headers-dir1 "$stock/include/infiniband" \
		--headers-dir2 "$ours/include/infiniband" \
		"$stock/lib/libibverbs.so.1" "$ours/lib/libibverbs.so.1" \
		>"$tap_dir/abidiff" && status=0 || status=$?
	cat "$tap_dir/abidiff"
	# Bit 2 alone: the interface changed, not incompatibly.
	[ "$status" -eq 4 ] || return
	sed 's/ ([0-9]* filtered out)//g' "$tap_dir/abidiff" >"$tap_dir/summary"
	grep -q '^Functions changes summary: 0 Removed, 0 Changed, 19 Added ' \
		"$tap_dir/summary"
	grep -q '^Variables changes summary: 0 Removed, 0 Changed, 0 Added ' \
		"$tap_dir/summary"
	sed -n "s/.*\[A\].*{\(.*\)}\$/\1/p" "$tap_dir/abidiff" | sort |
		diff "$tap_dir/new" -
}

# The one provider file of a build that is for rxe, and its private node
provider()
{
	set -- "$1"/lib/librxe-rdmav*.so
	[ $# = 1 ] && echo "$1"
}

private_node()
{
	readelf -V "$1" | sed -n 's/.*\(IBVERBS_PRIVATE_[0-9a-z]*\).*/\1/p' |
		sort -u
}

provider_matches()
{
	file=$(provider "$1")
	node=$(private_node "$file")
	echo "$file needs $node"
	private_node "$1/lib/libibverbs.so.1" | grep -qx "$node"
	[ "${file##*-rdmav}" = "${node#IBVERBS_PRIVATE_}.so" ]
}

nodes_differ()
{
	[ "$(private_node "$(provider "$ours")")" != \
		"$(private_node "$(provider "$stock")")" ]
	[ "$(private_node "$(provider "$ours")")" != \
		"$(private_node "$upstream_library")" ]
}

# Upstream counts its private interface up from the base's 34.
node_is_not_upstreams()
{
	node=$(private_node "$(provider "$ours")")
	[ "${node#IBVERBS_PRIVATE_}" -gt 1000 ]
}

ok "exports all that stock does, and only the new symbols besides" only_adds
ok "the new symbols stand in upstream's nodes" like_upstream
ok "no symbol of upstream's stands in another node" no_other_node
ok "nodes 1.15 and 1.17 to 1.19 are new, and no other" new_nodes
ok "abidiff against stock: only additions" abi_only_grows
ok "our provider needs our private node" provider_matches "$ours"
ok "stock provider needs the stock private node" provider_matches "$stock"
ok "the private nodes differ" nodes_differ
ok "our private node is out of upstream's range" node_is_not_upstreams
