# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2034
#
# What every script of the repository needs: where it is and how to speak.
# Sourced after "set -eu", by path from $0, so that the script may be called
# from any directory. Nothing that only one script needs belongs here.
#
#   $top    root of the repository, absolute, without symbolic links
#   $build  where everything that is made goes; nothing is written elsewhere
#   say     tells on stderr what happens now
#   die     tells on stderr what is wrong and what to do, and exits with 1

top=$(cd "$(dirname "$0")" && pwd -P)
while [ ! -e "$top/buildlib/common.sh" ] && [ "$top" != / ]; do
	top=$(dirname "$top")
done
build=$top/build

say()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die()
{
	say "$@"
	exit 1
}
