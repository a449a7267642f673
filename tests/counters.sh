# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced after common.sh
#
# What a suite needs to count, in its guests, what a build runs that has
# counters: one whose directory has the name coverage. Any other is left alone.
#
#   counting DIR    what goes before a command in the guest
#   take_counters DIR NAME OUTPUT
#                   moves the counters from the output of a guest to
#                   DIR/counters/NAME; fails if there are none

counting()
{
	case $1 in
	*/coverage) echo "$top/tests/guest/counters" ;;
	esac
}

# llvm-profdata takes a comma in a name for a weight.
take_counters()
{
	[ "$(counting "$1")" ] || return 0
	counters_dir=$1/counters/$(echo "$2" | tr , -)
	rm -rf "$counters_dir"
	mkdir -p "$counters_dir"
	sed -n '/^@counters/,/^@counted/p' "$3" | tr -d '\r' | grep -v '^@' |
		base64 -d | tar -xzf - -C "$counters_dir" || return
	sed -i '/^@counters/,/^@counted/d' "$3"
}
