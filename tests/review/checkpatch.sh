# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# The kernel's checkpatch on each patch, signed off, with the options of the
# base's azp-checkpatch. That one fetches the script from the kernel's site; here
# it comes out of a kernel's source package. Sourced by run.

checkpatch=$build/review/checkpatch

# Takes the script and what it reads out of the newest source package.
fetch_checkpatch()
{
	[ ! -e "$checkpatch/checkpatch.pl" ] || return 0
	deb=$("$top/buildlib/fetch" deb trixie 'linux-source-[0-9]*')
	mkdir -p "$build/review"
	dpkg-deb --fsys-tarfile "$deb" |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		xz -dc | tar -C "$tap_dir" -x --strip-components=1 --wildcards \
			'*/scripts/checkpatch.pl' '*/scripts/spelling.txt'
	rm -rf "$checkpatch"
	mv "$tap_dir/scripts" "$checkpatch"
}

# What the base calls it with
options()
{
	sed -n '/"perl", ckp/,/\]/p' "$tree/buildlib/azp-checkpatch" |
		grep -o '"[^"]*"' | tr -d '"' | sed 1d
}

# What it says of patch $1, as "TYPE FILE LEVEL: text"; FILE is - for the text
findings()
{
	# shellcheck disable=SC2046 # a list of words
	(cd "$checkpatch" && GIT_DIR=$tree/.git perl checkpatch.pl \
		$(options) "$1") >"$tap_dir/said" || :
	awk '
	function flush() {
		if (type)
			print type, file, text
		type = ""
	}
	match($0, /: (ERROR|WARNING|CHECK):[A-Z_]+: /) {
		flush()
		split(substr($0, RSTART + 2, RLENGTH - 4), part, ":")
		type = part[2]
		file = "-"
		text = part[1] ": " substr($0, RSTART + RLENGTH)
		next
	}
	/^#[0-9]+: FILE: / { file = $3; sub(/:[0-9]*:$/, "", file) }
	END { flush() }' "$tap_dir/said"
}

# Runs it on all patches, as they would be sent.
check_patches()
{
	cp "$tree/buildlib/const_structs.checkpatch" "$checkpatch"
	options | grep -qx -e --no-tree
	mkdir "$tap_dir/patches"
	# Who signs off is the author.
	GIT_COMMITTER_NAME=$(git -C "$tree" log -1 --format=%an) \
		GIT_COMMITTER_EMAIL=$(git -C "$tree" log -1 --format=%ae) \
		git -C "$tree" format-patch -q --signoff --no-signature \
		-o "$tap_dir/patches" base..ibv_buf
	for patch in "$tap_dir/patches"/*.patch; do
		findings "$patch"
	done >"$tap_dir/checkpatch"
}

no_errors()
{
	! grep ' ERROR: ' "$tap_dir/checkpatch"
}

# It finds what is wrong with a patch that has two faults.
finds_faults()
{
	cat >"$tap_dir/faulty.patch" <<-'END'
		From: Tester <tester@localhost>
		Subject: [PATCH] verbs: Add a thing

		It is needed needed.
		---
		diff --git a/thing.c b/thing.c
		--- a/thing.c
		+++ b/thing.c
		@@ -1,2 +1,3 @@
		 int thing;
		+        int other;
		 int last;
	END
	findings "$tap_dir/faulty.patch" >"$tap_dir/faults"
	cat "$tap_dir/faults"
	grep -q '^CODE_INDENT thing.c ERROR: ' "$tap_dir/faults"
	grep -q '^MISSING_SIGN_OFF - ERROR: ' "$tap_dir/faults"
	grep -q '^REPEATED_WORD - WARNING: ' "$tap_dir/faults"
}

ok "checkpatch can be had" fetch_checkpatch
ok "checkpatch reads each patch" check_patches
ok "checkpatch finds faults" finds_faults
ok "checkpatch has no errors" no_errors
ok "checkpatch has no warnings but those that are known" \
	known "$here/checkpatch.known" "$tap_dir/checkpatch"
