// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The pool of shared memory. The heap is a fake: open() and ioctl() of this
 * program make the DMA-bufs, as memfds, so that what has been taken and not
 * given back can be counted, and an allocation can be made to fail. What a
 * DMA-buf holds at the offset that the pool tells is read from its descriptor.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/dma-heap.h>
#include <linux/magic.h>

#include "stub.h"

#define HEAP "/dev/dma_heap/system_cc_shared"
#define CHUNK (2UL << 20)
#define RECORD 64

static int fail_after = -1;	/* DMA-bufs that are to be had, -1: any */
static int fail_with;

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);

	if (!strcmp(path, HEAP))
		path = "/dev/null";
	return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct dma_heap_allocation_data *data;
	va_list args;
	void *arg;
	int chunk;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);

	if (request != DMA_HEAP_IOCTL_ALLOC)
		return syscall(SYS_ioctl, fd, request, arg);

	if (!fail_after) {
		errno = fail_with;
		return -1;
	}
	if (fail_after > 0)
		fail_after--;

	data = arg;
	chunk = memfd_create("chunk", MFD_CLOEXEC);
	data->fd = chunk;
	return chunk < 0 ? -1 : ftruncate(chunk, data->len);
}

/* A memfd passes for a DMA-buf. */
int fstatfs(int fd, struct statfs *fs)
{
	int ret = syscall(SYS_fstatfs, fd, fs);

	if (!ret && fs->f_type == TMPFS_MAGIC)
		fs->f_type = DMA_BUF_MAGIC;
	return ret;
}

struct usage {
	int fds;
	size_t bytes;
};

/* What the pools have of the heap, by the descriptors of this process */
static struct usage heap_usage(void)
{
	struct usage usage = {};
	struct dirent *entry;
	char target[64];
	struct stat st;
	ssize_t length;
	DIR *dir;

	dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		length = readlinkat(dirfd(dir), entry->d_name, target,
				    sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = 0;
		if (strncmp(target, "/memfd:chunk", 12))
			continue;
		assert_int_equal(fstat(atoi(entry->d_name), &st), 0);
		usage.fds++;
		usage.bytes += st.st_size;
	}
	closedir(dir);
	return usage;
}

struct fixture {
	struct stub *stub;
	struct verbs_pd pd;
	struct verbs_buf_pool *pool;
};

static struct verbs_buf_pool *create_pool(struct fixture *fixture)
{
	struct verbs_buf_pool *pool;

	pool = verbs_buf_pool_create(&fixture->pd.pd, RECORD);
	assert_non_null(pool);
	return pool;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->stub = stub_open();
	fixture->pd.pd.context = &fixture->stub->vctx.context;
	fixture->pool = create_pool(fixture);
	fail_after = -1;
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(fixture->pd.users, 0);
	verbs_buf_pool_destroy(fixture->pool);
	assert_int_equal(heap_usage().fds, 0);
	stub_close(fixture->stub);
	free(fixture);
	return 0;
}

/* Something that a pool handed out, and the byte that it is filled with */
struct piece {
	unsigned char *addr;
	size_t size;
	bool record;
	unsigned char fill;
};

static size_t piece_length(const struct piece *piece)
{
	return piece->record ? RECORD :
		(piece->size + page_size() - 1) / page_size() * page_size();
}

static bool all_bytes_are(const unsigned char *addr, size_t length,
			  unsigned char byte)
{
	return *addr == byte && !memcmp(addr, addr + 1, length - 1);
}

/* The DMA-buf holds at the piece's offset what the memory of the piece does. */
static bool is_where_it_is_said_to_be(struct verbs_buf_pool *pool,
				      const struct piece *piece)
{
	size_t last = piece_length(piece) - 1;
	unsigned char byte[2] = {};
	uint64_t offset;
	int fd;

	fd = verbs_buf_pool_find(pool, piece->addr, &offset);
	if (fd != verbs_buf_pool_find(pool, piece->addr + last, &offset) ||
	    offset < last)
		return false;
	return pread(fd, &byte[0], 1, offset - last) == 1 &&
	       pread(fd, &byte[1], 1, offset) == 1 &&
	       byte[0] == piece->fill && byte[1] == piece->fill;
}

