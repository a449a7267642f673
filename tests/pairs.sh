# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=sh
#
# Programs that talk to each other in the guest, for a suite's script that runs
# there. The script has a function start, which runs a command, for a minute at
# most.
#
#   meet SERVER CLIENT       both commands, lists of words, succeed
#   pair NAME SERVER CLIENT  the same as a case of cases.sh
#   same NAME COMMAND        the same words for both, and for the client the
#                            server's address
#   $address                 that of the server
#   $gid                     index of the GID of rxe0 that maps that address

address=10.0.0.1
gid=$(grep -il '^0000:0000:0000:0000:0000:ffff:' \
	/sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null | head -n 1)
gid=${gid##*/}

listening()
{
	grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6 ||
		/.guest/rdma res show cm_id | grep -q LISTEN
}

# The server of each program waits for one client.
meet()
{
	# shellcheck disable=SC2086 # commands, as lists of words
	start $1 >/tmp/server 2>&1 &
	server=$!
	tries=0
	until listening || [ "$tries" -eq 100 ]; do
		tries=$((tries + 1))
		usleep 200000
	done
	# It is listed as listening a moment before it does. A server that has
	# met a client ends, so one that lives on can be tried again.
	bad=0
	tries=0
	# shellcheck disable=SC2086
	until start $2; do
		echo "client: exit status $?"
		tries=$((tries + 1))
		sleep 1
		if [ "$tries" -eq 3 ] || ! kill -0 "$server"; then
			kill "$server" || :
			bad=1
			break
		fi
	done
	wait "$server" || {
		echo "server: exit status $?"
		bad=1
	}
	sed 's/^/server: /' /tmp/server
	return "$bad"
}

pair()
{
	one "$1" meet "$2" "$3"
}

same()
{
	pair "$1" "$2" "$2 $address"
}
