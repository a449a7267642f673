// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A device whose kernel is a few counters: registration by address always works
 * and DMA-bufs are not imported. All else is libibverbs itself, so that its
 * threads can be watched by a sanitizer on any machine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/driver.h>

#include "model.h"

struct native {
	struct verbs_context vctx;	/* must be first */
};

struct native_pd {
	struct verbs_pd vpd;	/* must be first */
	atomic_uint mrs;	/* also those of its parent domains */
};

struct native_mr {
	struct verbs_mr vmr;	/* must be first */
	char *addr;
	uint64_t iova;
	size_t length;
	int access;
};

static atomic_uint next_key;
static atomic_size_t contexts, pds, mrs;

static int native_query_device(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	return 0;
}

static struct ibv_pd *native_alloc_pd(struct ibv_context *context)
{
	struct native_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	atomic_fetch_add(&pds, 1);
	return &pd->vpd.pd;
}

static atomic_uint *mrs_of(struct ibv_pd *pd)
{
	struct verbs_pd *vpd = verbs_get_pd(pd);

	return &container_of(vpd->base ?: vpd, struct native_pd, vpd)->mrs;
}

/* The kernel, which it is in the place of, is asked for the last one only. */
static int native_dealloc_pd(struct ibv_pd *pd)
{
	struct verbs_pd *vpd = verbs_get_pd(pd);
	int ret = 0;

	if (vpd->base || atomic_load(&vpd->users))
		ret = verbs_pd_dealloc(pd);
	else if (atomic_load(mrs_of(pd)))
		ret = EBUSY;
	else
		atomic_fetch_sub(&pds, 1);
	if (!ret)
		free(pd);
	return ret;
}

static struct ibv_mr *native_reg_mr(struct ibv_pd *pd, void *addr,
				    size_t length, uint64_t iova, int access)
{
	struct native_mr *mr;

	if ((access & IBV_ACCESS_REMOTE_WRITE &&
	     !(access & IBV_ACCESS_LOCAL_WRITE)) ||
	    ((uintptr_t)addr ^ iova) % PAGE ||
	    (uintptr_t)addr + length < (uintptr_t)addr) {
		errno = EINVAL;
		return NULL;
	}
	if (access & IBV_ACCESS_ON_DEMAND) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	mr = malloc(sizeof(*mr));
	if (!mr)
		return NULL;
	/* Providers that do not clear it exist. */
	memset(mr, 0xff, sizeof(*mr));
	mr->vmr.mr_type = IBV_MR_TYPE_MR;
	mr->vmr.access = access;
	mr->vmr.ibv_mr.lkey = atomic_fetch_add(&next_key, 1) + 1;
	mr->vmr.ibv_mr.rkey = mr->vmr.ibv_mr.lkey;
	mr->addr = addr;
	mr->iova = iova;
	mr->length = length;
	mr->access = access;
	atomic_fetch_add(mrs_of(pd), 1);
	atomic_fetch_add(&mrs, 1);
	return &mr->vmr.ibv_mr;
}

static int native_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd,
			   void *addr, size_t length, int access)
{
	struct native_mr *mr = container_of(vmr, struct native_mr, vmr);
	int now = flags & IBV_REREG_MR_CHANGE_ACCESS ? access : mr->access;

	if (!flags || (now & IBV_ACCESS_REMOTE_WRITE &&
		       !(now & IBV_ACCESS_LOCAL_WRITE))) {
		errno = EINVAL;
		return errno;
	}

	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->iova = (uintptr_t)addr;
		mr->length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_sub(mrs_of(vmr->ibv_mr.pd), 1);
		atomic_fetch_add(mrs_of(pd), 1);
	}
	mr->access = now;
	return 0;
}

static int native_dereg_mr(struct verbs_mr *vmr)
{
	atomic_fetch_sub(mrs_of(vmr->ibv_mr.pd), 1);
	atomic_fetch_sub(&mrs, 1);
	free(container_of(vmr, struct native_mr, vmr));
	return 0;
}

int native_access(const struct ibv_mr *ibmr, uint64_t at, void *data, size_t n,
		  bool write)
{
	struct native_mr *mr = container_of(ibmr, struct native_mr,
					    vmr.ibv_mr);
	uint64_t offset = at - mr->iova;

	if (at < mr->iova || offset > mr->length || n > mr->length - offset)
		return EFAULT;
	if (write && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return EACCES;
	if (write)
		memcpy(mr->addr + offset, data, n);
	else
		memcpy(data, mr->addr + offset, n);
	return 0;
}

static void *native_alloc_buf(struct ibv_pd *pd, size_t size,
			      struct ibv_buf **buf)
{
	static const enum verbs_buf_backing backings[] = {
		VERBS_BUF_ANON,
		VERBS_BUF_END,
	};

	return verbs_pd_alloc_buf(pd, size, backings, buf);
}

static const struct verbs_context_ops native_ops = {
	.alloc_buf = native_alloc_buf,
	.alloc_parent_domain = verbs_pd_alloc_parent_domain,
	.alloc_pd = native_alloc_pd,
	.alloc_user_buf = verbs_pd_alloc_user_buf,
	.dealloc_pd = native_dealloc_pd,
	.dereg_mr = native_dereg_mr,
	.free_buf = verbs_pd_free_buf,
	.query_device_ex = native_query_device,
	.reg_mr = native_reg_mr,
	.rereg_mr = native_rereg_mr,
};

static struct verbs_device native_device = {
	.device = { .name = "native" },
	.refcount = 1,
	.core_support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS,
};

int native_open(struct rdma *rdma)
{
	struct native *native;

	/* Otherwise done as devices are listed */
	if (getenv("RDMAV_FORK_SAFE") && ibv_fork_init())
		return -1;
	native = verbs_init_and_alloc_context(&native_device.device, -1, native,
					      vctx, RDMA_DRIVER_UNKNOWN);
	if (!native)
		return -1;
	verbs_set_ops(&native->vctx, &native_ops);
	atomic_fetch_add(&contexts, 1);
	memset(rdma, 0, sizeof(*rdma));
	rdma->context = &native->vctx.context;
	rdma->base = ibv_alloc_pd(rdma->context);
	rdma->pd = rdma->base;
	return rdma->base ? 0 : -1;
}

void native_close(struct rdma *rdma)
{
	struct verbs_context *vctx = verbs_get_ctx(rdma->context);

	ibv_dealloc_pd(rdma->base);
	verbs_uninit_context(vctx);
	free(vctx);
}

struct counts native_counts(void)
{
	return (struct counts) {
		.contexts = contexts,
		.pds = pds,
		.mrs = mrs,
	};
}
