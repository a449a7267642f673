# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
# shellcheck disable=SC2016,SC2154,SC2164 # sourced by run, under set -e
#
# Tests of assemble and refresh themselves, on a base of four files and a series
# of three entries: what they refuse and in which words, and that refresh takes
# any work back. Sourced by run.
#
# Every test works in $small/repo, which begin makes anew.

small=$tap_dir/small
entries=buildlib/series/56.1

# The base, as a directory and as a tarball that a stand-in for fetch hands out.
make_base()
{
	mkdir -p "$small/rdma-core/lib"
	cd "$small/rdma-core"
	cat >CMakeLists.txt <<-'END'
	project(rdma-core C)
	set(PACKAGE_VERSION "56.1")
	add_subdirectory(lib)
	END
	cat >lib/CMakeLists.txt <<-'END'
	add_library(list
	  list.c
	  sort.c
	)
	END
	cat >lib/list.c <<-'END'
	int first(void)
	{
	  return 0;
	}

	int second(void)
	{
	  return 0;
	}

	int third(void)
	{
	  return 3;
	}
	END
	printf 'no newline at the end' >lib/sort.c
	tar -C "$small" -czf "$small/base.tar.gz" rdma-core
}

make_series()
{
	mkdir -p "$small/clean/$entries" "$small/clean/lib"
	cd "$small/clean"
	cp "$top/buildlib/common.sh" "$top/buildlib/assemble" \
		"$top/buildlib/refresh" buildlib
	cp "$top/buildlib/series"/*.* buildlib/series 2>/dev/null || :
	{
		echo base_source=small base_suite=none base_date=1600000000
		echo base_sha256="$(sha256sum "$small/base.tar.gz" | cut -c 1-64)"
	} >"$entries/base"
	printf '%s\n' '# The letter.' 'lib: Things' '' 'All of them.' >"$entries/cover"
	printf '#!/bin/sh\necho "%s"\n' "$small/base.tar.gz" >buildlib/fetch
	chmod +x buildlib/fetch
	echo /build/ >.gitignore
	echo "of the repository" >README.md

	printf '%s\n' '# The order.' 01-thing.patch 02-use.patch 03-more.patch \
		>"$entries/series"
	cat >"$entries/01-thing.patch" <<-'END'
	Subject: lib: Add a thing

	It is needed.

	Twice.
	---
	Adds:
	lib/thing.c
	lib/tool.sh

	diff --git a/lib/CMakeLists.txt b/lib/CMakeLists.txt
	--- a/lib/CMakeLists.txt
	+++ b/lib/CMakeLists.txt
	@@ -3,2 +3,3 @@ add_library(list
	   sort.c
	+  thing.c
	 )
	END
	cat >"$entries/02-use.patch" <<-'END'
	Subject: lib: Use the thing

	Where it helps.
	---
	diff --git a/lib/list.c b/lib/list.c
	--- a/lib/list.c
	+++ b/lib/list.c
	@@ -7,3 +7,3 @@ int second(void)
	 {
	-  return 0;
	+  return thing();
	 }
	diff --git a/lib/thing.c b/lib/thing.c
	--- a/lib/thing.c
	+++ b/lib/thing.c
	@@ -3,3 +3,3 @@ int thing(void)
	 {
	-  return 1;
	+  return 2;
	 }
	END
	cat >"$entries/03-more.patch" <<-'END'
	Subject: lib: Add more

	---
	Adds:
	lib/more.c
	END
	cat >lib/thing.c <<-'END'
	/* a thing */
	int thing(void)
	{
	  return 1;
	}

	/* the end */
	END
	echo 'int more;' >lib/more.c
	printf '#!/bin/sh\n' >lib/tool.sh
	chmod +x lib/tool.sh
	git init -q
	git add -A
	git commit -q -m series
	buildlib/assemble
	same "$(git -C build/tree log --format=%s%b | tr '\n' '|')" \
		"lib: Add more|lib: Use the thingWhere it helps.||$(
		)lib: Add a thingIt is needed.||Twice.||rdma-core 56.1|"
}

begin()
{
	rm -rf "$small/repo"
	cp -a "$small/clean" "$small/repo"
	cd "$small/repo"
	tree=build/tree
}

# Runs a test that follows another in the same repository.
in_repo()
{
	cd "$small/repo"
	tree=build/tree
	"$@"
}

