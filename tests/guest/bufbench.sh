#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What ibv_bufbench prints about rxe0, as a table and as CSV, and what it
# refuses. How long things take is no business of this test. Runs in the guest
# as root, prints TAP.
#
# usage: bufbench.sh IBV_BUFBENCH

# What "sh -c" runs is for that shell to expand.
# shellcheck disable=SC2016

set -eu

tool=$1
pool=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
# shellcheck source=tool.sh
. "$(dirname "$0")/tool.sh"

# cycles BACKING SIZE:PAGES...: the output is CSV with just these lines, the
# numbers of which are positive and agree
cycles()
{
	backing=$1
	shift
	awk -F, -v backing="$backing" -v want="$*" '
	BEGIN {
		lines = split(want, rows, " ")
		head = "device,backing,size,rounds,pages,buf_alloc_us," \
			"buf_reg_us,buf_dereg_us,buf_free_us,buf_cycle_us," \
			"plain_alloc_us,plain_reg_us,plain_dereg_us," \
			"plain_free_us,plain_cycle_us,ratio"
	}
	NR == 1 { bad = bad || $0 != head; next }
	{
		if (NF != 16 || $1 != "rxe0" || $2 != backing ||
		    $3 ":" $5 != rows[NR - 1])
			bad = 1
		for (i = 3; i <= NF; i++)
			if ($i !~ /^[0-9]+([.][0-9]+)?$/ || $i <= 0)
				bad = 1
		off = $16 - $10 / $15
		if (off > 0.001 || off < -0.001)
			bad = 1
	}
	END { exit bad || NR != lines + 1 }' "$dir/out" || bad=1
}

# ranges BACKING COUNT: the output is CSV that tells that each range of the
# buffer was registered, and that this left the mappings as they were
ranges()
{
	awk -F, -v backing="$1" -v count="$2" '
	NR == 1 {
		bad = $0 != "device,backing,size,ranges,verb,registered," \
			"reg_us,dereg_us,mappings_before,mappings_after,ratio"
		next
	}
	NF != 11 || $1 != "rxe0" || $2 != backing || $4 != count { bad = 1 }
	NR == 2 && ($5 != "ibv_reg_buf_mr" || $6 != count || $7 <= 0 ||
		    $8 <= 0 || $9 <= 0 || $9 != $10) { bad = 1 }
	NR == 3 && $5 != "ibv_reg_mr" { bad = 1 }
	END { exit bad || NR != 3 }' "$dir/out" || bad=1
}

# pages BACKING COUNT: the output is CSV of a buffer in so many pages and of 512
# small ones, with speedups that agree with the times
pages()
{
	awk -F, -v backing="$1" -v count="$2" '
	function differ(a, b) { return a - b > 0.001 || b - a > 0.001 }
	NR == 1 {
		bad = $0 != "device,memory,size,rounds,pages,reg_fresh_us," \
			"reg_again_us,dereg_us,speedup_fresh,speedup_again"
		next
	}
	NF != 10 || $1 != "rxe0" || $3 != 2097152 || $4 != 5 { bad = 1 }
	$6 <= 0 || $7 <= 0 || $8 <= 0 { bad = 1 }
	NR == 2 {
		if ($2 != backing || $5 != count)
			bad = 1
		fresh = $6; again = $7; speed = $9; more = $10
	}
	NR == 3 {
		if ($2 != "small" || $5 != 512 || $9 != 1 || $10 != 1 ||
		    differ(speed, $6 / fresh) || differ(more, $7 / again))
			bad = 1
	}
	END { exit bad || NR != 3 }' "$dir/out" || bad=1
}

if [ -e /dev/udmabuf ]; then
	echo 1..28
else
	echo 1..27
fi
echo 0 >$pool

run 0 "$tool" -c -n 3 -s 4M
cycles anon 4096:1 16384:4 65536:16 262144:64 1048576:256 4194304:2
[ ! -s "$dir/err" ] || bad=1
result "$bad" 'CSV: a line for each size'

run 0 "$tool" --csv --rounds 3 --size 20K --device rxe0
cycles anon 4096:1 16384:4 20480:5
result "$bad" 'a largest size out of step'

run 0 "$tool" -n 3 -s 16K
[ "$(grep -c -E '^ *(4K|16K) anon  *3  *[14]( \|( +[0-9]+\.[0-9]){5}){2} \| ' \
	"$dir/out")" -eq 2 ] || bad=1
grep -q '^rxe0: ' "$dir/out" || bad=1
result "$bad" 'a table'

run 0 "$tool" -c -s 4K
cycles anon 4096:1
grep -q '^rxe0,anon,4096,301,' "$dir/out" || bad=1
result "$bad" 'more rounds for a small size'

run 0 "$tool" -c -r 300 -s 8M
ranges anon 300
result "$bad" 'ranges of a buffer'
run 0 env RDMAV_FORK_SAFE=1 "$tool" -c -r 300 -s 8M
ranges anon 300
result "$bad" 'ranges of a buffer, with fork support'

