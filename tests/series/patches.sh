# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC2164 # sourced by run, under set -e
#
# Tests of what assemble makes of the real series: sourced by run.

# Prints inode, time and name of each file below the directories $@.
files_of()
{
	find "$@" -name .git -prune -o -type f -printf '%i %T@ %p\n' | sort
}

assemble_again()
{
	files_of "$repo/build/tree" "$repo/build/series" >"$tap_dir/before"
	"$repo/buildlib/assemble" 2>&1 | grep 'assemble: nothing changed'
	files_of "$repo/build/tree" "$repo/build/series" >"$tap_dir/after"
	diff "$tap_dir/before" "$tap_dir/after"
}

# The base commit is the tarball and nothing else.
pristine()
{
	mkdir "$tap_dir/pristine"
	git -C "$repo/build/tree" archive base | tar -C "$tap_dir/pristine" -xf -
	diff -r --no-dereference "$tap_dir/pristine" "$tap_dir/base"
}

# A home full of settings that would break a script that heeded them.
hostile_home()
{
	mkdir -p "$1/.config/git" "$1/hooks"
	printf '#!/bin/sh\nexit 1\n' >"$1/hooks/pre-commit"
	chmod +x "$1/hooks/pre-commit"
	cp "$1/hooks/pre-commit" "$1/hooks/reference-transaction"
	printf '%s\n' '* text eol=crlf' '*.txt diff=python' '*.[ch] -diff' \
		>"$1/.config/git/attributes"
	echo '*.[ch]' >"$1/.config/git/ignore"
	cat >"$1/.gitconfig" <<-END
	[commit]
		gpgSign = true
	[tag]
		gpgSign = true
	[core]
		autocrlf = true
		fileMode = false
		hooksPath = $1/hooks
		quotePath = false
		abbrev = 5
	[diff]
		noprefix = true
		context = 9
		renames = copies
	[apply]
		whitespace = error
	[format]
		signature = hello
		signOff = true
		attach = true
		thread = true
		suffix = .txt
	[i18n]
		commitEncoding = latin1
		logOutputEncoding = latin1
	[user]
		name = Tester
		email = tester@localhost
	END
}

same_everywhere()
{
	copy_repository "$other"
	hostile_home "$tap_dir/hostile"
	(
		umask 077
		cd /
		HOME=$tap_dir/hostile XDG_CONFIG_HOME=$tap_dir/hostile/.config \
			GIT_DIFF_OPTS=-U9 GIT_DIR=/nowhere LC_ALL=tr_TR.UTF-8 \
			TZ=Asia/Tokyo "$other/buildlib/assemble"
	)
	diff -r "$repo/build/series" "$other/build/series"
	same "$(git -C "$repo/build/tree" rev-parse HEAD)" \
		"$(git -C "$other/build/tree" rev-parse HEAD)"
	git -C "$other/build/tree" diff --stat --exit-code HEAD
}

# Without any user git would refuse to commit: a neutral one stands in.
neutral_author()
{
	(
		HOME=$tap_dir/nobody XDG_CONFIG_HOME=$tap_dir/nobody
		export HOME XDG_CONFIG_HOME
		"$other/buildlib/assemble"
	)
	same "$(git -C "$other/build/tree" log -1 --format='%an <%ae>, %cn <%ce>')" \
		'ibv_buf <ibv_buf@localhost>, ibv_buf <ibv_buf@localhost>'
	same "$(tree_of "$repo/build/tree")" "$(tree_of "$other/build/tree")"
}

# Only files that the assembled tree changes are written.
incremental()
{
	file=$(git -C "$other/build/tree" log --reverse --diff-filter=A \
		--name-only --format= base.. -- '*.c' | head -n 1)
	files_of "$other/build/tree" >"$tap_dir/before"
	echo "/* one line more */" >>"$other/$file"
	"$other/buildlib/assemble"
	files_of "$other/build/tree" >"$tap_dir/after"
	same "$(comm -13 "$tap_dir/before" "$tap_dir/after" | cut -d ' ' -f 3-)" \
		"$other/build/tree/$file"
	git -C "$other" checkout -q -- "$file"
	"$other/buildlib/assemble"
	same "$(tree_of "$repo/build/tree")" "$(tree_of "$other/build/tree")"
}

given_directory()
{
	cp -R "$tap_dir/base" "$tap_dir/given"
	mkdir "$tap_dir/given/build"
	: >"$tap_dir/given/build/product"
	cd "$tap_dir"
	RDMA_CORE_SOURCE=given "$other/buildlib/assemble"
	same "$(tree_of "$repo/build/tree" base)" "$(tree_of "$other/build/tree" base)"
	same "$(tree_of "$repo/build/tree")" "$(tree_of "$other/build/tree")"
}

given_checkout()
{
	git init -q "$tap_dir/checkout"
	cp -R "$tap_dir/base/." "$tap_dir/checkout"
	git -C "$tap_dir/checkout" add -A -f
	git -C "$tap_dir/checkout" commit -q -m base
	: >"$tap_dir/checkout/product"
	echo dirt >>"$tap_dir/checkout/README.md"
	RDMA_CORE_SOURCE=$tap_dir/checkout "$other/buildlib/assemble" \
		2>&1 | tee "$tap_dir/said"
	grep "changes that are not committed: they are left out" "$tap_dir/said"
	same "$(tree_of "$repo/build/tree" base)" "$(tree_of "$other/build/tree" base)"
	same "$(tree_of "$repo/build/tree")" "$(tree_of "$other/build/tree")"
}