# The same tree for each commit, from the entries alone: what refresh promises.
gives_back()
{
	git -C "$tree" diff --exit-code HEAD
	git -C "$tree" log --format='%T %s %b' >"$small/trees"
	cat build/series/*.patch >"$small/patches"
	buildlib/assemble 2>&1 | grep 'nothing changed'
	rm -rf build/tree build/series
	buildlib/assemble
	git -C "$tree" log --format='%T %s %b' | diff "$small/trees" -
	cat build/series/*.patch | cmp - "$small/patches"
	same "$(echo build/.[!.]*)" 'build/.[!.]*'
}

# Are exactly the files $@ of the repository changed?
changed()
{
	git add -A
	same "$(git diff --cached --name-status --no-renames)" \
		"$(printf '%s\t%s\n' "$@" | sed '/^.$/d')"
}

# Runs assemble on entries spoilt by $@; build/tree must stay as it is.
assemble_spoilt()
{
	begin
	before=$(git -C "$tree" rev-parse HEAD)
	"$@"
	status=0
	buildlib/assemble || status=$?
	[ "$(git -C "$tree" rev-parse HEAD)" = "$before" ]
	git -C "$tree" status --porcelain >"$small/status"
	[ ! -s "$small/status" ]
	[ "$(echo build/.[!.]*)" = 'build/.[!.]*' ]
	return "$status"
}

# spoilt NAME TEXT CMD...: assemble says TEXT after CMD.
spoilt()
{
	spoilt_name=$1
	spoilt_text=$2
	shift 2
	refuses "assemble refuses $spoilt_name" "$spoilt_text" \
		assemble_spoilt "$@"
}

edit()
{
	sed -i "$2" "$1"
}

copy_entry()
{
	cp "$entries/$1" "$entries/$2"
	echo "$2" >>"$entries/series"
}

# Replaces the hooks of the second entry by standard input.
hooks()
{
	edit "$entries/02-use.patch" '/^diff/,$d'
	cat >>"$entries/02-use.patch"
}

hook_list()
{
	{
		printf '%s\n' 'diff --git a/lib/list.c b/lib/list.c' \
			'--- a/lib/list.c' '+++ b/lib/list.c' "$@"
	} | hooks
}

ok "a small series assembles" make_base
ok "from its tarball, with messages and all" make_series

spoilt "an overlay file that is missing" \
	"01-thing.patch adds lib/thing.c, and there is no such file in the" \
	rm lib/thing.c
spoilt "a file that two entries add" \
	"04-thing.patch adds lib/thing.c, which 01-thing.patch adds already" \
	copy_entry 01-thing.patch 04-thing.patch
spoilt "a file of the base among those added" \
	"01-thing.patch adds lib/list.c, which the base has" \
	eval 'cp "$small/rdma-core/lib/list.c" lib;
	edit "$entries/01-thing.patch" "s,^lib/thing.c,lib/list.c,"'
spoilt "an entry that is not in the list" \
	"56.1/04-thing.patch is not named in buildlib/series/56.1/series" \
	cp "$entries/01-thing.patch" "$entries/04-thing.patch"
spoilt "a name in the list without an entry" \
	"series/56.1/series names 02-use.patch, and there is no such file" \
	rm "$entries/02-use.patch"
spoilt "a name that stands in the list twice" \
	"series/56.1/series names 01-thing.patch twice" \
	eval 'echo 01-thing.patch >>"$entries/series"'
spoilt "a path out of the tree" \
	'01-thing.patch: line 8: "../thing.c" is no path below the root' \
	edit "$entries/01-thing.patch" 's,^lib/thing.c,../thing.c,'
spoilt "an entry without a subject" \
	'02-use.patch: line 1: an entry begins with "Subject: "' \
	edit "$entries/02-use.patch" 1d
spoilt "a message without an end" \
	'02-use.patch: line 4: git am would take this line for the end' \
	edit "$entries/02-use.patch" '/^---$/d'
spoilt "an entry that does nothing" \
	"03-more.patch: line 3: the entry neither adds a file nor has a hook" \
	edit "$entries/03-more.patch" '/^Adds/,$d'

spoilt "a hook whose file is missing" \
	"02-use.patch: the file lib/gone.c of its hook does not exist" \
	edit "$entries/02-use.patch" 's,lib/list.c,lib/gone.c,g'
spoilt "a hook whose text is not there, and shows the difference" \
	"assemble: $entries/02-use.patch: hunk 2 of lib/list.c does not apply: \
line 13 of the file is not what it expects
  expected:   return 4;
  found:      return 3;
  @@ -12,3 +12,3 @@ int third(void)
   {
  -  return 4;
  +  return 5;" \
	hook_list '@@ -1,2 +1,2 @@' '-int first(void)' '+int nr1(void)' ' {' \
	'@@ -12,3 +12,3 @@ int third(void)' ' {' '-  return 4;' '+  return 5;' ' }'
spoilt "a hook of which the file has no line" \
	"hunk 1 of lib/list.c does not apply: the file has none of the lines" \
	hook_list '@@ -8 +8 @@' '-nothing' '+something'
spoilt "a hook whose text is found at several places" \
	"hunk 1 of lib/list.c does not apply: its text is found at several places, \
lines 2, 7, and none is the line that it names" \
	hook_list '@@ -6,3 +6,3 @@' ' {' '-  return 0;' '+  return 1;' ' }'
spoilt "several places where another hunk has moved" \
	"hunk 2 of lib/list.c does not apply: it has moved to line 12, and an \
earlier hunk is in doubt: its text is found at several places, lines 2, 7" \
	hook_list '@@ -2,3 +2,3 @@' ' {' '-  return 0;' '+  return 1;' ' }' \
	'@@ -11,3 +11,3 @@' ' {' '-  return 3;' '+  return 4;' ' }'
spoilt "a hunk at the beginning that has moved away from it" \
	"hunk 1 of lib/thing.c does not apply: its text is at line 7, where it cannot \
be meant" \
	eval 'printf "%s\n" "diff --git a/lib/thing.c b/lib/thing.c" \
	"--- a/lib/thing.c" "+++ b/lib/thing.c" "@@ -1 +1,2 @@" "+x" \
	" /* the end */" | hooks'
spoilt "a hunk whose header miscounts" \
	"its header says 3 old and 3 new lines, but it has 2 and 2" \
	hook_list '@@ -12,3 +12,3 @@' ' {' '-  return 3;' '+  return 4;'
spoilt "two hooks of one file in an entry" \
	"02-use.patch: it has two hooks of lib/list.c: make them one" \
	edit "$entries/02-use.patch" 's,lib/thing.c,lib/list.c,g'
spoilt "a hook that makes a new file" \
	"lib/list.c is a new file: it must be an overlay file, listed under Adds" \
	edit "$entries/02-use.patch" '/^--- a.lib.list/s/^/new file mode 100644\n/'
spoilt "a hook that deletes a file" \
	"the hook of lib/list.c deletes, renames or copies it" \
	edit "$entries/02-use.patch" \
	'/^--- a.lib.list/s/^/deleted file mode 100644\n/'
spoilt "a hook that renames a file" \
	"renames or copies: a hook changes one file" \
	edit "$entries/02-use.patch" 's,b/lib/list.c$,b/lib/lost.c,'
spoilt "a date that is none" "SOURCE_DATE_EPOCH=today is not a number" \
	eval 'SOURCE_DATE_EPOCH=today'
spoilt "a tarball with another sum" "base.tar.gz has SHA256 " \
	edit "$entries/base" 's/sha256=.*/sha256=0123/'

version_is()
{
	cp -R "$small/rdma-core" "$small/other"
	edit "$small/other/CMakeLists.txt" "s/56.1/$1/"
	export RDMA_CORE_SOURCE="$small/other"
}

elsewhere()
{
	rm -rf "$small/other"
	mkdir "$small/other"
	export RDMA_CORE_SOURCE="$small/other"
}

git_version_is()
{
	rm -rf "$small/other"
	version_is "$1"
	git init -q "$small/other"
	git -C "$small/other" add -A
	git -C "$small/other" commit -q -m other
	cp "$small/rdma-core/CMakeLists.txt" "$small/other"
}

spoilt "a base of another version" \
	"small/other is rdma-core 57.0, and the series is for 56.1: give a tree of" \
	version_is 57.0
spoilt "a git checkout of another version, whatever its files say" \
	"small/other is rdma-core 65.0, and the series is for 56.1: give a tree of" \
	git_version_is 65.0
spoilt "a directory that is not rdma-core" \
	"small/other is no rdma-core source tree" elsewhere
spoilt "a base that is no directory" \
	"RDMA_CORE_SOURCE=/dev/null is no directory" \
	export RDMA_CORE_SOURCE=/dev/null

# A hunk with one place only is put there, wherever it says that it belongs;
# with several it must be exact.
found_by_text()
{
	begin
	hook_list '@@ -9,3 +9,3 @@' ' {' '-  return 3;' '+  return 4;' ' }'
	buildlib/assemble
	grep 'return 4' "$tree/lib/list.c"
	hook_list '@@ -7,3 +7,3 @@' ' {' '-  return 0;' '+  return 4;' ' }'
	buildlib/assemble
	same "$(sed -n 8p "$tree/lib/list.c")" '  return 4;'
	same "$(git -C "$tree" diff --numstat base -- lib/list.c | cut -f 1,2)" \
		"$(printf '1\t1')"
}

modes_kept()
{
	begin
	git -C "$tree" ls-tree -r HEAD lib/ | cut -d ' ' -f 1 | tr '\n' ' '
	[ -x "$tree/lib/tool.sh" ]
	[ ! -x "$tree/lib/thing.c" ]
	chmod -x lib/tool.sh
	buildlib/assemble
	[ ! -x "$tree/lib/tool.sh" ]
}

stale_removed()
{
	begin
	same "$(echo build/series/*.patch)" "build/series/0001-lib-Add-a-thing.patch \
build/series/0002-lib-Use-the-thing.patch build/series/0003-lib-Add-more.patch"
	rm "$entries/03-more.patch"
	edit "$entries/series" '/^03/d'
	buildlib/assemble
	same "$(echo build/series/*.patch)" "build/series/0001-lib-Add-a-thing.patch \
build/series/0002-lib-Use-the-thing.patch"
	[ ! -e "$tree/lib/more.c" ]
}

two_at_once()
{
	begin
	rm -rf build/tree build/series
	buildlib/assemble &
	first=$!
	buildlib/assemble
	wait "$first"
	gives_back
}

nothing_left()
{
	begin
	rm -rf build "$entries/02-use.patch"
	! buildlib/assemble || return
	same "$(find build)" "build
build/tree.lock"
}

killed()
{
	begin
	rm -rf build
	printf '#!/bin/sh\nkill -TERM $PPID\nsleep 1\n' >buildlib/fetch
	status=0
	sh buildlib/assemble || status=$?
	same "$status" 143
	same "$(find build)" "build
build/tree.lock"
}

ok "a hunk goes where its text is, if there is one such place" found_by_text
ok "modes of overlay files are kept" modes_kept
ok "patches of entries that are gone are removed" stale_removed
ok "two at once do not hurt each other" two_at_once
ok "a first run that fails leaves nothing" nothing_left
ok "nor does one that is killed" killed

# Work in build/tree: assemble leaves it alone and names refresh.
with_edit()
{
	begin
	echo '// mine' >>"$tree/lib/more.c"
	buildlib/assemble
}

with_new_file()
{
	begin
	echo mine >"$tree/lib/mine.c"
	buildlib/assemble
}

with_commit()
{
	with_new_file && return 1
	git -C "$tree" add -A
	git -C "$tree" commit -q -m "lib: Add mine"
	buildlib/assemble
}

with_branch()
{
	begin
	git -C "$tree" checkout -q -b mine HEAD~
	buildlib/assemble
}

with_other_repository()
{
	begin
	rm -rf "$tree"
	mkdir "$tree"
	echo mine >"$tree/mine"
	buildlib/assemble
}

with_empty_directory()
{
	begin
	rm -rf "$tree"
	mkdir "$tree"
	buildlib/assemble
	[ -e "$tree/.git" ]
}

forced()
{
	git -C "$tree" checkout -q -f ibv_buf
	echo '// mine' >>"$tree/lib/more.c"
	git -C "$tree" commit -q -a -m "lib: Change more"
	echo '// mine' >>"$tree/lib/thing.c"
	echo mine >"$tree/lib/mine.c"
	git -C "$tree" checkout -q HEAD~0
	buildlib/assemble --force
	same "$(git -C "$tree" symbolic-ref HEAD)" refs/heads/ibv_buf
	same "$(git -C "$tree" status --porcelain)" ""
	[ ! -e "$tree/lib/mine.c" ]
	gives_back
}

refuses "assemble stops at a change in build/tree" \
	"tree has changes that are not in the entries: take it into the entries \
with buildlib/refresh or throw it away" with_edit
ok "and leaves it" grep '// mine' "$small/repo/build/tree/lib/more.c"
refuses "assemble stops at a new file in build/tree" \
	"tree has changes that are not in the entries" with_new_file
ok "and leaves it" grep mine "$small/repo/build/tree/lib/mine.c"
refuses "assemble stops at a commit in build/tree" \
	"tree has commits that are not in the entries" with_commit
ok "and leaves it" grep mine "$small/repo/build/tree/lib/mine.c"
refuses "assemble stops at another branch in build/tree" \
	"tree is not on its branch ibv_buf, there may be work of yours" with_branch
ok "assemble --force throws all of it away" in_repo forced
refuses "assemble stops where build/tree is something else" \
	"tree is no git tree that assemble made: move it away" with_other_repository
ok "and leaves it" grep mine "$small/repo/build/tree/mine"
ok "an empty build/tree, as CMake makes it, is none" with_empty_directory
