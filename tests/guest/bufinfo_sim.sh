#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What ibv_bufinfo and, in short, ibv_bufbench say of the test device sim0,
# which imports DMA-bufs and may reach shared memory only: what can be had, how
# it is registered, and the cause and the fix where it cannot. What does not
# depend on that is in bufinfo.sh. Runs in the guest as root, prints TAP.
#
# usage: bufinfo_sim.sh IBV_BUFINFO

# $nobody is a list of words, and what "sh -c" runs is for that shell to expand.
# shellcheck disable=SC2086,SC2016

set -eu

tool=$1
# shellcheck source=tool.sh
. "$(dirname "$0")/tool.sh"

bench=${tool%/*}/ibv_bufbench
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
heap=/dev/dma_heap/system
shared=/dev/dma_heap/system_cc_shared
rxe=/dev/infiniband/uverbs0
read -r bounces </sys/module/ibv_sim/parameters/bounce
times='\( *[0-9][0-9]*\.[0-9]\)\{4\}$'
mebibyte='-d sim0 -s 1M'
# Nodes that a test takes away
hidden=/dev/hidden
mkdir -p $hidden

hide()
{
	for node; do
		mv "$node" "$hidden"
	done
}

# unhide NODE: what the test put in its place, if it did, goes.
unhide()
{
	rm -f "$1"
	mv "$hidden/${1##*/}" "$1"
}

# told_fix PATTERN: runs the fix that the last output tells; sets bad otherwise
told_fix()
{
	fix=$(sed -n "s/^    fix: as root: \($1\).*/\1/p" "$dir/out")
	eval "${fix:-false}" || bad=1
}

# A kernel that has no heap: neither the nodes nor its word for them
without_heaps()
{
	hide $heap $shared
	mount -t tmpfs tmpfs /sys/class/dma_heap
	"$@"
	umount /sys/class/dma_heap
	unhide $heap
	unhide $shared
}

no_memory_for()
{
	echo "1 28" >/sys/kernel/debug/ibv_sim_heap/fail
	"$@"
	echo "0 28" >/sys/kernel/debug/ibv_sim_heap/fail
}

