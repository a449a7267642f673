# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC1091,SC2154 # sourced after common.sh
#
# What assemble and refresh share: git that obeys nobody's settings, the entries
# turned into commits, and the move of build/tree to them. Sourced after
# common.sh; takes the lock on build/tree and holds it to the end of the script.
# The format of an entry is told in assemble.
#
#   $version  the base's version
#   $series   directory of the entries, relative to the root of the repository
#   $tree     the git tree that is made: branch ibv_buf; tag base, its first
#             commit; tag assembled, the last commit that stands in the entries
#   $tmp      directory for this run alone, removed at its end

version=56.1
series=buildlib/series/$version
tree=$build/tree

for command in git awk flock; do
	command -v $command >/dev/null ||
		die "$command is missing: apt-get install git mawk util-linux"
done

# Git may have been told of other repositories, as in a hook of one.
# shellcheck disable=SC2046 # a list of names
unset $(git rev-parse --local-env-vars) GIT_DIFF_OPTS GIT_EXTERNAL_DIFF

# Whose commits they are, and of when: the same inputs make the same commits.
name=$(git -C "$top" config user.name) || name=
email=$(git -C "$top" config user.email) || email=
# shellcheck source=SCRIPTDIR/series/56.1/base
. "$top/$series/base"
date=${SOURCE_DATE_EPOCH:-$(
	git --git-dir="$top/.git" log -1 --format=%ct 2>/dev/null)} || date=
date=${date:-$base_date}
case $date in
*[!0-9]*) die "SOURCE_DATE_EPOCH=$date is not a number of seconds" ;;
esac

# From here on: no settings, no attributes, no language but our own.
export LC_ALL=C GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 \
	GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0

mkdir -p "$build"
exec 9>>"$build/tree.lock"
flock -n 9 || {
	say "waiting for another assemble or refresh to end"
	flock 9
}

rm -rf "$build"/.series.*	# of one that was killed
tmp=$(mktemp -d "$build/.series.XXXXXX")
# Git works on $GIT_DIR with an index of this run's; see work_git for another.
export tmp GIT_DIR="$tree/.git" GIT_INDEX_FILE="$tmp/index"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Git with the files and the index that belong to $GIT_DIR.
work_git()
{
	GIT_INDEX_FILE=$GIT_DIR/index git --work-tree="$GIT_DIR/.." "$@"
}

# commit_tree TREE NAME EMAIL DATE [-p PARENT] -F FILE: prints the commit.
commit_tree()
{
	commit_tree=$1
	export GIT_AUTHOR_NAME="$2" GIT_COMMITTER_NAME="$2" \
		GIT_AUTHOR_EMAIL="$3" GIT_COMMITTER_EMAIL="$3" \
		GIT_AUTHOR_DATE="@$4 +0000" GIT_COMMITTER_DATE="@$4 +0000"
	shift 4
	git commit-tree "$commit_tree" "$@"
}

# Prints the entries below root $1, in order.
entries()
{
	entries_dir=$1/$series
	sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e '/^$/d' \
		"$entries_dir/series" >"$tmp/entries"
	while read -r entry; do
		case $entry in
		*[!A-Za-z0-9._+-]*) false ;;
		[0-9][0-9]-?*.patch) ;;
		*) false ;;
		esac || die "$series/series: '$entry' is no name for an entry:" \
			"it must be like 07-topic.patch"
		[ -f "$entries_dir/$entry" ] ||
			die "$series/series names $entry, and there is no such file"
	done <"$tmp/entries"
	twice=$(sort "$tmp/entries" | uniq -d | head -n 1)
	[ -z "$twice" ] || die "$series/series names $twice twice"
	for entry in "$entries_dir"/*.patch; do
		[ -e "$entry" ] || continue
		entry=${entry##*/}
		grep -qxF "$entry" "$tmp/entries" ||
			die "$series/$entry is not named in $series/series:" \
			    "add it there or remove it"
	done
	cat "$tmp/entries"
}

# Splits entry file $1 into $tmp/message, $tmp/adds and $tmp/hooks; what is
# wrong with it is printed.
split_entry()
{
	awk '
	function bad(why) { print "line " NR ": " why; failed = 1; exit 1 }
	BEGIN {
		message = ENVIRON["tmp"] "/message"
		adds = ENVIRON["tmp"] "/adds"
		hooks = ENVIRON["tmp"] "/hooks"
		printf "" >message
		printf "" >adds
		printf "" >hooks
		part = "message"
	}
	part == "hooks" { print >hooks; next }
	NR == 1 {
		if (!/^Subject: [^ ]/)
			bad("an entry begins with \"Subject: \"")
		print substr($0, 10) >message
		next
	}
	NR == 2 && $0 != "" { bad("a blank line must follow the subject") }
	part == "message" && $0 == "---" { part = "list"; next }
	part == "message" && /^(diff -|Index: |---)/ {
		bad("git am would take this line for the end of the message")
	}
	part == "message" && $0 == "" { blank = blank "\n"; next }
	part == "message" { print blank $0 >message; blank = ""; next }
	/^diff --git / { print >hooks; part = "hooks"; next }
	$0 == "" { part = "list"; next }
	part == "list" && $0 == "Adds:" { part = "adds"; next }
	part != "adds" { bad("neither \"Adds:\" nor a diff begins here") }
	/[^A-Za-z0-9._+\/-]/ || /^\// || /^-|(^|\/)\.\.?(\/|$)/ {
		bad("\"" $0 "\" is no path below the root of the repository")
	}
	{ print >adds; count++ }
	END {
		if (failed)
			exit 1
		if (part == "message")
			bad("no line \"---\" ends the message")
		if (part != "hooks" && !count)
			bad("the entry neither adds a file nor has a hook")
	}' "$1"
}

