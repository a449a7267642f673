#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two processes: ibv_rc_pingpong as it was, with --buf at both ends and at one,
# and what --buf refuses. Runs in the guest, prints TAP.
#
# usage: pingpong.sh IBV_RC_PINGPONG

set -eu

pingpong=$1
count=0
failed=0
port=18515
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

# result STATUS NAME
result()
{
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		failed=1
		sed 's/^/# /' "$dir"/*
	fi
	rm -f "$dir"/*
}

# Index of the GID that maps an IPv4 address, RoCE v2
gid_index()
{
	for type in /sys/class/infiniband/*/ports/1/gid_attrs/types/*; do
		read -r name <"$type" || continue
		[ "$name" = 'RoCE v2' ] || continue
		read -r gid <"${type%/gid_attrs/*}/gids/${type##*/}"
		case $gid in
		0000:0000:0000:0000:0000:ffff:*)
			echo "${type##*/}"
			return
			;;
		esac
	done 2>/dev/null
	return 1
}

# Waits until somebody listens on the port, 20 s at most.
listening()
{
	hex=$(printf ':%04X' "$port")
	for _ in $(seq 100); do
		if cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
			grep -q "$hex [0-9A-F:]* 0A "; then
			return 0
		fi
		sleep 0.2
	done
	return 1
}

# carries NAME BYTES SERVER-OPTIONS CLIENT-OPTIONS: both ends succeed, carried
# so many bytes, and found nothing wrong in them.
carries()
{
	port=$((port + 1))
	bad=0
	# Options are lists of words.
	# shellcheck disable=SC2086
	timeout 60 "$pingpong" -p "$port" -g "$gid" $3 >"$dir/server" 2>&1 &
	server=$!
	listening || bad=1
	# shellcheck disable=SC2086
	timeout 60 "$pingpong" -p "$port" -g "$gid" $4 127.0.0.1 \
		>"$dir/client" 2>&1 || bad=1
	wait "$server" || bad=1
	grep -q "^$2 bytes in " "$dir/server" || bad=1
	grep -q "^$2 bytes in " "$dir/client" || bad=1
	! grep -q 'invalid data' "$dir/server" "$dir/client" || bad=1
	result "$bad" "$1"
}

# refuses NAME MESSAGE OPTIONS: fails at once, and says why on stderr
refuses()
{
	bad=0
	# What the program leaves to exit() is not the subject, nor what the
	# sanitizer says of a size.
	# shellcheck disable=SC2086
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		timeout 60 "$pingpong" $3 >"$dir/stdout" 2>"$dir/stderr" && bad=1
	sed -i '/WARNING: AddressSanitizer failed to allocate/d' "$dir/stderr"
	[ ! -s "$dir/stdout" ] || bad=1
	[ "$(cat "$dir/stderr")" = "$2" ] || bad=1
	result "$bad" "$1"
}

gid=$(gid_index) || {
	echo 'pingpong.sh: no RoCE v2 GID with an IPv4 address' >&2
	exit 1
}

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
refuses '--buf with --odp' "$conflict" '--buf --odp'
refuses '--buf with --iodp' "$conflict" '--iodp --buf'
refuses '--buf with --dm' "$conflict" '--buf --dm'
refuses '--odp with --dm as ever' "DM memory region can't be on demand" \
	'--odp --dm'
refuses '--buf of no bytes' "Couldn't allocate work buf: Invalid argument" \
	'--buf -s 0'
refuses '--buf with more bytes than there are' \
	"Couldn't allocate work buf: Cannot allocate memory" '--buf -s -4096'
refuses 'the same without --buf, as ever' "Couldn't allocate work buf." \
	'-s -4096'
refuses '--buf with --ts, which rxe lacks' \
	"The device isn't completion timestamp capable" '--buf --ts'

bad=0
"$pingpong" --help >"$dir/stdout" 2>/dev/null && bad=1
grep -q -e ' --buf ' "$dir/stdout" || bad=1
result "$bad" 'usage names --buf'

exit "$failed"
