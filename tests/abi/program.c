// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An application that uses every verb of ibv_buf but those for its own memory,
 * and carries data over two RC QPs with them. Built against the headers and the
 * library of one rdma-core, run on the library of another; it asserts only what
 * any of them must do, and prints TAP. What a buffer must be beyond that, and
 * every refusal, is the business of tests/unit and tests/guest.
 *
 * It needs no library but libibverbs, so that it runs in a foreign system.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../guest/rdma.h"

#define SIZE 65536
/* What is registered of each buffer, and what travels of it */
#define FROM 4096
#define LENGTH 8192

static struct rdma rdma;
static struct pair pair;
static int results;
static int failures;

static bool check(bool good, const char *what)
{
	int err = errno;

	printf("%sok %d - %s\n", good ? "" : "not ", ++results, what);
	if (!good)
		printf("# errno: %s\n", strerror(err));
	failures += !good;
	return good;
}

static void fill(char *mem, unsigned char seed)
{
	int i;

	for (i = 0; i < SIZE; i++)
		mem[i] = i * 7 + i / 251 + seed;
}

static bool is_filled(const char *mem, int from, int to, unsigned char seed)
{
	int i;

	for (i = from; i < to; i++)
		if (mem[i] != (char)(i * 7 + i / 251 + seed))
			return false;
	return true;
}

/* Writes the range of one buffer to that of the other, and compares all. */
static bool carries(char *from, struct ibv_mr *source, uint64_t source_addr,
		    char *to, struct ibv_mr *sink, uint64_t sink_addr)
{
	struct ibv_sge sge = {
		.addr = source_addr,
		.length = LENGTH,
		.lkey = source->lkey,
	};
	struct ibv_wc wc;

	fill(from, 1);
	fill(to, 2);
	return !rdma_send(pair.qp[0], IBV_WR_RDMA_WRITE, &sge, 1, sink_addr,
			  sink->rkey) &&
	       !rdma_wait(pair.cq[0], &wc) && wc.status == IBV_WC_SUCCESS &&
	       is_filled(from, 0, SIZE, 1) &&
	       is_filled(to, 0, FROM, 2) &&
	       is_filled(to, FROM, FROM + LENGTH, 1) &&
	       is_filled(to, FROM + LENGTH, SIZE, 2);
}

/* The range by ibv_reg_mr_ex(), for the device at iova if there is one */
static struct ibv_mr *reg_ex(struct ibv_buf *buf, char *mem, uint64_t iova)
{
	struct ibv_mr_init_attr attr = {
		.length = LENGTH,
		.access = RDMA_REMOTE,
		.comp_mask = IBV_REG_MR_MASK_ADDR,
		.addr = mem + FROM,
		.fd = -1,
	};

	if (buf) {
		attr.comp_mask |= IBV_REG_MR_MASK_BUF;
		attr.buf = buf;
	}
	if (iova) {
		attr.comp_mask |= IBV_REG_MR_MASK_IOVA;
		attr.iova = iova;
	}
	return ibv_reg_mr_ex(rdma.pd, &attr);
}

static bool dereg(struct ibv_mr *mr)
{
	errno = ibv_dereg_mr(mr);
	return !errno;
}

/* Every way to register ranges of two buffers, with data through each */
static void use(struct ibv_buf *buf[2], char *mem[2])
{
	uint64_t address[2] = { (uintptr_t)mem[0] + FROM,
				(uintptr_t)mem[1] + FROM };
	struct ibv_mr *source, *sink, *moved, *plain;

	source = ibv_reg_buf_mr(rdma.pd, buf[0], mem[0] + FROM, LENGTH,
				RDMA_REMOTE);
	if (!check(source, "ibv_reg_buf_mr"))
		return;
	check(source->length == LENGTH && source->pd == rdma.pd &&
	      source->context == rdma.context, "its MR has length and owner");

	sink = reg_ex(buf[1], mem[1], 0);
	if (check(sink, "ibv_reg_mr_ex with BUF and ADDR")) {
		check(carries(mem[0], source, address[0], mem[1], sink,
			      address[1]), "data from the one to the other");
		check(dereg(sink), "ibv_dereg_mr of it");
	}

	moved = reg_ex(buf[1], mem[1], 5ULL << 40);
	if (check(moved, "ibv_reg_mr_ex with BUF, ADDR and IOVA")) {
		check(carries(mem[0], source, address[0], mem[1], moved,
			      5ULL << 40), "data to where IOVA says");
		check(dereg(moved), "ibv_dereg_mr of it");
	}

	plain = reg_ex(NULL, mem[1], 0);
	if (check(plain, "ibv_reg_mr_ex with ADDR alone")) {
		check(carries(mem[0], source, address[0], mem[1], plain,
			      address[1]), "data to it");
		check(dereg(plain), "ibv_dereg_mr of it");
	}

	check(dereg(source), "ibv_dereg_mr of the source");
}

/* Which library is at work: whoever runs this may want to be sure. */
static void name_library(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], *path;

	while (maps && fgets(line, sizeof(line), maps)) {
		path = strchr(line, '/');
		if (path && strstr(path, "/libibverbs.so")) {
			printf("# library: %s", path);
			break;
		}
	}
	if (maps)
		fclose(maps);
}

/* Its success depends on the memory that a provider chooses. */
static void export(struct ibv_buf *buf)
{
	int fd = ibv_export_buf_dmabuf_fd(buf);

	if (fd >= 0) {
		check(!close(fd), "ibv_export_buf_dmabuf_fd or why not");
		return;
	}
	printf("# not exported: %s\n", strerror(errno));
	check(errno == ENODATA || errno == EOPNOTSUPP,
	      "ibv_export_buf_dmabuf_fd or why not");
}

static void bounce(void)
{
	struct ibv_device_attr_ex attr = { 0 };

	errno = ibv_query_device_ex(rdma.context, NULL, &attr);
	check(!errno, "ibv_query_device_ex");
	check(!(attr.device_cap_flags_ex & IBV_DEVICE_CC_DMA_BOUNCE),
	      "the device does not bounce");
}

/* With the flag, as without: providers may have no parent domains at all. */
static void parent_domain(void)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = rdma.pd,
		.comp_mask =
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};
	struct ibv_buf *buf;
	struct ibv_pd *pd;
	char *mem;

	pd = ibv_alloc_parent_domain(rdma.context, &attr);
	if (!pd) {
		printf("# no parent domain: %s\n", strerror(errno));
		check(errno == EOPNOTSUPP, "parent domain with the flag or "
		      "why not");
		return;
	}
	mem = ibv_alloc_buf(pd, SIZE, &buf);
	if (mem)
		ibv_free_buf(buf);
	errno = mem ? ibv_dealloc_pd(pd) : errno;
	check(mem && !errno, "parent domain with the flag or why not");
}

int main(void)
{
	struct ibv_buf *buf[2];
	char *mem[2];
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	name_library();
	if (rdma_open(&rdma))
		return 1;
	if (pair_open(&pair, &rdma)) {
		rdma_close(&rdma);
		return 1;
	}

	for (i = 0; i < 2; i++)
		mem[i] = ibv_alloc_buf(rdma.pd, SIZE, &buf[i]);
	if (check(mem[0] && mem[1], "ibv_alloc_buf")) {
		use(buf, mem);
		export(buf[0]);
	}
	for (i = 0; i < 2; i++)
		if (mem[i])
			ibv_free_buf(buf[i]);
	bounce();
	parent_domain();

	pair_close(&pair);
	rdma_close(&rdma);
	printf("1..%d\n", results);
	return failures != 0;
}