# Puts the overlay files in $tmp/adds from root $1 into the index, for $entry.
add_files()
{
	: >"$tmp/modes"
	while read -r path; do
		other=$(awk -v path="$path" '$1 == path { print $2 }' "$tmp/added")
		[ -z "$other" ] ||
			die "$series/$entry adds $path, which $other adds already"
		if [ ! -f "$1/$path" ] || [ -L "$1/$path" ]; then
			die "$series/$entry adds $path, and there is no such file" \
			    "in the repository"
		fi
		if [ -x "$1/$path" ]; then
			echo 100755
		else
			echo 100644
		fi >>"$tmp/modes"
		echo "$path $entry" >>"$tmp/added"
	done <"$tmp/adds"
	[ -s "$tmp/adds" ] || return 0

	taken=$(xargs git ls-files -- <"$tmp/adds")
	[ -z "$taken" ] ||
		die "$series/$entry adds $taken, which the base has:" \
		    "a change of it must be a hook"
	(cd "$1" && git hash-object -w --no-filters --stdin-paths) \
		<"$tmp/adds" >"$tmp/blobs"
	paste -d ' ' "$tmp/modes" "$tmp/blobs" | paste - "$tmp/adds" |
		git update-index --add --index-info
}

# Applies the hooks in $tmp/hooks to the index, for $entry. hooks.awk finds the
# one place of each hunk or says why there is none; git applies it just there.
apply_hooks()
{
	[ -s "$tmp/hooks" ] || return 0
	awk -f "$top/buildlib/series/hooks.awk" "$tmp/hooks" >"$tmp/placed" ||
		die "$series/$entry: $(cat "$tmp/why")"
	git apply --cached --whitespace=nowarn "$tmp/placed" ||
		die "$series/$entry: git cannot read its hooks (see above)"
}

# Writes a commit for each entry below root $1, on top of commit $2, and prints
# the last one. Only objects are written: nothing else changes.
write_commits()
{
	root=$1
	commit=$2
	: >"$tmp/added"
	list=$(entries "$root")
	git read-tree "$commit"
	for entry in $list; do
		why=$(split_entry "$root/$series/$entry") ||
			die "$series/$entry: $why"
		add_files "$root"
		apply_hooks
		result=$(git write-tree)
		commit=$(commit_tree "$result" "${name:-ibv_buf}" \
			"${email:-ibv_buf@localhost}" "$date" \
			-p "$commit" -F "$tmp/message")
	done
	echo "$commit"
}

# Takes base $1 and tip $2 as what is assembled.
set_refs()
{
	printf 'update %s %s\n' refs/tags/base "$1" \
		refs/tags/assembled "$2" refs/heads/ibv_buf "$2" |
		git update-ref -m "${0##*/}" --stdin
}

# Writes the patches of the branch from base $1 on to build/series, and their
# cover letter, which git am cannot take and which has another name hence; what
# is there already stays untouched. More arguments are options for git. The
# letter is that of the file "cover" beside the entries, with git's lists of the
# commits and of the files.
export_patches()
{
	mkdir -p "$build/series" "$tmp/patches"
	letter=$(grep -v '^#' "$top/$series/cover")
	(
		first=$1
		shift
		export GIT_COMMITTER_NAME="${name:-ibv_buf}" \
			GIT_COMMITTER_EMAIL="${email:-ibv_buf@localhost}" \
			GIT_COMMITTER_DATE="@$date +0000"
		git -c core.abbrev=12 -c "branch.ibv_buf.description=$letter" \
			format-patch -q --numbered --no-signature --zero-commit \
			--no-renames --cover-letter \
			--cover-from-description=subject \
			-o "$tmp/patches" "$@" "$first..ibv_buf"
	)
	mv "$tmp/patches/0000-cover-letter.patch" "$tmp/patches/cover-letter.txt"
	for patch in "$build/series"/*.patch; do
		[ -e "$tmp/patches/${patch##*/}" ] || rm -f "$patch"
	done
	for patch in "$tmp/patches"/*; do
		[ -e "$patch" ] || continue
		cmp -s "$patch" "$build/series/${patch##*/}" ||
			mv "$patch" "$build/series"
	done
}