/* False unless it is zero-filled and, but for errno, what was asked for. */
static bool take(struct verbs_buf_pool *pool, struct piece *piece,
		 unsigned char fill)
{
	size_t alignment = piece->record ? RECORD : page_size();

	piece->addr = piece->record ? verbs_buf_pool_alloc_record(pool) :
				      verbs_buf_pool_alloc(pool, piece->size);
	if (!piece->addr || (uintptr_t)piece->addr % alignment ||
	    !all_bytes_are(piece->addr, piece_length(piece), 0))
		return false;

	piece->fill = fill;
	memset(piece->addr, fill, piece_length(piece));
	return true;
}

/* False if anybody else has written into it. */
static bool give_back(struct verbs_buf_pool *pool, struct piece *piece)
{
	bool intact = all_bytes_are(piece->addr, piece_length(piece),
				    piece->fill) &&
		      is_where_it_is_said_to_be(pool, piece);

	if (piece->record)
		verbs_buf_pool_free_record(pool, piece->addr);
	else
		verbs_buf_pool_free(pool, piece->addr, piece->size);
	piece->addr = NULL;
	return intact;
}

#define PIECES 300
#define ROUNDS 6000

/*
 * Takes and gives back pieces of all sizes, large ones seldom; every byte of
 * each is checked. Returns the number of what was wrong.
 */
static uintptr_t churn(struct verbs_buf_pool *pool, unsigned int seed)
{
	struct piece pieces[PIECES] = {};
	uintptr_t wrong = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		struct piece *piece = &pieces[rand_r(&seed) % PIECES];
		size_t kib = rand_r(&seed) % 100 ? 32 :
			     rand_r(&seed) % 10 ? 2000 : 6000;

		if (piece->addr) {
			wrong += !give_back(pool, piece);
			continue;
		}
		piece->record = rand_r(&seed) % 2;
		piece->size = 1 + rand_r(&seed) % (kib << 10);
		wrong += !take(pool, piece, 1 + rand_r(&seed) % 255);
	}

	for (i = 0; i < PIECES; i++)
		if (pieces[i].addr)
			wrong += !give_back(pool, &pieces[i]);
	return wrong;
}

static void pieces_are_zeroed_and_nobody_elses(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(churn(fixture->pool, 1), 0);
	assert_int_equal(fixture->pd.users, 0);
	assert_int_equal(heap_usage().fds, 1);
}

static void *churn_thread(void *arg)
{
	struct fixture *fixture = arg;

	return (void *)churn(fixture->pool, (uintptr_t)pthread_self() >> 12);
}

/* What costs little is done often, so that the threads do meet. */
static void *churn_records(void *arg)
{
	struct fixture *fixture = arg;
	uint64_t *record[70];
	uintptr_t wrong = 0;
	int round, i;

	for (round = 0; round < 3000; round++) {
		for (i = 0; i < 70; i++) {
			record[i] = verbs_buf_pool_alloc_record(fixture->pool);
			wrong += *record[i] != 0;
			*record[i] = (uintptr_t)&record[i];
		}
		for (i = 0; i < 70; i++) {
			wrong += *record[i] != (uintptr_t)&record[i];
			verbs_buf_pool_free_record(fixture->pool, record[i]);
		}
	}
	return (void *)wrong;
}

static void run_threads(struct fixture *fixture, void *(*run)(void *))
{
	pthread_t thread[4];
	void *wrong;
	int i;

	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run,
						fixture), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_int_equal(fixture->pd.users, 0);
	assert_int_equal(heap_usage().fds, 1);
}

static void threads_share_a_pool(void **state)
{
	run_threads(*state, churn_thread);
	run_threads(*state, churn_records);
}

#define OBJECTS 10000

