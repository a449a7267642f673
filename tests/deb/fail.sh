# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh disable=SC2154 # sourced by run
#
# What happens when the packages cannot be built, or their build is stopped.

# Builds with little room where the packages are to be; nothing else of the
# machine sees that file system.
no_space()
{
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount sh -c 'mount -t tmpfs -o size=8m tmpfs "$1/deb" || exit
		status=0
		"$2" || status=$?
		echo "left:" "$1/deb"/*
		exit "$status"' sh "$build" "$top/buildlib/deb" \
		>"$tap_dir/full" 2>&1 || {
		status=$?
		cat "$tap_dir/full"
		return "$status"
	}
}

# A command in a chroot writes to a file as long as it lives.
killed()
{
	mkdir "$tap_dir/killed"
	# shellcheck disable=SC2016 # expanded by the inner shell
	"$top/buildlib/chroot" "$build/root/deb" "$tap_dir/killed" root sh -c '
		setsid sh -c "while :; do echo >>alive; sleep 0.1; done" &
		wait' &
	chroot=$!
	tries=0
	until [ -s "$tap_dir/killed/alive" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || return
		sleep 0.1
	done
	kill -TERM "$chroot"
	status=0
	wait "$chroot" || status=$?
	sleep 0.5
	before=$(wc -l <"$tap_dir/killed/alive")
	sleep 1
	echo "status $status, $before lines, then" \
		"$(wc -l <"$tap_dir/killed/alive")"
	[ "$status" -eq 143 ]
	[ "$(wc -l <"$tap_dir/killed/alive")" -eq "$before" ]
	! grep "$build/root/deb" /proc/mounts
}

refuses "a full disk is named" "No space left on device" no_space
ok "and nothing is left that may pass for packages" \
	grep -x "left: $build/deb/\(lock\|build.log\)*" "$tap_dir/full"
ok "a chroot that is killed takes its processes and mounts along" killed
