// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Buffers and the store of freed ones, by sequences of calls: no two buffers
 * overlap, each is aligned and zero-filled, what is kept is reused, is no more
 * than the limit and goes where memory is wanted, nothing is kept that is
 * registered, and all is given back. The store of a child process is for the
 * unit tests: a fuzzer does not fork.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "buf_store.h"
#include "ibverbs.h"
#include "input.h"
#include "stub.h"
#include "system.h"

#define BUFS 24
#define PAGE 4096UL
#define THP (2UL << 20)
/* From one page that is written to the next; the last one is, too. */
#define STEP (16 * PAGE)

struct kept {
	char *addr;
	size_t length;
};

static struct stub *stub;

static struct {
	struct ibv_buf *buf;
	char *addr;
	size_t length;
	struct ibv_mr *mr;
	uint64_t tag;
} held[BUFS];
static size_t helds;

/* What the store should have, the oldest first */
static struct kept kept[BUF_STORE_LIMIT / PAGE + 1];
static size_t kepts;

static size_t kept_bytes(void)
{
	size_t bytes = 0, i;

	for (i = 0; i < kepts; i++)
		bytes += kept[i].length;
	return bytes;
}

static void forget(size_t i)
{
	kepts--;
	memmove(&kept[i], &kept[i + 1], (kepts - i) * sizeof(*kept));
}

static void check_kept(void)
{
	size_t bytes = kept_bytes(), i;

	for (i = 0; i < helds; i++)
		bytes += held[i].length;
	CHECK(system_mapped() == bytes);
	CHECK(kept_bytes() <= BUF_STORE_LIMIT);
}

static void check_zero(const char *page)
{
	CHECK(!page[0] && !memcmp(page, page + 1, PAGE - 1));
}

static void check_new(const char *addr, size_t length)
{
	size_t i;

	CHECK((uintptr_t)addr % (length < THP ? PAGE : THP) == 0);
	for (i = 0; i < length; i += STEP)
		check_zero(addr + i);
	check_zero(addr + length - PAGE);
	for (i = 0; i < helds; i++)
		CHECK(addr + length <= held[i].addr ||
		      addr >= held[i].addr + held[i].length);
}

static void fill(size_t i)
{
	static uint64_t tag;
	size_t at;

	held[i].tag = ++tag;
	for (at = 0; at < held[i].length; at += STEP)
		memcpy(held[i].addr + at, &tag, sizeof(tag));
	memcpy(held[i].addr + held[i].length - 8, &tag, sizeof(tag));
}

static void check_filled(size_t i)
{
	size_t at;

	for (at = 0; at < held[i].length; at += STEP)
		CHECK(!memcmp(held[i].addr + at, &held[i].tag, 8));
	CHECK(!memcmp(held[i].addr + held[i].length - 8, &held[i].tag, 8));
}

/* Most are small; now and then one of huge pages, or one not to be kept. */
static size_t some_size(struct input *input)
{
	size_t size = 1 + input_number(input, 2);

	switch (input_byte(input) % 64) {
	case 0:
		return size + THP - PAGE;
	case 1 ... 4:
		return size + BUF_STORE_LARGEST - 4 * PAGE;
	case 5 ... 9:
		/* So that a page more is just over the limit */
		return BUF_STORE_LARGEST;
	case 10 ... 15:
		return size * 8;
	default:
		return size;
	}
}

static void alloc(struct input *input)
{
	struct ibv_buf *const untouched = (void *)0x5ead, *buf = untouched;
	size_t size = some_size(input), tries = 1, i;
	size_t length = (size + PAGE - 1) / PAGE * PAGE;
	unsigned int calls = fake.calls;
	char *expected = NULL, *addr;

	if (helds == BUFS)
		return;
	for (i = kepts; i--;) {
		if (kept[i].length == length) {
			expected = kept[i].addr;
			forget(i);
			break;
		}
	}
	if (!expected && fake.failures && fake.fail_with != EPERM && kepts) {
		kepts = 0;
		tries = 2;
	}

	i = fake.failures;
	errno = 0;
	addr = ibv_alloc_buf(&stub->pd, size, &buf);
	CHECK(fake.calls - calls == (expected ? 0 : tries));
	if (!expected && i >= tries) {
		CHECK(!addr && errno == fake.fail_with && buf == untouched);
		return;
	}

	CHECK(addr && (!expected || addr == expected));
	check_new(addr, length);
	CHECK(buf->addr == addr && buf->size == size);
	held[helds].buf = buf;
	held[helds].addr = addr;
	held[helds].length = length;
	held[helds].mr = NULL;
	fill(helds++);
}

static void release(size_t i)
{
	size_t length;

	if (i >= helds)
		return;
	check_filled(i);
	length = held[i].length;
	ibv_free_buf(held[i].buf);
	if (length <= BUF_STORE_LARGEST && !held[i].mr)
		kept[kepts++] = (struct kept) { held[i].addr, length };
	while (kept_bytes() > BUF_STORE_LIMIT)
		forget(0);
	if (held[i].mr)
		CHECK(!ibv_dereg_mr(held[i].mr));
	held[i] = held[--helds];
}

static void reg(size_t i)
{
	if (i >= helds || held[i].mr)
		return;
	held[i].mr = ibv_reg_buf_mr(&stub->pd, held[i].buf, held[i].addr, 1, 0);
	CHECK(held[i].mr);
}

static void dereg(size_t i)
{
	if (i >= helds || !held[i].mr)
		return;
	CHECK(!ibv_dereg_mr(held[i].mr));
	held[i].mr = NULL;
}

static void empty(void)
{
	CHECK(!ibv_alloc_buf(&stub->pd, (size_t)1 << 60,
			     &(struct ibv_buf *){ NULL }));
	CHECK(errno == ENOMEM);
	kepts = 0;
}

static void choose_failures(struct input *input)
{
	static const int errors[] = { ENOMEM, EAGAIN, EPERM };
	uint8_t byte = input_byte(input);

	fake.failures = byte % 4;
	fake.fail_with = errors[byte / 4 % 3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char thp[] = "2097152\n";
	struct input input = { data, data + size };

	if (!stub) {
		stub = stub_open();
		/* That they are asked for is enough: to clear one takes long. */
		CHECK(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	}
	system_begin();
	fake.path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
	fake.text = thp;
	fake.text_length = sizeof(thp) - 1;
	while (input.at < input.end) {
		switch (input_byte(&input) % 16) {
		case 0 ... 4:
			alloc(&input);
			break;
		case 5 ... 9:
			release(input_byte(&input) % BUFS);
			break;
		case 10:
			reg(input_byte(&input) % BUFS);
			break;
		case 11:
			dereg(input_byte(&input) % BUFS);
			break;
		case 12:
			choose_failures(&input);
			break;
		case 13:
			fake.failures = 0;
			empty();
			break;
		case 14:
			ibv_free_buf(NULL);
			break;
		default:
			/* The other verb's: refused, and all is as it was */
			if (helds)
				ibv_free_user_buf(held[0].buf);
			break;
		}
		check_kept();
	}

	while (helds)
		release(0);
	fake.failures = 0;
	empty();
	CHECK(!fake.mappings);
	system_end();
	return 0;
}
