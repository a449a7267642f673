#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What ibv_bufinfo, ibv_bufbench and the --buf of ibv_rc_pingpong say when a
# call of theirs fails, or when the kernel does not show what they look for: the
# library of refuse.c brings it about. On rxe0, with udmabuf in the kernel. Runs
# in the guest as root, prints TAP.
#
# usage: refused.sh IBV_BUFINFO

# $nobody is a list of words, and what "sh -c" runs is for that shell to expand.
# shellcheck disable=SC2086,SC2016

set -eu

tool=$1
# shellcheck source=tool.sh
. "$(dirname "$0")/tool.sh"

info=$tool
bench=${tool%/*}/ibv_bufbench
pingpong=${tool%/*}/ibv_rc_pingpong
library=${tool%/rdma-core/bin/*}/tests/guest/refuse.so
hugepages=/sys/kernel/mm/hugepages
verbs=/sys/class/infiniband_verbs
node=/dev/infiniband/uverbs0

# refused STATUS REFUSAL COMMAND...: runs with that refusal, which comes
refused()
{
	want=$1 refusal=$2
	shift 2
	run "$want" env "LD_PRELOAD=$library" "REFUSE=$refusal" "$@"
	grep -q "^# refused: ${refusal%% *}$" "$dir/err" || bad=1
}

# instead STATUS REPLACEMENT COMMAND...: runs with another file in place of one
instead()
{
	want=$1 replacement=$2
	shift 2
	run "$want" env "LD_PRELOAD=$library" "INSTEAD=$replacement" "$@"
}

# complains MESSAGE: that alone is on stderr
complains()
{
	sed -i '/^# refused: /d' "$dir/err"
	[ "$(cat "$dir/err")" = "$1" ] || bad=1
}

# A tool that does not get as far as to print something
# stops MESSAGE REFUSAL COMMAND...
stops()
{
	message=$1
	shift
	refused 1 "$@"
	complains "${2##*/}: $message"
	[ ! -s "$dir/out" ] || bad=1
	result "$bad" "${2##*/}, $1"
}

# One that says what it was, after the head of its table
# breaks_off MESSAGE REFUSAL OPTION...
breaks_off()
{
	message=$1 refusal=$2
	shift 2
	refused 1 "$refusal" "$bench" -n 3 "$@"
	complains "ibv_bufbench: $message"
	result "$bad" "ibv_bufbench $*, $refusal"
}

# tells PATTERN REFUSAL OPTION...: a line of the report says so
tells()
{
	pattern=$1 refusal=$2
	shift 2
	refused 0 "$refusal" "$info" -s 4K "$@"
	has "$pattern"
	result "$bad" "ibv_bufinfo $*, $refusal"
}

# shows_instead PATTERN REPLACEMENT OPTION...
shows_instead()
{
	pattern=$1 replacement=$2
	shift 2
	instead 0 "$replacement" "$info" "$@"
	has "$pattern"
	result "$bad" "ibv_bufinfo $*, instead of $replacement"
}

nomem='Cannot allocate memory'
again='Resource temporarily unavailable'
rdma_max='fix: see hca_handle and hca_object in rdma.max of the cgroup'

before_a_report()
{
	for each in "$info" "$bench"; do
		stops "cannot list RDMA devices: $nomem" \
			'ibv_get_device_list 1 ENOMEM' "$each"
	done
	stops "rxe0: cannot try it: Too many open files" 'pipe2 1 EMFILE' "$info"
	stops "rxe0: cannot try it: $again" 'fork 1 EAGAIN' "$info" -j
	stops 'rxe0: cannot open the device: No such device' \
		'ibv_open_device 1 ENODEV' "$info"
	stops "rxe0: no protection domain: $again; $rdma_max" \
		'ibv_alloc_pd 1 EAGAIN' "$info"
	stops 'rxe0: 4K: cannot open the device: No such device' \
		'ibv_open_device 1 ENODEV' "$bench" -s 4K
	stops 'rxe0: cannot open the device: No such device' \
		'ibv_open_device 2 ENODEV' "$bench" -s 4K
	stops "rxe0: no protection domain: $again" \
		'ibv_alloc_pd 2 EAGAIN' "$bench" -s 4K

	chmod 600 $node
	instead 1 "$verbs/uverbs0 /nonexistent" $nobody "$info"
	grep -q '^ibv_bufinfo: rxe0: cannot open the device: ' "$dir/err" || bad=1
	chmod 666 $node
	result "$bad" 'a device that goes away meanwhile'
}

