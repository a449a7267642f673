# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Reads the hooks of one entry and prints them with the line numbers at which
# they stand in git's index, so that git apply has nothing to search for. One
# line of context can match in a wrong place: a hunk whose text is found more
# than once must stand at the very line that it names, as must the other hunks
# of that file. What is wrong is written to $tmp/why, with exit status 1.

function fail(text)
{
	printf "%s", text >(ENVIRON["tmp"] "/why")
	failed = 1
	exit 1
}

function fail_hunk(reason,    text)
{
	text = hunk
	gsub(/\n/, "\n  ", text)
	fail("hunk " number " of " path " does not apply: " reason \
		"\n  " header "\n  " text)
}

function begin_file(    command)
{
	path = substr($0, 14, (length($0) - 16) / 2)
	if ($0 != "diff --git a/" path " b/" path)
		fail("\"" $0 "\" renames or copies: a hook changes one file")
	if (path ~ /[^A-Za-z0-9._+\/-]/)
		fail("\"" path "\" is no path that a hook can have")

	if (seen[path]++)
		fail("it has two hooks of " path ": make them one")
	if (system("git cat-file -e :" path " 2>/dev/null"))
		fail("the file " path " of its hook does not exist at this point" \
			" of the series (a file that the entry itself adds has no" \
			" hook: change the file)")
	command = "git cat-file blob :" path
	lines = 0
	while ((command | getline file[lines + 1]) > 0)
		lines++
	close(command)

	number = have_hunk = last = growth = moved = doubtful = 0
}

function begin_hunk(    range)
{
	if (!path)
		fail("a hunk comes before any \"diff --git\" line")
	if (!match($0, /^@@ -[0-9]+(,[0-9]+)? \+[0-9]+(,[0-9]+)? @@/))
		fail("\"" $0 "\" in the hook of " path " is no hunk header")
	header = $0
	section = substr($0, RLENGTH + 1)
	old_want = split($2, range, ",") > 1 ? range[2] : 1
	named = substr(range[1], 2) + 0
	new_want = split($3, range, ",") > 1 ? range[2] : 1
	old_want += 0
	new_want += 0
	olds = news = before = after = 0
	hunk = ""
	number++
	have_hunk = 1
}

# Takes a line of a hunk; "before" and "after" count its context.
function hunk_line(    kind)
{
	kind = $0 == "" ? " " : substr($0, 1, 1)
	if (kind !~ /[-+ \\]/)
		fail_hunk("line \"" $0 "\" of it begins with none of space, + and -")
	hunk = hunk (hunk == "" ? "" : "\n") $0
	if (kind == "\\")
		return
	if (kind != "+")
		old[++olds] = substr($0, 2)
	if (kind != "-")
		news++
	after = kind == " " ? after + 1 : 0
	if (after == olds && after == news)
		before = after
}

# The number of lines of the hunk that the file has from line "at" on.
function alike(at,    i, n)
{
	for (i = 1; i <= olds; i++)
		n += file[at + i - 1] == old[i]
	return n + 0
}

function distance(at)
{
	return at > named ? at - named : named - at
}

# May the hunk stand at line "at", as to what is before and after it?
function allowed(at)
{
	return at > last && (before || at == 1) && \
		(after || at + olds - 1 == lines)
}

# Finds no place: says what is different where the hunk comes closest.
function explain(    at, n, most, best, i)
{
	for (at = 1; at <= lines - olds + 1; at++) {
		n = alike(at)
		if (n > most || (n == most && n && distance(at) < distance(best))) {
			most = n
			best = at
		}
	}
	if (!most)
		fail_hunk("the file has none of the lines that it expects")
	if (most == olds)
		fail_hunk("its text is at line " best ", where it cannot be meant:" \
			" hunks stand in order, and one without context before or" \
			" after it belongs at the beginning or end of the file")
	for (i = 1; file[best + i - 1] == old[i]; i++)
		;
	fail_hunk("line " best + i - 1 " of the file is not what it expects" \
		"\n  expected: " old[i] "\n  found:    " file[best + i - 1])
}

function end_hunk(    at, found, places, list)
{
	if (!have_hunk)
		return
	have_hunk = 0
	if (olds != old_want || news != new_want)
		fail_hunk("its header says " old_want " old and " new_want \
			" new lines, but it has " olds " and " news)
	if (!olds && lines)
		fail_hunk("it has no context")

	for (at = 1; at <= lines - olds + 1 && olds; at++) {
		if (file[at] != old[1] || alike(at) < olds || !allowed(at))
			continue
		list = list (places++ ? ", " : "") at
		if (!found || at == named)
			found = at
	}
	if (olds && !places)
		explain()
	if (places > 1)
		doubtful = "its text is found at several places, lines " list
	if (places > 1 && found != named)
		fail_hunk(doubtful ", and none is the line that it names")
	if (found != named)
		moved = 1
	if (doubtful && moved)
		fail_hunk(places > 1 ? doubtful ", and an earlier hunk has moved" : \
			"it has moved to line " found ", and an earlier hunk is in" \
			" doubt: " doubtful)

	print "@@ -" found + 0 "," olds " +" \
		found + growth + (olds ? 0 : 1) - (news ? 0 : 1) "," news \
		" @@" section
	print hunk
	growth += news - olds
	last = found + olds - 1
}

/^diff --git / { end_hunk(); begin_file(); print; next }
/^@@ / { end_hunk(); begin_hunk(); next }
have_hunk && (/^\\/ || olds < old_want || news < new_want) { hunk_line(); next }
have_hunk && $0 != "" { fail_hunk("a line too many follows it: \"" $0 "\"") }
have_hunk { next }
/^new file mode / {
	fail(path " is a new file: it must be an overlay file, listed under Adds")
}
/^(deleted file mode|rename|copy|similarity|dissimilarity) / {
	fail("the hook of " path " deletes, renames or copies it, which a series" \
		" cannot hold: \"" $0 "\"")
}
/^(GIT binary patch|Binary files )/ { fail("the hook of " path " is binary") }
{ print }

END {
	if (!failed)
		end_hunk()
}
