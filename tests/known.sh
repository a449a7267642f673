# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by a suite after tap.sh
#
# Findings of checkers, and those that are known to be none. Sourced by a suite.
#
#   known LIST FINDINGS  fails for each line of file FINDINGS, "CHECK FILE more",
#                        whose check and file are not in file LIST, and for each
#                        line of LIST that is not among the findings
#
# LIST has "CHECK FILE reason" on its lines; # begins a comment.

known()
{
	awk '
	FILENAME == ARGV[1] {
		if ($0 ~ /^#/ || $0 == "")
			next
		if (NF < 3) {
			print "without a reason: " $0
			bad = 1
		}
		list[$1 " " $2] = 1
		next
	}
	{ seen[$1 " " $2] = 1 }
	!(($1 " " $2) in list) { print; bad = 1 }
	END {
		for (entry in list) {
			if (!(entry in seen)) {
				print "known, but not found: " entry
				bad = 1
			}
		}
		exit bad
	}' "$1" "$2"
}