# Both ways to apply a patch must find each hunk at the line it names.
with_git_am()
{
	git init -q "$tap_dir/am"
	cp -R "$tap_dir/base/." "$tap_dir/am"
	git -C "$tap_dir/am" add -A -f
	git -C "$tap_dir/am" commit -q -m base
	git -C "$tap_dir/am" tag base
	git -C "$tap_dir/am" am --whitespace=error "$repo"/build/series/*.patch \
		>"$tap_dir/said" 2>&1 || {
		cat "$tap_dir/said"
		return 1
	}
	cat "$tap_dir/said"
	lacks 'fuzz|offset|warning|3-way' "$tap_dir/said"
	same "$(tree_of "$repo/build/tree")" "$(tree_of "$tap_dir/am")"
	same "$(git -C "$repo/build/tree" log --format='%T %an %ae %at %B' base..)" \
		"$(git -C "$tap_dir/am" log --format='%T %an %ae %at %B' base..)"
}

with_patch()
{
	cp -R "$tap_dir/base" "$tap_dir/quilt"
	for patch in "$repo"/build/series/*.patch; do
		(cd "$tap_dir/quilt" && patch -p1 --fuzz=0 --no-backup-if-mismatch) \
			<"$patch"
	done >"$tap_dir/said"
	cat "$tap_dir/said"
	lacks 'fuzz|offset|FAILED' "$tap_dir/said"
	mkdir "$tap_dir/final"
	git -C "$repo/build/tree" archive HEAD | tar -C "$tap_dir/final" -xf -
	diff -r --no-dereference "$tap_dir/quilt" "$tap_dir/final"
}

# rdma-core's way: "area: What it does", and a text that says why.
described()
{
	git -C "$repo/build/tree" log --reverse --format='%H' base.. |
	while read -r commit; do
		subject=$(git -C "$repo/build/tree" log -1 --format=%s "$commit")
		echo "$subject"
		[ ${#subject} -le 72 ]
		echo "$subject" | grep -qE '^[a-z0-9_/-]+(: [a-z0-9_/-]+)?: [A-Z]'
		git -C "$repo/build/tree" log -1 --format=%b "$commit" \
			>"$tap_dir/body"
		grep -q . "$tap_dir/body"
		lacks '.{76}' "$tap_dir/body"
	done
}

# A file in one of rdma-core's directories that no entry adds is forgotten.
all_listed()
{
	cd "$repo"
	find kernel-boot libibverbs providers pyverbs -type f 2>/dev/null |
		sort >"$tap_dir/have"
	git -C build/tree diff --name-only --diff-filter=A base HEAD |
		sort >"$tap_dir/listed"
	comm -23 "$tap_dir/have" "$tap_dir/listed" >"$tap_dir/forgotten"
	cat "$tap_dir/forgotten"
	[ ! -s "$tap_dir/forgotten" ]
}

round_trip()
{
	"$repo/buildlib/assemble"
	tip=$(git -C "$repo/build/tree" rev-parse HEAD)
	"$repo/buildlib/refresh" 2>&1 | grep 'refresh: nothing changed'
	nothing_changed "$repo"
	same "$(git -C "$repo/build/tree" rev-parse HEAD)" "$tip"
}

# The first hook of the series, with a context line that the base does not have.
broken_hook()
{
	cp -R "$repo/buildlib" "$tap_dir/buildlib"
	entry=$(grep -l '^@@' "$repo"/buildlib/series/56.1/*.patch | head -n 1)
	awk '/^ ./ && after && !done { $0 = " no such line"; done = 1 }
		/^@@/ { after = 1 } { print }' \
		"$tap_dir/buildlib/${entry#*/buildlib/}" >"$entry"
	"$repo/buildlib/assemble"
}

kept()
{
	rm -rf "$repo/buildlib"
	mv "$tap_dir/buildlib" "$repo/buildlib"
	same "$(git -C "$repo/build/tree" rev-parse HEAD)" "$tip"
	git -C "$repo/build/tree" diff --exit-code HEAD
	nothing_changed "$repo"
}

ok "the series assembles on the fetched base" "$repo/buildlib/assemble"
ok "assembling again changes nothing" assemble_again
ok "the first commit is the pristine base" pristine
ok "git am applies the patches to a pristine base" with_git_am
ok "patch applies them with no fuzz and no offset" with_patch
ok "the commits are described as rdma-core's are" described
ok "each file in a directory of rdma-core is in an entry" all_listed
other="$tap_dir/a copy of it"
ok "another place, umask, locale and git settings change nothing" \
	same_everywhere
ok "without a git user there is a neutral author" neutral_author
ok "only files that changed are written" incremental
ok "RDMA_CORE_SOURCE takes an unpacked tree" given_directory
ok "RDMA_CORE_SOURCE takes the HEAD of a git checkout" given_checkout
tip=$(git -C "$repo/build/tree" rev-parse HEAD)
ok "refresh gives the same entries back" round_trip
entry=$(cd "$repo/buildlib/series/56.1" && grep -l '^@@' -- *.patch | head -n 1)
file=$(sed -n 's,^+++ b/,,p' "$repo/buildlib/series/56.1/$entry" | head -n 1)
refuses "a hook that no longer applies stops with file, hunk and reason" \
	"assemble: buildlib/series/56.1/$entry: hunk 1 of $file does not apply: line
  expected: no such line
  @@ -" broken_hook
ok "build/tree is then as it was" kept
