# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced after common.sh
#
# What a shell suite needs to print TAP. Sourced after buildlib/common.sh.
#
#   $tap_dir                  directory for this run alone, removed at its end
#   ok NAME CMD...            a test: CMD succeeds
#   refuses NAME TEXT CMD...  a test: CMD fails, and its output has each line of
#                             TEXT somewhere
#   skip NAME REASON          a test that this kernel or device cannot run
#   finish                    prints the plan; the status is 1 if a test failed
#
# CMD may be a function; it runs in a subshell under "set -e" as long as ok and
# refuses are not themselves part of a condition. The output of a test that
# fails is shown as diagnostics. A suite that ends before finish bails out.

tap_suite=$(cd "$(dirname "$0")" && pwd)
tap_suite=${tap_suite##*/}
mkdir -p "$build/test/$tap_suite"
tap_dir=$(mktemp -d "$build/test/$tap_suite/XXXXXX")
tap_output=$tap_dir/output
tap_count=0
tap_failed=0
tap_finished=
trap tap_end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

tap_end()
{
	rm -rf "$tap_dir"
	[ -n "$tap_finished" ] ||
		echo "Bail out! $tap_suite ended after $tap_count tests"
}

tap_run()
{
	set +e
	(set -e; "$@") >"$tap_output" 2>&1 </dev/null
	tap_status=$?
	set -e
}

# tap_result NAME CMD...: the test passes if CMD does.
tap_result()
{
	tap_name=$1
	shift
	tap_count=$((tap_count + 1))
	if "$@"; then
		echo "ok $tap_count - $tap_name"
	else
		echo "not ok $tap_count - $tap_name"
		tap_failed=$((tap_failed + 1))
		sed 's/^/# /' "$tap_output"
		echo "# exit status $tap_status"
	fi
}

ok()
{
	tap_title=$1
	shift
	tap_run "$@"
	tap_result "$tap_title" test "$tap_status" -eq 0
}

tap_refused()
{
	[ "$tap_status" -ne 0 ] || return
	printf '%s\n' "$1" | while read -r tap_line; do
		grep -qF -e "$tap_line" "$tap_output" || {
			echo "missing: $tap_line" >>"$tap_output"
			exit 1
		}
	done
}

refuses()
{
	tap_title=$1
	tap_text=$2
	shift 2
	tap_run "$@"
	tap_result "$tap_title" tap_refused "$tap_text"
}

skip()
{
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

finish()
{
	tap_finished=yes
	echo "1..$tap_count"
	[ "$tap_failed" -eq 0 ] || exit 1
}
