#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two processes: ibv_rc_pingpong as it was, with --buf at both ends and at one,
# and what --buf refuses. Runs in the guest, prints TAP.
#
# usage: pingpong.sh IBV_RC_PINGPONG

set -eu

pingpong=$1
# shellcheck source=tool.sh
. "$(dirname "$0")/tool.sh"
# shellcheck source=../pairs.sh
. "$(dirname "$0")/../pairs.sh"

# shellcheck disable=SC2317 # called by pairs.sh
start()
{
	timeout 60 "$@"
}

# carries NAME BYTES SERVER-OPTIONS CLIENT-OPTIONS: both ends succeed, carried
# so many bytes, and found nothing wrong in them.
carries()
{
	bad=0
	: >"$dir/err"
	meet "$pingpong -g $gid $3" "$pingpong -g $gid $4 $address" \
		>"$dir/out" 2>&1 || bad=1
	grep -q "^server: $2 bytes in " "$dir/out" || bad=1
	grep -q "^$2 bytes in " "$dir/out" || bad=1
	! grep -q 'invalid data' "$dir/out" || bad=1
	result "$bad" "$1"
}

# is_refused NAME MESSAGE OPTIONS: fails at once, and says why on stderr
is_refused()
{
	# What the program leaves to exit() is not the subject, nor what the
	# sanitizer says of a size. Options are a list of words.
	# shellcheck disable=SC2086
	run 1 env ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		"$pingpong" $3
	sed -i '/WARNING: AddressSanitizer failed to allocate/d' "$dir/err"
	[ ! -s "$dir/out" ] || bad=1
	[ "$(cat "$dir/err")" = "$2" ] || bad=1
	result "$bad" "$1"
}

# The first TCP connection of a busy guest with 5.10 was seen to hang for as long
# as its ends waited: let it be none of theirs.
meet 'nc -l -p 1' "nc $address 1" >/dev/null 2>&1 || echo '# no first connection'

echo 1..21

carries 'unchanged' 819200 '-n 100' '-n 100'
carries 'unchanged, events, checked' 819200 '-n 100 -e -c' '-n 100 -e -c'
carries '--buf at both ends' 819200 '--buf -n 100' '--buf -n 100'
carries '--buf at the server' 819200 '--buf -n 100' '-n 100'
carries '--buf at the client' 819200 '-n 100' '--buf -n 100'
carries '--buf, checked' 819200 '--buf -n 100 -c' '--buf -n 100 -c'
carries '--buf, events' 819200 '--buf -n 100 -e' '--buf -n 100 -e'
carries '--buf, events at one end, checked' 819200 '--buf -n 100 -e -c' \
	'--buf -n 100 -c'
carries '--buf, new send' 819200 '--buf -n 100 -N -c' '--buf -n 100 -N -c'
carries '--buf, 1 byte' 20 '--buf -n 10 -s 1 -c' '--buf -n 10 -s 1 -c'
carries '--buf, 65537 bytes' 2621480 '--buf -n 20 -s 65537 -c' \
	'--buf -n 20 -s 65537 -c'
carries '--buf, 3 MiB' 12582912 '--buf -n 2 -s 3145728 -c' \
	'--buf -n 2 -s 3145728 -c'

conflict="--buf memory region can't be on demand or in DM"
is_refused '--buf with --odp' "$conflict" '--buf --odp'
is_refused '--buf with --iodp' "$conflict" '--iodp --buf'
is_refused '--buf with --dm' "$conflict" '--buf --dm'
is_refused '--odp with --dm as ever' "DM memory region can't be on demand" \
	'--odp --dm'
is_refused '--buf of no bytes' "Couldn't allocate work buf: Invalid argument" \
	'--buf -s 0'
is_refused '--buf with more bytes than there are' \
	"Couldn't allocate work buf: Cannot allocate memory" '--buf -s -4096'
is_refused 'the same without --buf, as ever' "Couldn't allocate work buf." \
	'-s -4096'
is_refused '--buf with --ts, which rxe lacks' \
	"The device isn't completion timestamp capable" '--buf --ts'

# As ever, it does not call that a success.
run 1 "$pingpong" --help
has ' --buf '
result "$bad" 'usage names --buf'

exit "$failed"