reaches_all()
{
	echo 1..19

	run 0 "$tool" -d sim0
	has '^sim0: buffers of 2M$' 'CC_DMA_BOUNCE *no' \
		'imports DMA-bufs *yes$' \
		'^  chosen on a protection domain *anon$' \
		'^  chosen on an opted-in parent domain *anon$' \
		"^  anon  *yes  *anonymous  *2M THP  *address$times" \
		"^  dmabuf  *yes  *system  *4K  *fd$times" \
		'^  cc_shared  *unneeded$' \
		'^  cc_shared: the device reaches private memory$' \
		'^  huge: too few huge pages of 2M: 1 wanted, 0 free$'
	[ ! -s "$dir/err" ] || bad=1
	result "$bad" 'a device that imports: anon by address, dmabuf by fd'
	told_fix 'echo 1 >[^;]*hugepages'
	result "$bad" 'huge pages, reserved as told'
	shows 'huge by address' "^  huge  *yes  *hugetlb  *2M  *address$times" \
		-d sim0
	echo 0 >$pool

	run 0 "$tool" -j $mebibyte
	is_json "$dir/out" || bad=1
	has '"cc_dma_bounce": false,' '"imports_dmabuf": true,' \
		'"on_pd": { "backing": "anon", "cause": null }' \
		'"on_parent_domain": { "backing": "anon", "cause": null }' \
		'"memory": "system",' '"registered_by": "fd",' \
		'"registered_by": "address",' '"status": "unneeded",'
	result "$bad" 'JSON'

	# rxe0 is there too.
	run 0 "$tool" -s 4K
	has '^rxe0: buffers of 4K$' '^sim0: buffers of 4K$'
	grep -B 1 '^...0: ' "$dir/out" | grep -qx '' || bad=1
	result "$bad" 'all devices, with a line between'
	run 0 "$tool" -j -s 4K
	is_json "$dir/out" || bad=1
	has '"name": "rxe0",' '"name": "sim0",'
	result "$bad" 'all devices in JSON'
	chmod 600 $rxe
	run 0 $nobody "$tool" -- -s 4K
	has '^sim0: buffers of 4K$'
	! grep -q '^rxe0' "$dir/out" || bad=1
	grep -q "^ibv_bufinfo: rxe0: no permission to open $rxe; fix: " \
		"$dir/err" || bad=1
	chmod 666 $rxe
	result "$bad" 'all devices that can be used'

	run 0 env IBV_BUF_BACKING=dmabuf "$tool" $mebibyte
	has '^  chosen on a protection domain *dmabuf$' \
		'^  chosen on an opted-in parent domain *dmabuf$'
	result "$bad" 'DMA-bufs, chosen by the environment'

	run 0 $nobody "$tool" -- $mebibyte
	has '^  anon  *yes' 'dmabuf: no permission to open /dev/dma_heap/system$' \
		'fix: as root: chmod .*"dma_heap", KERNEL=="system", GROUP='
	result "$bad" 'a user without rights'
	chmod 666 $heap
	run 0 sh -c 'ulimit -l 64; exec "$@"' sh $nobody "$tool" -- $mebibyte
	has '^  dmabuf  *yes  *system ' \
		'anon: RLIMIT_MEMLOCK is 64K, so 1M cannot be registered'
	result "$bad" 'one who may use the heap: what it gives is not locked'
	chmod 600 $heap

	hide $heap
	shows 'no heap: udmabuf, by fd' "^  dmabuf  *yes  *udmabuf  *4K  *fd" \
		$mebibyte
	run 0 $nobody "$tool" -- $mebibyte
	has 'dmabuf: no permission to open /dev/udmabuf$'
	result "$bad" 'no heap, and a user without rights'
	hide /dev/udmabuf
	run 0 "$tool" $mebibyte
	has "dmabuf: $heap is missing, though the kernel has DMA-buf heap"
	told_fix 'mknod [^;]*'
	result "$bad" 'neither of them'
	shows 'making it helps' '^  dmabuf  *yes  *system ' $mebibyte
	unhide $heap
	without_heaps run 0 "$tool" $mebibyte
	has 'dmabuf: the kernel has no DMA-buf heap "system"$' \
		'fix: a kernel with CONFIG_DMABUF_HEAPS and .*_SYSTEM, or with' \
		'^  cc_shared  *unneeded$'
	result "$bad" 'a kernel without heaps'
	unhide /dev/udmabuf

	no_memory_for run 0 "$tool" $mebibyte
	has '^  chosen on an opted-in parent domain *anon$' \
		'^  dmabuf  *yes' '^  cc_shared  *unneeded$'
	result "$bad" 'a shared heap that fails is nothing to it'

	run 0 "$bench" -c -n 3 -s 4K -d sim0
	grep -q '^sim0,anon,4096,3,1,' "$dir/out" || bad=1
	result "$bad" 'ibv_bufbench'
	run 0 env IBV_BUF_BACKING=dmabuf "$bench" -c -n 3 -s 4K -d sim0
	grep -q '^sim0,dmabuf,4096,3,1,' "$dir/out" || bad=1
	result "$bad" 'ibv_bufbench: DMA-bufs'
	run 0 env IBV_BUF_BACKING=dmabuf "$bench" -c -r 20 -n 3 -s 1M -d sim0
	grep -q '^sim0,dmabuf,1048576,20,ibv_reg_buf_mr,20,' "$dir/out" || bad=1
	grep -q '^sim0,dmabuf,1048576,20,ibv_reg_mr,20,' "$dir/out" || bad=1
	result "$bad" 'ibv_bufbench: ranges of a DMA-buf'
}

# What private memory lacks is not told: to mend it would be of no use.
private='the device cannot reach private memory'

