#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What ibv_bufinfo says of rxe0: the backings that can be had, and the cause and
# the fix where one cannot, which the test brings about and then follows. Runs
# in the guest as root, prints TAP.
#
# usage: bufinfo.sh IBV_BUFINFO

# $nobody is a list of words, and what "sh -c" runs is for that shell to expand.
# shellcheck disable=SC2086,SC2016

set -eu

tool=$1
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
limit=/sys/module/udmabuf/parameters/size_limit_mb
# shellcheck source=tool.sh
. "$(dirname "$0")/tool.sh"

times='\( *[0-9][0-9]*\.[0-9]\)\{4\}$'
has_udmabuf=
[ ! -e /dev/udmabuf ] || has_udmabuf=1

if [ "$has_udmabuf" ]; then
	echo 1..28
else
	echo 1..22
fi
echo 0 >$pool

run 0 "$tool"
has '^rxe0: buffers of 2M$' 'CC_DMA_BOUNCE *no' 'imports DMA-bufs *no' \
	'^  chosen on a protection domain *anon$' \
	"^  anon  *yes  *anonymous  *2M THP  *address$times" \
	'^  cc_shared  *unneeded$'
[ ! -s "$dir/err" ] || bad=1
result "$bad" 'a table of what can be had'

if [ "$has_udmabuf" ]; then
	has "^  dmabuf  *yes  *udmabuf  *4K  *address$times"
	result "$bad" 'a DMA-buf by udmabuf, registered by address'
else
	has '^  dmabuf  *no$' '^  dmabuf: the kernel has no udmabuf$' \
		'^    fix: a kernel with CONFIG_UDMABUF$'
	result "$bad" 'no udmabuf in the kernel'
fi

has '^  huge  *no$' '^  huge: too few huge pages of 2M: 1 wanted, 0 free$'
fix=$(sed -n 's/^    fix: as root: \(echo 1 >[^;]*hugepages\); to keep .*/\1/p' \
	"$dir/out")
eval "${fix:-false}" || bad=1
result "$bad" 'no huge pages, and how to reserve them'

shows 'the fix helps' "^  huge  *yes  *hugetlb  *2M  *address$times"
shows 'too few huge pages' \
	'huge: too few huge pages of 2M: 3 wanted, 1 free' -s 5M
shows 'the fix counts what is there' 'fix: as root: echo 3 >' -s 5M
shows 'too small for huge pages' \
	'huge: 1M is too little: a huge page of 2M is twice that or more' -s 1M
shows 'the least that is not' '^  huge  *yes' -s 1048577
shows 'small pages' '^  anon  *yes  *anonymous  *4K  *address' -s 4K
shows 'more than there is' 'anon: not tried: only [0-9]*M of memory' -s 64G

IBV_BUF_BACKING=huge
export IBV_BUF_BACKING
shows 'the choice of the environment' \
	'^  chosen on a protection domain *huge$' --device rxe0
shows 'a choice that fails' \
	'^  chosen on a protection domain *none: 4K is too little: ' -s 4K
unset IBV_BUF_BACKING

run 0 "$tool" -j
cp "$dir/out" "$dir/json"
is_json "$dir/json" || bad=1
has '"size": 2097152,' '"name": "rxe0",' '"backing": "huge",' \
	'"page_size": 2097152,' '"registered_by": "address",'
result "$bad" 'JSON'

export IBV_BUF_BACKING='a"b\c	d'
run 0 "$tool" --json --size 64G
is_json "$dir/out" || bad=1
has '"ibv_buf_backing": "a\\"b\\\\c\\u0009d",' '"status": "unavailable",'
same_keys "$dir/json" "$dir/out" || bad=1
unset IBV_BUF_BACKING
result "$bad" 'JSON: escapes, and the same keys where nothing can be had'

run 1 sh -c '"$0" >/dev/full' "$tool"
grep -q '^ibv_bufinfo: cannot write: ' "$dir/err" || bad=1
result "$bad" 'output that cannot be written'

refuses 'unknown device' \
	"ibv_bufinfo: there is no RDMA device 'rxe9': see ibv_devices" -d rxe9
bad_size=0
for size in 0 -1 x 1T 1KK 99999999999G ''; do
	refused=$("$tool" -s "$size" 2>&1) && bad_size=1
	[ "$refused" = "ibv_bufinfo: '$size' is no size: give bytes, or a \
number with K, M or G" ] || bad_size=1
done
result "$bad_size" 'sizes that are none'

run 0 "$tool" -h
grep -q -e '--size=SIZE' "$dir/out" || bad=1
[ ! -s "$dir/err" ] || bad=1
result "$bad" 'help'
for options in -x rxe0; do
	run 1 "$tool" $options
	[ ! -s "$dir/out" ] || bad=1
	grep -q '^Usage: ibv_bufinfo ' "$dir/err" || bad=1
	result "$bad" "usage: $options"
done

# A user whom the device node is open to, as it is by default
run 0 $nobody "$tool"
if [ "$has_udmabuf" ]; then
	has '^  anon  *yes' 'dmabuf: no permission to open /dev/udmabuf' \
		'fix: as root: chmod .*KERNEL=="udmabuf", GROUP='
	result "$bad" 'a user without rights'
else
	# 64 KiB is all that this kernel lets a user lock.
	has 'anon: RLIMIT_MEMLOCK is 64K, so 2M cannot be registered' \
		'fix: raise it (ulimit -l'
	result "$bad" 'a user without rights'
fi

mode=$(stat -c %a /dev/infiniband/uverbs0)
chmod 600 /dev/infiniband/uverbs0
run 1 $nobody "$tool"
[ ! -s "$dir/out" ] || bad=1
grep -q "^ibv_bufinfo: rxe0: no permission to open /dev/infiniband/uverbs0; \
fix: " "$dir/err" || bad=1
chmod "$mode" /dev/infiniband/uverbs0
result "$bad" 'a user who may not use the device'

if [ "$has_udmabuf" ]; then
	chmod 666 /dev/udmabuf
	run 0 $nobody "$tool"
	has '^  dmabuf  *yes'
	result "$bad" 'a user who may use udmabuf'

	old=$(cat $limit)
	echo 1 >$limit
	run 0 "$tool" -s 2M
	has 'dmabuf: udmabuf makes no DMA-buf of 2M: its limit is 1M'
	fix=$(sed -n 's/^    fix: as root: \(echo 2 >.*size_limit_mb\)$/\1/p' \
		"$dir/out")
	eval "${fix:-false}" || bad=1
	result "$bad" 'the limit of udmabuf'
	shows 'its fix helps' '^  dmabuf  *yes'
	echo "$old" >$limit

	run 0 sh -c 'ulimit -n 8; exec "$0"' "$tool"
	has '^  anon  *yes' 'dmabuf: no file descriptor is left' \
		'fix: raise RLIMIT_NOFILE'
	result "$bad" 'no file descriptor left'

	rm /dev/udmabuf
	run 0 "$tool"
	has 'dmabuf: /dev/udmabuf is missing, though the kernel has udmabuf'
	fix=$(sed -n 's/^    fix: as root: \(mknod [^;]*\);.*/\1/p' "$dir/out")
	eval "${fix:-false}" || bad=1
	result "$bad" 'a node that is missing'
	shows 'making it helps' '^  dmabuf  *yes'
fi

exit "$failed"
