# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC2164 # sourced by run, under set -e
#
# Tests of refresh on the small series of tools.sh: every kind of work in
# build/tree comes back into entries and overlay files, and only that. Sourced
# by run.

commit()
{
	git -C "$tree" add -A
	git -C "$tree" commit -q "$@"
}

# Rewrites the commits of build/tree by $1, a sed script for git's list of them.
rebase()
{
	GIT_SEQUENCE_EDITOR="sed -i -e '$1'" git -C "$tree" rebase -q -i base
}

refresh_nothing()
{
	begin
	buildlib/refresh 2>&1 | grep 'refresh: nothing changed'
	changed
	gives_back
}

refresh_overlay()
{
	begin
	echo 'int even_more;' >>"$tree/lib/more.c"
	stat -c '%i %y' "$tree"/lib/* >"$small/before"
	buildlib/refresh
	stat -c '%i %y' "$tree"/lib/* | diff "$small/before" -
	changed M lib/more.c
	same "$(tail -n 1 lib/more.c)" 'int even_more;'
	gives_back
}

refresh_hook()
{
	begin
	edit "$tree/lib/list.c" 's/return 3/return 4/'
	git -C "$tree" add -A
	buildlib/refresh
	changed M "$entries/02-use.patch"
	grep -A 3 '^@@ -12,3 +12,3 @@' "$entries/02-use.patch"
	gives_back
}

refresh_mode()
{
	begin
	chmod -x "$tree/lib/tool.sh"
	chmod +x "$tree/lib/list.c"
	buildlib/refresh
	changed M "$entries/02-use.patch" M lib/tool.sh
	[ ! -x lib/tool.sh ]
	grep '^new mode 100755' "$entries/02-use.patch"
	gives_back
}

refresh_removed()
{
	begin
	mkdir "$tree/lib/sub"
	echo 'int sub;' >"$tree/lib/sub/sub.c"
	buildlib/refresh 03-more
	changed M "$entries/03-more.patch" A lib/sub/sub.c
	git commit -q -m sub
	rm "$tree/lib/sub/sub.c"
	buildlib/refresh
	changed M "$entries/03-more.patch" D lib/sub/sub.c
	[ ! -e lib/sub ]
	gives_back
}

refresh_ambiguous()
{
	begin
	edit "$tree/lib/thing.c" 's/a thing/the thing/'
	buildlib/refresh
}

# The change goes in where the entry left the file, and what the later entry
# does to it stays a hook.
refresh_into()
{
	buildlib/refresh "$entries/01-thing.patch"
	changed M lib/thing.c
	same "$(sed -n 1p lib/thing.c)" '/* the thing */'
	same "$(sed -n 4p lib/thing.c)" '  return 1;'
	same "$(sed -n 4p "$tree/lib/thing.c")" '  return 2;'
	gives_back
}

refresh_conflict()
{
	begin
	edit "$tree/lib/thing.c" 's/return 2/return 22/'
	buildlib/refresh 01-thing
}

refresh_later()
{
	buildlib/refresh 02-use
	changed M "$entries/02-use.patch"
	gives_back
}

refresh_new_file()
{
	begin
	echo 'int mine;' >"$tree/lib/mine.c"
	buildlib/refresh
}

refresh_new_file_into()
{
	buildlib/refresh 02-use.patch
	changed M "$entries/02-use.patch" A lib/mine.c
	grep -A 2 '^Adds:' "$entries/02-use.patch"
	gives_back
}

refresh_new_commit()
{
	begin
	echo 'int mine;' >"$tree/lib/mine.c"
	edit "$tree/lib/list.c" 's/first/nr1/'
	commit -m "lib/list: Add \"mine\", at last" -m "So it is." -m "Yes."
	buildlib/refresh
	changed A "$entries/04-lib-list-add-mine-at-last.patch" \
		M "$entries/series" A lib/mine.c
	same "$(sed -n '2,$p' "$entries/series" | tr '\n' ' ')" \
	"01-thing.patch 02-use.patch 03-more.patch 04-lib-list-add-mine-at-last.patch "
	same "$(head -n 8 "$entries/04-lib-list-add-mine-at-last.patch")" \
'Subject: lib/list: Add "mine", at last

So it is.

Yes.
---
Adds:
lib/mine.c'
	gives_back
}

# The new commit moves between 01 and 02: there is no number between them.
refresh_reordered()
{
	git add -A
	git commit -q -m new
	rebase '/mine/d;1s/$/\npick ibv_buf/'
	buildlib/refresh
	same "$(sed -n '2,$p' "$entries/series" | tr '\n' ' ')" \
	"01-thing.patch 02-lib-list-add-mine-at-last.patch 03-use.patch 04-more.patch "
	gives_back
}