in_a_report()
{
	for name in EOPNOTSUPP ENOSYS; do
		tells 'opted-in .* none: the provider .* has no parent domains$' \
			"ibv_alloc_parent_domain 1 $name"
	done
	tells "opted-in .* none: no parent domain: $nomem$" \
		'ibv_alloc_parent_domain 1 ENOMEM'
	tells 'CC_DMA_BOUNCE *no' 'ibv_query_device_ex 1 EINVAL'
	tells 'imports DMA-bufs *yes$' 'ibv_reg_dmabuf_mr 1 EBADF'
	for name in EOPNOTSUPP EPROTONOSUPPORT ENOSYS; do
		tells 'imports DMA-bufs *no$' "ibv_reg_dmabuf_mr 1 $name"
	done

	tells "anon: cannot try it: $nomem$" 'setenv 1 ENOMEM'
	tells 'anon: killed while trying it: Killed$' 'ibv_alloc_buf 1 KILL'
	tells 'anon: the provider of the device has no backing anon$' \
		'ibv_alloc_buf 1 EOPNOTSUPP'
	tells 'anon: cannot be allocated: Input/output error$' \
		'ibv_alloc_buf 2 EIO'
	tells 'huge: cannot be allocated: Input/output error$' \
		'ibv_alloc_buf 1 EIO' -s 2M
	tells 'dmabuf: cannot be allocated: Input/output error$' \
		'ibv_alloc_buf 1 EIO'
	tells 'dmabuf: the cgroup does not let /dev/udmabuf be opened$' \
		'ibv_alloc_buf 1 EPERM'
	tells 'dmabuf: cannot be allocated: File too large$' \
		'ibv_alloc_buf 1 EFBIG'
	tells "anon: cannot be registered: $nomem$" 'ibv_reg_buf_mr 1 ENOMEM'

	# The limit is none for who may lock all; where that is not shown, it is.
	low='ulimit -l 0; exec "$@"'
	limited='anon: RLIMIT_MEMLOCK is 0, so 4K cannot be registered$'
	refused 0 'ibv_reg_buf_mr 1 ENOMEM' sh -c "$low" sh "$info" -s 4K
	has "anon: cannot be registered: $nomem$"
	result "$bad" 'memory that is short, not its limit'
	for file in /nonexistent /dev/null; do
		refused 0 'ibv_reg_buf_mr 1 ENOMEM' \
			env "INSTEAD=/proc/self/status $file" \
			sh -c "$low" sh "$info" -s 4K
		has "$limited"
		result "$bad" "the limit, and $file for what the user may do"
	done
}

# A file of the kernel that is not there, or not what it should be
what_is_shown()
{
	for file in /nonexistent /dev/null; do
		shows_instead '^  anon  *yes  *anonymous  *unknown  *address' \
			"/proc/self/smaps $file" -s 4K
		shows_instead '^  anon  *yes' "/proc/meminfo $file" -s 4K
		refused 0 'ibv_alloc_buf 1 EFBIG' env \
			"INSTEAD=*/size_limit_mb $file" "$info" -s 4K
		has 'dmabuf: cannot be allocated: File too large$'
		result "$bad" "no limit of udmabuf, $file"
	done
	shows_instead '"page_size": null,' '/proc/self/smaps /dev/null' -j -s 4K

	# What the mapping has beyond the buffer is none of it.
	printf '%s\n' '0-ffffffffffffffff rw-p' 'KernelPageSize: 4 kB' \
		'AnonHugePages: 99999999 kB' >"$dir/smaps"
	shows_instead '^  anon  *yes  *anonymous  *2M THP  *address' \
		"/proc/self/smaps $dir/smaps" -s 2M
	echo 'MemAvailable: 3 kB' >"$dir/meminfo"
	shows_instead 'anon: not tried: only 0M of memory are available$' \
		"/proc/meminfo $dir/meminfo" -s 4K

	shows_instead 'huge: the kernel has no huge pages$' \
		"$hugepages /nonexistent" -s 2M
	# Whatever their order is, a smaller one comes after a larger one.
	for kib in 2048 64 1024; do
		mkdir -p "$dir/pages/hugepages-${kib}kB"
	done
	shows_instead 'huge: too few huge pages of 64K: 32 wanted, 0 free$' \
		"$hugepages $dir/pages" -s 2M
	has 'to keep it: boot with hugepagesz=64K hugepages=32$'
	result "$bad" 'pages of another size than the default'
	shows_instead 'to keep it: boot with hugepagesz=2M hugepages=3$' \
		"/proc/meminfo /nonexistent" -s 5M
	shows_instead 'to keep it: boot with hugepagesz=2M hugepages=3$' \
		"/proc/meminfo /dev/null" -s 5M
	shows "sizes that no pool has, without an overflow" \
		'huge: too few huge pages of 2M: 8796093022208 wanted, 0 free$' \
		-s 18446744073709551615

	for file in /nonexistent /dev/null; do
		refused 0 'ibv_alloc_buf 1 ENOENT' env \
			"INSTEAD=/sys/class/misc/udmabuf/dev $file" "$info" -s 4K
		has 'dmabuf: /dev/udmabuf is missing, though'
		! grep -q mknod "$dir/out" || bad=1
		result "$bad" "no number of the node, $file"

		shows_instead '^  dmabuf  *yes  *DMA-buf  *4K  *address' \
			"/proc/self/fdinfo/* $file" -s 4K
	done
}