run 0 "$tool" --ranges 64 --size 1M -n 1
[ "$(grep -c -E '^ibv_reg_(buf_)?mr  +64 ' "$dir/out")" -eq 2 ] || bad=1
grep -q '^ratio of reg: [0-9]' "$dir/out" || bad=1
result "$bad" 'a table of ranges'

run 0 "$tool" -c -p -n 5 -s 2M
pages anon 1
result "$bad" 'pages of a buffer'

run 0 "$tool" --pages --size 2M
[ "$(grep -c -E '^(anon  *1|small  *512) \|( +[0-9]+\.[0-9]){3} \|( +[0-9.]+){2}$' \
	"$dir/out")" -eq 2 ] || bad=1
grep -q '^rxe0: registration of 2M, 3 rounds; us$' "$dir/out" || bad=1
result "$bad" 'a table of pages'

run 1 "$tool" -p -r 20 -s 2M
[ ! -s "$dir/out" ] || bad=1
grep -q '^Usage: ibv_bufbench ' "$dir/err" || bad=1
result "$bad" 'pages or ranges, not both'

export IBV_BUF_BACKING=huge
run 1 "$tool" -c -s 16K
[ ! -s "$dir/out" ] || bad=1
[ "$(grep -c '^ibv_bufbench: rxe0: [0-9]*K: .* is too little: ' \
	"$dir/err")" -eq 2 ] || bad=1
result "$bad" 'no size that can be had'
run 1 "$tool" -r 20 -s 4M
grep -q '^ibv_bufbench: rxe0: 4M: too few huge pages .*; fix: as root: echo 2' \
	"$dir/err" || bad=1
result "$bad" 'no buffer to register ranges of'

echo 2 >$pool
run 0 "$tool" -c -n 3 -s 4M
cycles huge 4194304:2
[ "$(grep -c ' is too little: ' "$dir/err")" -eq 5 ] || bad=1
result "$bad" 'huge pages, and sizes that are left out'
# Without a single range of ibv_reg_mr() in an old kernel
run 0 env RDMAV_FORK_SAFE=1 "$tool" -c -r 200 -s 4M
ranges huge 200
result "$bad" 'ranges of huge pages, with fork support'
run 0 "$tool" -c -p -n 5 -s 2M
pages huge 1
result "$bad" 'pages of huge pages'
echo 16 >$pool
run 0 "$tool" -c -s 32M
cycles huge 4194304:2 16777216:8 33554432:16
[ "$(cut -d , -f 4 "$dir/out" | tr '\n' ' ')" = 'rounds 33 9 5 ' ] || bad=1
result "$bad" 'fewer rounds for a large size, but five'
echo 0 >$pool

if [ -e /dev/udmabuf ]; then
	export IBV_BUF_BACKING=dmabuf
	run 0 "$tool" -c -n 3 -s 16K
	cycles dmabuf 4096:1 16384:4
	result "$bad" 'DMA-bufs'
fi
unset IBV_BUF_BACKING

run 1 "$tool" -p -s 1G
grep -q '^ibv_bufbench: rxe0: 1G: not tried: only [0-9]*M of memory are available$' \
	"$dir/err" || bad=1
result "$bad" 'more than there is'

run 1 sh -c '"$0" -s 4K >/dev/full' "$tool"
grep -q '^ibv_bufbench: cannot write: ' "$dir/err" || bad=1
result "$bad" 'output that cannot be written'

run 0 "$tool" -h
grep -q -e '--ranges=N' "$dir/out" || bad=1
[ ! -s "$dir/err" ] || bad=1
result "$bad" 'help'

run 1 sh -c '"$0" -h >/dev/full' "$tool"
grep -q '^ibv_bufbench: cannot write: ' "$dir/err" || bad=1
result "$bad" 'help that cannot be written'

for options in -x rxe0; do
	run 1 "$tool" $options
	[ ! -s "$dir/out" ] || bad=1
	grep -q '^Usage: ibv_bufbench ' "$dir/err" || bad=1
	result "$bad" "usage: $options"
done
refuses 'unknown device' "ibv_bufbench: there is no RDMA device 'rxe9': see ibv_devices" \
	-d rxe9
refuses 'more ranges than there is room for' \
	'ibv_bufbench: 1M has room for 64 ranges, not 65: raise --size' -r 65 -s 1M

# no_number OPTION WHAT VALUE...: none of the values will do
no_number()
{
	option=$1 what=$2
	shift 2
	bad=0
	for value; do
		refused=$("$tool" "$option" "$value" 2>&1) && bad=1
		[ "$refused" = "ibv_bufbench: '$value' is no $what" ] || bad=1
	done
	result "$bad" "no $what"
}

no_number -s \
	'size from 4K to 1G: give bytes, or a number with K, M or G' \
	0 -1 x 4095 2G 1T 4KK ''
no_number -n 'number of rounds: give 1 to 10000' 0 -1 10001 3x ''
no_number -r 'number of ranges: give 1 to 65536' 0 -1 65537 3x ''

exit "$failed"