refresh_dropped()
{
	begin
	rebase '/more/d'
	buildlib/refresh
	changed D "$entries/03-more.patch" M "$entries/series" D lib/more.c
	gives_back
}

# Names follow their commits, by subject or by change, and keep their numbers
# where these still increase.
refresh_reworded()
{
	begin
	git -C "$tree" commit -q --amend -m "lib: Add even more" -m "As is told."
	buildlib/refresh
	changed M "$entries/03-more.patch"
	same "$(head -n 4 "$entries/03-more.patch")" 'Subject: lib: Add even more

As is told.
---'
	gives_back
}

refresh_order()
{
	begin
	rebase '2{h;d};3G'
	buildlib/refresh
	same "$(sed -n '2,$p' "$entries/series" | tr '\n' ' ')" \
		"01-thing.patch 02-more.patch 03-use.patch "
	gives_back
}

refresh_fixup()
{
	begin
	echo 'int fixed;' >>"$tree/lib/more.c"
	commit --fixup HEAD
	buildlib/refresh
}

refresh_autosquashed()
{
	GIT_SEQUENCE_EDITOR=: git -C "$tree" rebase -q -i --autosquash base
	buildlib/refresh
	changed M lib/more.c
	gives_back
}

refresh_deleted()
{
	begin
	git -C "$tree" rm -q lib/sort.c
	commit -m "lib: Remove sort"
	buildlib/refresh
}

refresh_changed_repository()
{
	begin
	echo 'int by_hand;' >>lib/more.c
	echo 'int in_tree;' >>"$tree/lib/thing.c"
	buildlib/refresh 02-use
}

refresh_own_file()
{
	begin
	echo mine >"$tree/README.md"
	buildlib/refresh 03-more
}

refresh_merge()
{
	begin
	git -C "$tree" checkout -q -b side HEAD~
	echo 'int side;' >"$tree/lib/side.c"
	commit -m "lib: Add side"
	git -C "$tree" checkout -q ibv_buf
	git -C "$tree" merge -q -m merge side
	buildlib/refresh
}

refresh_rebasing()
{
	begin
	rebase '1s/pick/edit/'
	buildlib/refresh
}

# What the last test, which was refused, must not have lost.
unchanged()
{
	changed
	"$@"
	same "$(echo build/.[!.]*)" 'build/.[!.]*'
}

ok "refresh without work changes nothing" refresh_nothing
ok "a change of an overlay file goes into it" refresh_overlay
ok "a change of a base file goes into the hook" refresh_hook
ok "modes follow" refresh_mode
ok "a file can come, with its directory, and go" refresh_removed
refuses "a change of a file that two entries touch needs ENTRY" \
	"lib/thing.c in $small/repo/build/tree is changed, and several entries touch it
buildlib/refresh ENTRY" refresh_ambiguous
ok "with it, the later entry's hook stays a hook" in_repo refresh_into
refuses "a change that does not fit the entry is refused" \
	"the change of lib/thing.c in $small/repo/build/tree does not fit the entry" \
	refresh_conflict
ok "and is kept, and fits another" in_repo refresh_later
refuses "a new file needs ENTRY" \
	"lib/mine.c in $small/repo/build/tree is changed, and no entry touches it
buildlib/refresh ENTRY" refresh_new_file
refuses "an ENTRY that there is not" "refresh: there is no entry 09-gone" \
	in_repo buildlib/refresh 09-gone
ok "with it, the file becomes an overlay file" in_repo refresh_new_file_into
ok "a new commit becomes an entry" refresh_new_commit
ok "moved between others, it makes all numbers new" in_repo refresh_reordered
ok "a commit that is dropped takes its files along" refresh_dropped
ok "a new message is taken, and the name kept" refresh_reworded
ok "a new order is taken" refresh_order
refuses "a fixup is not taken for a commit" \
	'is for another one: run git rebase -i --autosquash base there first' \
	refresh_fixup
ok "but squashed it is" in_repo refresh_autosquashed
refuses "deleting a base file is refused" \
	'the commit "lib: Remove sort" in
deletes lib/sort.c, which an entry cannot' refresh_deleted
refuses "a repository that changed since assemble is refused" \
	"entries or overlay files changed in the repository since" \
	refresh_changed_repository
ok "and both sides are kept" in_repo eval \
	'grep by_hand lib/more.c; grep in_tree "$tree/lib/thing.c"'
refuses "a file that the repository has of its own is refused" \
	"the series adds README.md, but the repository has a file of that name" \
	refresh_own_file
ok "and both are kept" in_repo unchanged eval \
	'grep repository README.md; grep mine "$tree/README.md"'
refuses "merges are refused" "are no plain list above the tag base" \
	refresh_merge
refuses "the middle of a rebase is refused" \
	"is not on the branch ibv_buf that assemble made: end a rebase there" \
	refresh_rebasing
