# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
#
# Work that is done two pieces at a time. Sourced.
#
#   in_two_lanes DIR FUNCTION NAME...
#               calls FUNCTION with each NAME, in a process of its own, and
#               returns when all have ended; DIR gets a directory NAME.taken
#               for each
#   stoppable CMD...
#               for FUNCTION: runs CMD, which is ended if FUNCTION is
#   stop_lanes  for the caller's trap: ends what runs and waits for that. Lanes
#               are out of reach of ^C themselves.

lanes=

# Waits for the job, which is ended if this shell is.
follow()
{
	followed=$1
	trap 'kill "$followed" 2>/dev/null || :
		wait "$followed" || :
		exit 143' TERM
	wait "$followed"
}

stoppable()
{
	"$@" &
	follow $!
}

# Those names that the other lane has not taken, one after the other
lane()
{
	lane_dir=$1 lane_function=$2
	shift 2
	for lane_name; do
		mkdir "$lane_dir/$lane_name.taken" 2>/dev/null || continue
		"$lane_function" "$lane_name" &
		follow $! || :
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
	lanes=
}

# shellcheck disable=SC2086 # a list of numbers
stop_lanes()
{
	[ -n "$lanes" ] || return 0
	kill $lanes 2>/dev/null || :
	wait $lanes || :
	lanes=
}
