// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stub.h"

static struct stub *stub_of(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);

	assert_non_null(vctx);
	return container_of(vctx, struct stub, vctx);
}

static struct ibv_mr *new_mr(struct stub *stub, enum ibv_mr_type type)
{
	struct verbs_mr *vmr;

	if (stub->fail_with) {
		errno = stub->fail_with;
		return NULL;
	}

	vmr = malloc(sizeof(*vmr));
	assert_non_null(vmr);
	/* Providers that do not clear it exist. */
	memset(vmr, 0xff, sizeof(*vmr));
	vmr->ibv_mr.context = &stub->vctx.context;
	vmr->mr_type = type;
	vmr->access = 0;
	return &vmr->ibv_mr;
}

static struct ibv_mr *stub_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
				  uint64_t hca_va, int access)
{
	struct stub *stub = stub_of(pd->context);

	stub->reg_mr = (struct stub_call) {
		.count = stub->reg_mr.count + 1,
		.pd = pd,
		.addr = addr,
		.length = length,
		.iova = hca_va,
		.access = access,
	};
	return new_mr(stub, IBV_MR_TYPE_MR);
}

static struct ibv_mr *stub_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
					 size_t length, uint64_t iova, int fd,
					 int access)
{
	struct stub *stub = stub_of(pd->context);

	stub->reg_dmabuf_mr = (struct stub_call) {
		.count = stub->reg_dmabuf_mr.count + 1,
		.pd = pd,
		.offset = offset,
		.fd = fd,
		.length = length,
		.iova = iova,
		.access = access,
	};
	return new_mr(stub, IBV_MR_TYPE_DMABUF_MR);
}

static int stub_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
			 void *addr, size_t length, int access)
{
	return stub_of(vmr->ibv_mr.context)->fail_with;
}

static int stub_dereg_mr(struct verbs_mr *vmr)
{
	int ret = stub_of(vmr->ibv_mr.context)->fail_with;

	if (!ret)
		free(vmr);
	return ret;
}

static const struct verbs_context_ops stub_ops = {
	.dereg_mr = stub_dereg_mr,
	.reg_dmabuf_mr = stub_reg_dmabuf_mr,
	.reg_mr = stub_reg_mr,
	.rereg_mr = stub_rereg_mr,
};

static struct verbs_device stub_device = {
	.device = { .name = "stub" },
	.refcount = 1,
	.core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS,
};

struct stub *stub_open(void)
{
	struct stub *stub;

	stub = verbs_init_and_alloc_context(&stub_device.device, -1, stub, vctx,
					    RDMA_DRIVER_UNKNOWN);
	assert_non_null(stub);
	verbs_set_ops(&stub->vctx, &stub_ops);
	stub->pd.context = &stub->vctx.context;
	stub->other_pd.context = &stub->vctx.context;
	return stub;
}

void stub_close(struct stub *stub)
{
	verbs_uninit_context(&stub->vctx);
	free(stub);
}

int stub_setup(void **state)
{
	*state = stub_open();
	return 0;
}

int stub_teardown(void **state)
{
	stub_close(*state);
	return 0;
}

/* What no machine can map is refused, but not before all else was tried. */
void empty_store(struct stub *stub)
{
	struct ibv_buf *buf;

	assert_null(ibv_alloc_buf(&stub->pd, (size_t)1 << 60, &buf));
	assert_int_equal(errno, ENOMEM);
}

size_t page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

bool find_vma(const void *addr, struct vma *vma)
{
	bool found = false;
	char line[512];
	FILE *smaps;

	smaps = fopen("/proc/self/smaps", "re");
	assert_non_null(smaps);

	while (fgets(line, sizeof(line), smaps)) {
		struct vma at = {};

		if (found && !strncmp(line, "VmFlags:", 8)) {
			vma->dontfork = strstr(line, " dc");
			vma->hugepage = strstr(line, " hg");
			break;
		}

		if (!found &&
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &at.start,
			   &at.end) == 2 &&
		    at.start <= (uintptr_t)addr && (uintptr_t)addr < at.end) {
			*vma = at;
			found = true;
		}
	}

	fclose(smaps);
	return found;
}

static void sum_maps(int *count, size_t *bytes)
{
	struct vma at;
	char line[512];
	FILE *maps;

	maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	*count = 0;
	*bytes = 0;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &at.start,
			   &at.end) != 2)
			continue;
		*count += 1;
		*bytes += at.end - at.start;
	}
	fclose(maps);
}

int count_vmas(void)
{
	size_t bytes;
	int count;

	sum_maps(&count, &bytes);
	return count;
}

size_t mapped_bytes(void)
{
	size_t bytes;
	int count;

	sum_maps(&count, &bytes);
	return bytes;
}
