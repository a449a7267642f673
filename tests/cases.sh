# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by a suite after tap.sh
#
# Commands that run in a guest, all in one, and are results of a suite outside.
# Sourced at both ends.
#
#   one NAME CMD...  in the guest: runs CMD, with lines around its output that
#                    tell NAME and its exit status
#   boot_cases ARG...  in the suite: boots a guest, with these arguments of
#                      buildlib/guest/boot, and keeps its output
#   lane_cases FILE ARG...  the same in a lane of buildlib/lanes.sh, with the
#                    output in FILE of $tap_dir
#   ended FILE       in the suite: that guest came to its end, without complaint
#   said NAME        in the suite: prints what that CMD said and returns its
#                    status, from the guest's output in $tap_dir/guest
#   says NAME PATTERN...  in the suite: that CMD succeeded, and a line of what it
#                         said matches each PATTERN
#
# A command that did not run, or did not end, has failed, and says so.

one()
{
	one_name=$1
	shift
	echo "@start $one_name"
	one_status=0
	("$@") 2>&1 || one_status=$?
	printf '\n@end %s %s\n' "$one_name" "$one_status"
}

boot_cases()
{
	boot_status=0
	"$top/buildlib/guest/boot" "$@" >"$tap_dir/guest" 2>&1 ||
		boot_status=$?
	[ "$boot_status" -eq 0 ] || tail -n 20 "$tap_dir/guest"
	return "$boot_status"
}

lane_cases()
{
	lane_file=$tap_dir/$1 lane_status=0
	shift
	stoppable "$top/buildlib/guest/boot" "$@" >"$lane_file" 2>&1 ||
		lane_status=$?
	echo "@boot $lane_status" >>"$lane_file"
}

ended()
{
	tail -n 20 "$tap_dir/$1"
	grep -qx '@boot 0' "$tap_dir/$1"
}

said()
{
	awk -v name="$1" '
		$1 == "@end" && $2 == name { status = $3; ended = 1; on = 0 }
		on
		$1 == "@start" && $2 == name { on = 1 }
		END {
			if (ended)
				exit status
			print "the guest tells of no end of " name
			exit 1
		}' "$tap_dir/guest"
}

says()
{
	said "$1"
	said "$1" >"$tap_dir/case"
	shift
	for pattern; do
		grep -q -e "$pattern" "$tap_dir/case" || {
			echo "missing: $pattern"
			return 1
		}
	done
}
