# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC2164 # sourced by run, under set -e
#
# Tests of what is handed on: patches with a Signed-off-by, the cover letter,
# and the files of a release. Sourced by run. The packages of a release are
# stand-ins: how they are made is the business of other suites.

signed="$tap_dir/signed"
signer='Signed-off-by: Tester <tester@localhost>'

# Each patch is signed once, by git's user, and the commits are not.
signs_off()
{
	copy_repository "$signed"
	tip=$(cd "$signed" && buildlib/assemble >&2 &&
		git -C build/tree rev-parse HEAD)
	cp -R "$signed/build/series" "$tap_dir/unsigned"
	"$signed/buildlib/assemble" --signoff
	same "$tip" "$(git -C "$signed/build/tree" rev-parse HEAD)"
	for patch in "$signed"/build/series/*.patch; do
		same "$(grep -c "^$signer\$" "$patch")" 1
		grep -v "^$signer\$" "$patch" >"$tap_dir/stripped"
		# git puts a blank line before the first trailer.
		diff -B "$tap_dir/unsigned/${patch##*/}" "$tap_dir/stripped"
	done
}

signed_applies()
{
	git -C "$tap_dir/am" checkout -q -b signed base
	git -C "$tap_dir/am" am -q "$signed"/build/series/*.patch
	same "$(tree_of "$signed/build/tree")" "$(tree_of "$tap_dir/am")"
	same "$(git -C "$tap_dir/am" log -1 --format='%(trailers)')" "$signer"
}

refreshes_unsigned()
{
	"$signed/buildlib/refresh" 2>&1 | grep 'refresh: nothing changed'
	nothing_changed "$signed"
	"$signed/buildlib/assemble"
	diff -r "$tap_dir/unsigned" "$signed/build/series"
}

signs_off_nobody()
{
	HOME=$tap_dir/nobody XDG_CONFIG_HOME=$tap_dir/nobody \
		"$signed/buildlib/assemble" --signoff
}

# The text of the repository, then git's lists, with no line too long for mail
covers()
{
	letter=$repo/build/series/cover-letter.txt
	count=$(git -C "$repo/build/tree" rev-list --count base..)
	grep -v '^#' "$repo/buildlib/series/56.1/cover" >"$tap_dir/cover"
	grep -qxF "Subject: [PATCH 00/$count] $(sed 1q "$tap_dir/cover")" "$letter"
	sed 1,2d "$tap_dir/cover" >"$tap_dir/text"
	sed '1,/^$/d' "$letter" | head -n "$(wc -l <"$tap_dir/text")" |
		diff - "$tap_dir/text"
	tr -s ' \n' ' ' <"$letter" >"$tap_dir/words"
	git -C "$repo/build/tree" log --format=%s base.. >"$tap_dir/subjects"
	while read -r subject; do
		grep -qF " $subject " "$tap_dir/words"
	done <"$tap_dir/subjects"
	git -C "$repo/build/tree" diff --shortstat base HEAD >"$tap_dir/stat"
	grep -qxFf "$tap_dir/stat" "$letter"
	lacks '.{77}' "$letter"
}

release=$tap_dir/release

# A repository with stand-ins for the scripts that make packages
make_releasable()
{
	copy_repository "$release"
	cd "$release"
	for kind in deb rpm; do
		cat >"buildlib/$kind" <<-END
			#!/bin/sh
			mkdir -p '$release/build/$kind'
			cd '$release/build/$kind'
			echo source >made.src.$kind
			echo binary >made.$kind
			echo "making them" >&2
			printf '%s\n' "\$PWD"/made.src.$kind "\$PWD"/made.$kind
		END
		chmod +x "buildlib/$kind"
	done
	git add -A
	git commit -q -m "stand-ins"
}

releases()
{
	make_releasable
	buildlib/release 1.2
	cd build/release/1.2
	ls >"$tap_dir/files"
	printf '%s\n' SHA256SUMS ibv_buf-1.2.tar.gz made.deb made.rpm \
		made.src.deb made.src.rpm | diff "$tap_dir/files" -
	sha256sum --strict -c SHA256SUMS
	same "$(wc -l <SHA256SUMS)" 5
	mkdir "$tap_dir/unpacked"
	tar -C "$tap_dir/unpacked" -xf ibv_buf-1.2.tar.gz
	cd "$tap_dir/unpacked"
	same "$(echo *)" ibv_buf-1.2
	cat ibv_buf-1.2/series
	while read -r patch; do
		cmp "ibv_buf-1.2/$patch" "$release/build/series/$patch"
	done <ibv_buf-1.2/series
	same "$(cd ibv_buf-1.2 && echo *.patch)" \
		"$(tr '\n' ' ' <ibv_buf-1.2/series | sed 's/ $//')"
	cmp ibv_buf-1.2/cover-letter.txt "$release/build/series/cover-letter.txt"
}

# At another time, under another umask
releases_the_same()
{
	cp -R "$release/build/release/1.2" "$tap_dir/first"
	rm -r "$release/build/series" "$release/build/release"
	(umask 077; TZ=Asia/Tokyo "$release/buildlib/release" 1.2)
	diff -r "$tap_dir/first" "$release/build/release/1.2"
}

# With the tag on the same content it is the same release.
releases_tagged()
{
	git -C "$release" tag v1.2
	"$release/buildlib/release" 1.2
	diff -r "$tap_dir/first" "$release/build/release/1.2"
}

refuses_tag()
{
	cd "$release"
	echo more >>README.md
	git commit -q -a -m more
	buildlib/release 1.2
}

refuses_dirt()
{
	cd "$release"
	echo dirt >dirt
	buildlib/release 1.3
}

refuses_missing()
{
	cd "$release"
	rm -f dirt
	echo 'echo /no/such/package' >>buildlib/rpm
	git commit -q -a -m missing
	buildlib/release 1.3
}

nothing_left()
{
	[ ! -e "$release/build/release/1.3" ]
	same "$(echo "$release"/build/release/*)" "$release/build/release/1.2"
}

ok "assemble --signoff signs each patch, and no commit" signs_off
ok "git am takes the signed patches" signed_applies
ok "refresh and assemble leave no signature behind" refreshes_unsigned
refuses "assemble --signoff wants a user" \
	"assemble: --signoff needs to know who signs: git config user.name" \
	signs_off_nobody
ok "the cover letter has the text of the repository and git's lists" covers
ok "release makes a tarball, packages and sums" releases
ok "release makes the same bytes again" releases_the_same
ok "release takes a tag that is there on the same content" releases_tagged
refuses "release stops at a tag that is there on other content" \
	"release: the tag v1.2 is there, on other content" refuses_tag
refuses "release stops at work that is not committed" \
	"release: there are changes that are not committed" refuses_dirt
refuses "release stops at a package that was not made" \
	"release: buildlib/rpm made no /no/such/package" refuses_missing
for version in '' v1.2 1..2 1.2/3 ../1 1.2-rc1 '1 2' 01x; do
	refuses "release refuses the version '$version'" \
		"release: '$version' is no version: give numbers and dots, as 1.2" \
		"$release/buildlib/release" "$version"
done
ok "a release that was refused leaves nothing" nothing_left