static void ten_thousand_objects_are_cheap(void **state)
{
	struct fixture *fixture = *state;
	size_t needed = 0, maps = count_vmas();
	struct piece *pieces;
	struct usage usage;
	int i;

	/* A ring and a record each of QPs and CQs */
	pieces = calloc(4 * OBJECTS, sizeof(*pieces));
	for (i = 0; i < 4 * OBJECTS; i++) {
		pieces[i].record = i % 2;
		pieces[i].size = 4096;
		assert_true(take(fixture->pool, &pieces[i], 1 + i % 255));
		needed += piece_length(&pieces[i]);
	}

	usage = heap_usage();
	print_message("# %d objects: %d fds, %d maps, %.3f of the bytes\n",
		      2 * OBJECTS, usage.fds, count_vmas() - (int)maps,
		      (double)usage.bytes / needed);
	assert_in_range(usage.fds, 1, 64);
	assert_in_range(count_vmas() - maps, 1, 200);
	assert_true(usage.bytes <= needed * 1.15);
	assert_true(fixture->pd.users >= 2 * OBJECTS);

	for (i = 0; i < 4 * OBJECTS; i++)
		assert_true(give_back(fixture->pool, &pieces[i]));
	free(pieces);
	assert_int_equal(heap_usage().fds, 1);
}

/* Of pieces of any one size, up to the one chunk that is not full yet */
static void no_size_wastes_memory(void **state)
{
	struct fixture *fixture = *state;
	size_t chunk_pages = CHUNK / page_size();
	struct piece pieces[64];
	size_t pages, bytes;
	int i;

	for (pages = 1; pages < 3 * chunk_pages; pages += 1 + pages / 9) {
		for (i = 0; i < 64; i++) {
			pieces[i] = (struct piece) {
				.size = pages * page_size(),
			};
			pieces[i].addr = verbs_buf_pool_alloc(fixture->pool,
							      pieces[i].size);
			assert_non_null(pieces[i].addr);
		}
		bytes = heap_usage().bytes;
		assert_true(bytes <= 64 * pages * page_size() * 1.15 +
				     2 * CHUNK);
		for (i = 0; i < 64; i++)
			verbs_buf_pool_free(fixture->pool, pieces[i].addr,
					    pieces[i].size);
	}
}

static void fullest_chunk_is_used_first(void **state)
{
	struct fixture *fixture = *state;
	struct verbs_buf_pool *pool = fixture->pool;
	size_t half = CHUNK / 2, page = page_size();
	void *a, *b, *c, *d;

	a = verbs_buf_pool_alloc(pool, half);
	b = verbs_buf_pool_alloc(pool, half - page);
	c = verbs_buf_pool_alloc(pool, half);
	assert_int_equal(heap_usage().fds, 2);
	/* The page that the first has left, not one of the second's */
	d = verbs_buf_pool_alloc(pool, 1);
	assert_ptr_equal(d, b + half - page);
	verbs_buf_pool_free(pool, d, 1);
	verbs_buf_pool_free(pool, c, half);
	verbs_buf_pool_free(pool, b, half - page);
	/* Both chunks have room; the empty one is the last to be used. */
	d = verbs_buf_pool_alloc(pool, half);
	assert_ptr_equal(d, b);
	verbs_buf_pool_free(pool, a, half);
	verbs_buf_pool_free(pool, d, half);
	assert_int_equal(heap_usage().fds, 1);
}

/* Wherever in the chunk it is */
static void longest_run_counts(void **state)
{
	struct fixture *fixture = *state;
	struct verbs_buf_pool *pool = fixture->pool;
	size_t quarter = CHUNK / 4;
	void *part[4];
	int i, hole;

	for (hole = 0; hole < 4; hole++) {
		for (i = 0; i < 4; i++)
			part[i] = verbs_buf_pool_alloc(pool, i == (hole + 2) % 4 ?
						       quarter - page_size() :
						       quarter);
		verbs_buf_pool_free(pool, part[hole], quarter);
		assert_ptr_equal(verbs_buf_pool_alloc(pool, quarter),
				 part[hole]);
		assert_int_equal(heap_usage().fds, 1);
		for (i = 0; i < 4; i++)
			verbs_buf_pool_free(pool, part[i],
					    i == (hole + 2) % 4 ?
					    quarter - page_size() : quarter);
	}
}

static void large_piece_has_a_chunk_of_its_own(void **state)
{
	struct fixture *fixture = *state;
	size_t size = 5 * CHUNK + 1;
	void *small, *large;

	small = verbs_buf_pool_alloc(fixture->pool, 1);
	large = verbs_buf_pool_alloc(fixture->pool, size);
	assert_non_null(large);
	assert_int_equal(heap_usage().fds, 2);
	assert_int_equal(heap_usage().bytes, 6 * CHUNK + page_size());
	verbs_buf_pool_free(fixture->pool, large, size);
	assert_int_equal(heap_usage().bytes, CHUNK);
	verbs_buf_pool_free(fixture->pool, small, 1);
}

