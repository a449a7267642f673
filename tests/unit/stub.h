/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A context without a device, for tests of what libibverbs itself does: its
 * provider ops record how they were called. Also looks up this process's
 * mappings. Tests of what the kernel does run in the guest.
 */
#ifndef TESTS_UNIT_STUB_H
#define TESTS_UNIT_STUB_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <infiniband/driver.h>

struct stub_call {
	int count;
	struct ibv_pd *pd;
	void *addr;		/* reg_mr */
	uint64_t offset;	/* reg_dmabuf_mr */
	int fd;			/* reg_dmabuf_mr */
	size_t length;
	uint64_t iova;
	unsigned int access;
};

struct stub {
	struct verbs_context vctx;	/* must be first */
	struct ibv_pd pd;
	struct ibv_pd other_pd;
	struct stub_call reg_mr;
	struct stub_call reg_dmabuf_mr;
	int fail_with;			/* errno of every op from now on */
};

struct stub *stub_open(void);
void stub_close(struct stub *stub);

/* Setup and teardown of a cmocka test, whose *state is the stub */
int stub_setup(void **state);
int stub_teardown(void **state);

/* Has libibverbs give back the memory that it keeps of freed buffers. */
void empty_store(struct stub *stub);

/* A mapping of this process, by /proc/self/smaps */
struct vma {
	uintptr_t start;
	uintptr_t end;
	bool dontfork;		/* VmFlags dc */
	bool hugepage;		/* VmFlags hg */
};

/* False if nothing is mapped at addr. */
bool find_vma(const void *addr, struct vma *vma);
int count_vmas(void);
size_t mapped_bytes(void);
size_t page_size(void);

#endif /* TESTS_UNIT_STUB_H */
