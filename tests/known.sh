# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by a suite after tap.sh
#
# Findings of checkers, and those that are known to be none. Sourced by a suite.
#
#   known LIST FINDINGS  fails unless the findings in file FINDINGS, "CHECK FILE
#                        more" a line, are those of file LIST
#
# LIST has "CHECK FILE NUMBER reason" on its lines; # begins a comment. A finding
# that is made twice, as in a header, is one.

known()
{
	awk '
	FILENAME == ARGV[1] {
		if ($0 ~ /^#/ || $0 == "")
			next
		if (NF < 4) {
			print "without a number and a reason: " $0
			bad = 1
		}
		left[$1 " " $2] = $3
		next
	}
	!again[$0]++ && left[$1 " " $2]-- <= 0 {
		print
		bad = 1
	}
	END {
		for (entry in left) {
			if (left[entry] > 0) {
				print "known, but not found: " entry ", " \
					left[entry]
				bad = 1
			}
		}
		exit bad
	}' "$1" "$2"
}
