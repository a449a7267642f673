# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# What lintian says of our packages and their source, at any severity, and what
# it says of Debian's.

# Debian does not hand out its .dsc for ever, so it is made anew.
stock_source()
{
	source=$tap_dir/stock/rdma-core-${stock_version%-*}
	orig=$("$top/buildlib/fetch" source "$base_source" "$base_suite")
	packaging=$("$top/buildlib/fetch" diff "$base_source" "$base_suite")
	mkdir "$source"
	tar -xf "$orig" -C "$source" --strip-components=1 --no-same-owner
	rm -r "$source/debian"
	tar -xf "$packaging" -C "$source" --no-same-owner
	cp "$orig" "$tap_dir/stock"
	"$top/buildlib/chroot" "$build/root/deb" "$tap_dir/stock" root \
		dpkg-source -b "${source##*/}"
}

# lint DIR: prints "PACKAGE TAG" for each thing that lintian says of the
# packages in DIR.
lint()
{
	chmod -R a+rX "$1"
	# shellcheck disable=SC2016,SC2086 # for the inner shell; names
	"$top/buildlib/chroot" "$build/root/deb" "$1" 60123:60123 \
		env TMPDIR=/tmp HOME=/tmp sh -c 'for name; do
			echo "$name"_*.deb
		done | xargs lintian --fail-on none --color never --pedantic \
			--tag-display-limit 0 --display-info *.dsc' \
		sh $names >"$tap_dir/said"
	grep '^[A-Z]: ' "$tap_dir/said" | grep -v '^N: ' >"$tap_dir/tags"
	sed 's/^.: \([^:]*\): \([^ ]*\).*/\1 \2/' "$tap_dir/tags" | sort
}

# Nothing is said more often of a package of ours.
no_worse()
{
	lint "$tap_dir/stock" >"$tap_dir/stock.tags"
	lint "$ours" >"$tap_dir/ours.tags"
	echo "lintian says $(wc -l <"$tap_dir/stock.tags") things of Debian's" \
		"packages, $(wc -l <"$tap_dir/ours.tags") of ours:"
	comm -13 "$tap_dir/stock.tags" "$tap_dir/ours.tags" >"$tap_dir/more"
	while read -r package tag; do
		grep "^.: ${package}[: ].* $tag" "$tap_dir/tags"
	done <"$tap_dir/more"
	[ -s "$tap_dir/stock.tags" ] && [ ! -s "$tap_dir/more" ]
}

ok "the source of Debian's packages" stock_source
ok "lintian says nothing of our packages that it does not say of Debian's" \
	no_worse
sed -n 's/^lintian says /# &/p' "$tap_output"
