# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2034,SC2154 # sourced, with $tool set
#
# What the scripts have in common that run a tool in the guest, judge what it
# prints, and print TAP. They set $tool, and source this.
#
#   run STATUS COMMAND...       the exit status is as said; sets bad otherwise
#   has PATTERN...              each is in a line of the output; sets bad
#                               otherwise
#   result STATUS NAME          a test ends; without success the output is shown
#   shows NAME PATTERN OPTION...    a test: the tool succeeds with it in the
#                                   output
#   refuses NAME MESSAGE OPTION...  a test: the tool fails with the message first
#                                   on stderr, and prints nothing else
#   is_json FILE                the text is one JSON value and nothing else
#   same_keys FILE FILE         the keys are the same, in the same order
#   $nobody                     words that run a program as a user without rights
#   $dir                        for this run alone; the output is out and err

count=0
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
unset IBV_BUF_BACKING
# Of whom the guest may not know
nobody='start-stop-daemon -S -q -c nobody -x'
grep -qs ^nobody: /etc/passwd || {
	mkdir -p /etc
	echo 'nobody:x:65534:65534::/:/bin/false' >>/etc/passwd
}

result()
{
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		failed=1
		sed 's/^/# /' "$dir/out" "$dir/err"
	fi
}

run()
{
	want=$1
	shift
	bad=0
	status=0
	timeout 120 "$@" >"$dir/out" 2>"$dir/err" || status=$?
	[ "$status" -eq "$want" ] || bad=1
}

has()
{
	for pattern; do
		grep -q -e "$pattern" "$dir/out" || {
			echo "missing: $pattern" >>"$dir/err"
			bad=1
		}
	done
}

shows()
{
	name=$1 pattern=$2
	shift 2
	run 0 "$tool" "$@"
	has "$pattern"
	result "$bad" "$name"
}

refuses()
{
	name=$1 message=$2
	shift 2
	run 1 "$tool" "$@"
	[ ! -s "$dir/out" ] || bad=1
	[ "$(head -n 1 "$dir/err")" = "$message" ] || bad=1
	result "$bad" "$name"
}

is_json()
{
	awk '
	function skip() { sub(/^[ \t\n]+/, "", text) }
	function take(pattern) {
		skip()
		if (!match(text, "^(" pattern ")"))
			return 0
		text = substr(text, RLENGTH + 1)
		return 1
	}
	function string() {
		return take("\"([^\"\\\\]|\\\\([\"\\\\/bfnrt]|u[0-9a-f]+))*\"")
	}
	function members(close_, named) {
		if (take(close_))
			return 1
		do {
			if (named && !(string() && take(":")))
				return 0
			if (!value())
				return 0
		} while (take(","))
		return take(close_)
	}
	function value() {
		if (take("[{]"))
			return members("[}]", 1)
		if (take("[[]"))
			return members("[]]", 0)
		return string() || take("-?[0-9]+([.][0-9]+)?") ||
			take("true|false|null")
	}
	{ text = text $0 "\n" }
	END { good = value(); skip(); exit !(good && text == "") }' "$1"
}

same_keys()
{
	for file; do
		grep -o '"[a-z_]*":' "$file" >"$file.keys"
	done
	cmp "$1.keys" "$2.keys"
}