# Set-id programs choose without the environment, whose word is not kept then.
set_id()
{
	cp "$info" "$dir/bufinfo"
	chmod 755 "$dir"
	chmod 4755 "$dir/bufinfo"
	run 0 $nobody "$dir/bufinfo"
	has '^  huge  *no$' '^  huge: the library gives anon instead$'
	result "$bad" 'set-id programs'
}

devices()
{
	fix='fix: as root: mknod'
	is="$node is missing, though the kernel has the device"
	mv $node /dev/hidden
	for each in "$info" "$bench"; do
		name=${each##*/}
		run 1 "$each"
		grep -q "^$name: $is; $fix" "$dir/err" || bad=1
		result "$bad" "$name: no node at all"
		instead 1 "$verbs /nonexistent" "$each"
		complains "$name: there is no RDMA device"
		result "$bad" "$name: no device at all"
	done
	for file in /nonexistent /dev/null; do
		instead 1 "$verbs/uverbs0/ibdev $file" "$info" -d rxe0
		complains "ibv_bufinfo: there is no RDMA device 'rxe0': \
see ibv_devices"
		result "$bad" "a device without a name, $file"
	done
	mv /dev/hidden $node
}

bench_breaks_off()
{
	for n in 1 2 3; do
		breaks_off "4K: malloc: $nomem" "calloc $n ENOMEM" -c -s 4K
		breaks_off "rxe0: malloc: $nomem" "calloc $n ENOMEM" -p -s 4K
		breaks_off "rxe0: malloc: $nomem" "calloc $n ENOMEM" -r 1 -s 16K
	done
	breaks_off "4K: ibv_alloc_buf: $nomem" 'ibv_alloc_buf 2 ENOMEM' -s 4K
	breaks_off "4K: ibv_alloc_buf: $nomem" 'ibv_alloc_buf 3 ENOMEM' -s 4K
	breaks_off "4K: ibv_reg_buf_mr: $nomem" 'ibv_reg_buf_mr 2 ENOMEM' -s 4K
	breaks_off "4K: posix_memalign: $nomem" 'posix_memalign 1 ENOMEM' -s 4K
	breaks_off "4K: ibv_reg_mr: $nomem" 'ibv_reg_mr 1 ENOMEM' -s 4K

	breaks_off "rxe0: ibv_alloc_buf: $nomem" 'ibv_alloc_buf 2 ENOMEM' \
		-p -s 4K
	breaks_off "rxe0: ibv_reg_buf_mr: $nomem" 'ibv_reg_buf_mr 2 ENOMEM' \
		-p -s 4K
	breaks_off "rxe0: mmap: $nomem" 'mmap 1 ENOMEM' -p -s 4K
	breaks_off "rxe0: ibv_reg_mr: $nomem" 'ibv_reg_mr 1 ENOMEM' -p -s 4K

	breaks_off "rxe0: ibv_alloc_buf: $nomem" 'ibv_alloc_buf 2 ENOMEM' \
		-r 1 -s 16K
	breaks_off "rxe0: mmap: $nomem" 'mmap 1 ENOMEM' -r 1 -s 16K
	# The first count of mappings, and the last
	for refusal in 'open 1 EMFILE' 'open 4 EMFILE'; do
		breaks_off 'rxe0: /proc/self/maps: Too many open files' \
			"$refusal" -n 1 -r 1 -s 16K
	done
	breaks_off 'rxe0: /proc/self/maps: Input/output error' 'read 2 EIO' \
		-r 1 -s 16K
}

# Ranges that are not registered are told, and fail it if they are the buffer's.
bench_ranges()
{
	for csv in '' -c; do
		refused 1 'ibv_reg_buf_mr 2 EAGAIN' "$bench" -n 1 -r 20 -s 1M $csv
		complains "ibv_bufbench: rxe0: ibv_reg_buf_mr: 0 of 20 \
registered: $again"
		has 'ibv_reg_buf_mr\(  *0  *-  *-  \|,0,,,\)' \
			'ibv_reg_mr\(  *20  \|,20,\)'
		! grep -q '^ratio' "$dir/out" || bad=1
		result "$bad" "ibv_bufbench $csv: no range of the buffer"

		refused 1 'ibv_reg_buf_mr 7 EAGAIN' "$bench" -n 1 -r 20 -s 1M $csv
		complains "ibv_bufbench: rxe0: ibv_reg_buf_mr: 5 of 20 \
registered: $again"
		has 'ibv_reg_buf_mr\(  *5  \|,5,\)'
		result "$bad" "ibv_bufbench $csv: some ranges of the buffer"

		refused 0 'ibv_reg_mr 1 EAGAIN' "$bench" -n 1 -r 20 -s 1M $csv
		complains "ibv_bufbench: rxe0: ibv_reg_mr: 0 of 20 registered: \
$again"
		has 'ibv_reg_mr\(  *0  *-  *-  \|,0,,,\)'
		! grep -q '^ratio' "$dir/out" || bad=1
		result "$bad" "ibv_bufbench $csv: no range of plain memory"
	done
}

bench_shows()
{
	smaps='/proc/self/smaps /nonexistent'
	instead 0 "$smaps" "$bench" -n 1 -s 4K
	has '^ *4K anon  *1  *- |'
	result "$bad" 'ibv_bufbench: pages that are not known'
	instead 0 "$smaps" "$bench" -c -n 1 -s 4K
	has '^rxe0,anon,4096,1,,'
	result "$bad" 'ibv_bufbench: the same in CSV'
	instead 0 "$smaps" "$bench" -p -n 1 -s 4K
	has '^anon  *- |' '^small  *1 |'
	result "$bad" 'ibv_bufbench: the same of large pages'
	instead 0 "$smaps" "$bench" -p -c -n 1 -s 4K
	has '^rxe0,anon,4096,1,,' '^rxe0,small,4096,1,1,'
	result "$bad" 'ibv_bufbench: and of those in CSV'

	for file in /nonexistent /dev/null; do
		instead 0 "*/hpage_pmd_size $file" "$bench" -p -c -n 1 -s 2M
		has '^rxe0,anon,2097152,1,512,'
		result "$bad" "ibv_bufbench: no size of large pages, $file"
		instead 0 "*/transparent_hugepage/enabled $file" \
			"$bench" -n 1 -s 4K
		has '^transparent huge pages: none$'
		result "$bad" "ibv_bufbench: no word for large pages, $file"
	done
	echo 'always madvise [never]' >"$dir/word"
	instead 0 "*/transparent_hugepage/enabled $dir/word" "$bench" -n 1 -s 4K
	has '^transparent huge pages: never$'
	result "$bad" 'ibv_bufbench: the last word for large pages'

	refused 0 'clock_gettime 1 EINVAL' "$bench" -c -n 1 -s 4K
	has ',0.000$'
	result "$bad" 'ibv_bufbench: a clock that stands still'
}

pingpong_stops()
{
	refused 1 'ibv_alloc_buf 1 EPERM' "$pingpong" --buf
	complains "Couldn't allocate work buf: Operation not permitted"
	result "$bad" 'ibv_rc_pingpong: no buffer'
	refused 1 'ibv_reg_buf_mr 1 EPERM' "$pingpong" --buf
	complains "Couldn't register MR"
	result "$bad" 'ibv_rc_pingpong: no region'
	refused 1 'ibv_open_device 1 ENODEV' "$pingpong"
	complains "Couldn't get context for rxe0"
	result "$bad" 'ibv_rc_pingpong: no device, with memory of its own'
}

echo 1..98
before_a_report
in_a_report
what_is_shown
set_id
devices
bench_breaks_off
bench_ranges
bench_shows
pingpong_stops
exit "$failed"