static void records_of_a_page_are_packed(void **state)
{
	struct fixture *fixture = *state;
	size_t count = page_size() / RECORD;
	struct piece records[2048];
	void *page;
	size_t i;

	assert_true(count < 2048);
	for (i = 0; i <= count; i++) {
		records[i] = (struct piece) { .record = true };
		assert_true(take(fixture->pool, &records[i], 1 + i % 255));
	}
	assert_int_equal(fixture->pd.users, 2);

	/* One is free again: it is used before a page is taken. */
	assert_true(give_back(fixture->pool, &records[7]));
	page = (void *)((uintptr_t)records[8].addr & ~(page_size() - 1));
	assert_true(take(fixture->pool, &records[7], 1));
	assert_in_range((uintptr_t)records[7].addr, (uintptr_t)page,
			(uintptr_t)page + page_size() - 1);

	for (i = 0; i <= count; i++)
		assert_true(give_back(fixture->pool, &records[i]));
}

static void failure_of_the_heap_changes_nothing(void **state)
{
	static const int errors[] = { ENOMEM, EMFILE, ENOSPC };
	struct fixture *fixture = *state;
	struct piece pieces[16];
	int i, n, users;

	for (n = 0; n < 8; n++) {
		fail_after = n;
		fail_with = errors[n % 3];
		for (i = 0; i < 16; i++) {
			pieces[i] = (struct piece) { .size = CHUNK };
			if (!take(fixture->pool, &pieces[i], 1))
				break;
		}
		assert_int_equal(errno, fail_with);
		/* From the second round on a chunk has been kept. */
		assert_int_equal(i, n + !!n);
		users = fixture->pd.users;
		errno = 0;
		assert_null(verbs_buf_pool_alloc_record(fixture->pool));
		assert_int_equal(errno, fail_with);
		errno = 0;
		assert_null(verbs_buf_pool_alloc(fixture->pool, 3 * CHUNK));
		assert_int_equal(errno, fail_with);
		assert_int_equal(fixture->pd.users, users);
		assert_int_equal(heap_usage().fds, i);

		/* It goes on when there is memory again. */
		fail_after = -1;
		assert_true(take(fixture->pool, &pieces[i], 1));
		for (; i >= 0; i--)
			assert_true(give_back(fixture->pool, &pieces[i]));
		assert_int_equal(fixture->pd.users, 0);
	}

	errno = 0;
	assert_null(verbs_buf_pool_alloc(fixture->pool, SIZE_MAX));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fixture->pd.users, 0);
}

static void chunk_size_is_the_users(void **state)
{
	static const struct {
		const char *kib;
		size_t chunk;
	} cases[] = {
		{ "256", 256 << 10 }, { "65536", 64 << 20 }, { "0", CHUNK },
		{ "65537", CHUNK },   { "-1", CHUNK },	     { "", CHUNK },
		{ "4x", CHUNK },
	};
	struct fixture *fixture = *state;
	struct verbs_buf_pool *pool;
	size_t i;
	void *piece;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		setenv("IBV_BUF_POOL_KIB", cases[i].kib, 1);
		pool = create_pool(fixture);
		unsetenv("IBV_BUF_POOL_KIB");
		piece = verbs_buf_pool_alloc(pool, 1);
		assert_int_equal(heap_usage().bytes, cases[i].chunk);
		verbs_buf_pool_free(pool, piece, 1);
		verbs_buf_pool_destroy(pool);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pieces_are_zeroed_and_nobody_elses),
		TEST(threads_share_a_pool),
		TEST(ten_thousand_objects_are_cheap),
		TEST(no_size_wastes_memory),
		TEST(fullest_chunk_is_used_first),
		TEST(longest_run_counts),
		TEST(large_piece_has_a_chunk_of_its_own),
		TEST(records_of_a_page_are_packed),
		TEST(failure_of_the_heap_changes_nothing),
		TEST(chunk_size_is_the_users),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