reaches_shared()
{
	echo 1..15

	run 0 "$tool" -d sim0
	has '^sim0: buffers of 2M$' 'CC_DMA_BOUNCE *yes: needs shared memory$' \
		'imports DMA-bufs *yes$' \
		"^  chosen on a protection domain *none: $private$" \
		'^  chosen on an opted-in parent domain *cc_shared$' \
		'^  anon  *no$' '^  huge  *no$' '^  dmabuf  *no$' \
		"^  cc_shared  *yes  *system_cc_shared  *4K  *fd$times" \
		"^  anon: $private$" "^  huge: $private$" \
		"^  dmabuf: $private$"
	[ "$(grep -c '^    fix: cc_shared, by a parent domain that allows it$' \
		"$dir/out")" -eq 3 ] || bad=1
	[ ! -s "$dir/err" ] || bad=1
	result "$bad" 'a device that bounces: cc_shared by fd, no other'
	! grep -q nr_hugepages "$dir/out" || bad=1
	result "$bad" 'no advice to reserve huge pages'

	run 0 "$tool" -j $mebibyte
	is_json "$dir/out" || bad=1
	has '"cc_dma_bounce": true,' '"imports_dmabuf": true,' \
		"\"on_pd\": { \"backing\": null, \"cause\": \"$private\" }" \
		'"on_parent_domain": { "backing": "cc_shared", "cause": null }' \
		'"memory": "system_cc_shared",' '"registered_by": "fd",'
	result "$bad" 'JSON'

	run 0 env IBV_BUF_BACKING=dmabuf "$tool" $mebibyte
	has "^  chosen on a protection domain *none: $private$" \
		'^  chosen on an opted-in parent domain *cc_shared$'
	result "$bad" 'the environment does not choose here'

	denied="no permission to open $shared"
	run 0 $nobody "$tool" -- $mebibyte
	has "^  chosen on an opted-in parent domain *none: $denied$" \
		"^  cc_shared: $denied$" "^  dmabuf: $private$" \
		'fix: as root: chmod .*KERNEL=="system_cc_shared", GROUP='
	result "$bad" 'a user without rights'
	chgrp 42 $shared
	run 0 $nobody "$tool" -- $mebibyte
	has 'fix: as root: chmod .*KERNEL=="system_cc_shared", GROUP='
	chgrp 0 $shared
	result "$bad" 'a group that may not use the heap either'
	chmod 600 ${shared%/*}
	run 0 $nobody "$tool" -- $mebibyte
	has "^  cc_shared: $denied$" \
		'fix: as root: chmod .*KERNEL=="system_cc_shared", GROUP='
	chmod 755 ${shared%/*}
	result "$bad" 'one who may not look into its directory'
	chmod 666 $shared
	run 0 $nobody "$tool" -- $mebibyte
	has '^  cc_shared  *yes' '^  chosen on an opted-in .* cc_shared$'
	result "$bad" 'one who may use the heap'
	chmod 600 $shared

	missing="$shared is missing, though the kernel has DMA-buf heap"
	hide $shared
	run 0 "$tool" $mebibyte
	has "^  chosen on an opted-in parent domain *none: $missing" \
		"^  cc_shared: $missing"
	told_fix 'mknod [^;]*'
	result "$bad" 'no heap'
	shows 'making it helps' '^  cc_shared  *yes' $mebibyte
	unhide $shared
	without_heaps run 0 "$tool" $mebibyte
	has 'cc_shared: the kernel has no DMA-buf heap "system_cc_shared"$' \
		'fix: a kernel with .* and CONFIG_DMABUF_HEAPS_SYSTEM_CC_SHARED$'
	result "$bad" 'a kernel without heaps'

	no_memory_for run 0 "$tool" $mebibyte
	has '^  chosen on an opted-in .* none: .*: No space left on device$' \
		'^  cc_shared  *yes'
	result "$bad" 'a heap that fails, once'

	run 0 sh -c 'ulimit -n 8; exec "$@"' sh "$tool" $mebibyte
	has 'cc_shared: no file descriptor is left' \
		'fix: raise RLIMIT_NOFILE' "^  dmabuf: $private$"
	result "$bad" 'no file descriptor left'

	said="$private; fix: cc_shared, by a parent domain that allows it"
	run 1 "$bench" -c -n 3 -s 4K -d sim0
	[ "$(cat "$dir/err")" = "ibv_bufbench: sim0: 4K: $said" ] || bad=1
	[ ! -s "$dir/out" ] || bad=1
	result "$bad" 'ibv_bufbench, which has no parent domain'
	run 1 "$bench" -r 20 -s 1M -d sim0
	[ "$(cat "$dir/err")" = "ibv_bufbench: sim0: 1M: $said" ] || bad=1
	result "$bad" 'ibv_bufbench: ranges'
}

echo 0 >$pool
if [ "$bounces" = Y ]; then
	reaches_shared
else
	reaches_all
fi
exit "$failed"
