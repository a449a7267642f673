# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
#
# Work that is done two pieces at a time. Sourced.
#
#   in_two_lanes DIR FUNCTION NAME...
#               calls FUNCTION with each NAME, in a process of its own, and
#               returns when all have ended; DIR gets a directory NAME.taken
#               for each
#   $lanes      what the caller's trap kills, and each FUNCTION with it

lanes=

# Those names that the other lane has not taken, one after the other
lane()
{
	lane_dir=$1 lane_function=$2
	shift 2
	for lane_name; do
		mkdir "$lane_dir/$lane_name.taken" 2>/dev/null || continue
		"$lane_function" "$lane_name" &
		lane_pid=$!
		trap 'kill "$lane_pid" 2>/dev/null; exit 143' TERM
		wait "$lane_pid" || :
	done
}

in_two_lanes()
{
	lane "$@" &
	lanes=$!
	lane "$@" &
	lanes="$lanes $!"
	# shellcheck disable=SC2086 # a list of numbers
	wait $lanes || :
}
