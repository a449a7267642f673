// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Parent domains that several providers share, and the buffers that count as
 * users of their protection domains. Custom allocators and thread domains are
 * not for these providers.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/driver.h>

#include "buf_dmabuf.h"
#include "ibverbs.h"

#define PARENT_DOMAIN_KNOWN_MASK                                               \
	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |                              \
	 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |                              \
	 IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC)

/* Returns an errno. */
static int check_attr(const struct ibv_context *context,
		      const struct ibv_parent_domain_init_attr *attr)
{
	if (!check_comp_mask(attr->comp_mask, PARENT_DOMAIN_KNOWN_MASK))
		return EINVAL;

	if (!attr->pd || attr->pd->context != context || attr->td ||
	    verbs_get_pd(attr->pd)->base)
		return EINVAL;

	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)
		return EOPNOTSUPP;

	return 0;
}

/*
 * Whether the device needs the memory that the application allows. Where it
 * does, that must be there: private memory would not do. Returns an errno.
 */
static int need_shared(struct ibv_context *context, bool *shared)
{
	struct ibv_device_attr_ex attr = {};
	int ret;

	ret = get_ops(context)->query_device_ex(context, NULL, &attr,
						sizeof(attr));
	if (ret)
		return ret;

	*shared = attr.device_cap_flags_ex & IBV_DEVICE_CC_DMA_BOUNCE;
	return *shared ? buf_heap_check(BUF_HEAP_CC_SHARED) : 0;
}

struct ibv_pd *
verbs_pd_alloc_parent_domain(struct ibv_context *context,
			     struct ibv_parent_domain_init_attr *attr)
{
	struct verbs_pd *parent;
	bool shared = false;
	int ret;

	ret = check_attr(context, attr);
	if (!ret && attr->comp_mask &
		    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC)
		ret = need_shared(context, &shared);
	if (ret) {
		errno = ret;
		return NULL;
	}

	parent = calloc(1, sizeof(*parent));
	if (!parent)
		return NULL;

	ibv_initialize_parent_domain(&parent->pd, attr->pd);
	parent->base = verbs_get_pd(attr->pd);
	parent->cc_shared = shared;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		parent->pd_context = attr->pd_context;
	atomic_fetch_add(&parent->base->users, 1);
	return &parent->pd;
}

int verbs_pd_dealloc(struct ibv_pd *pd)
{
	struct verbs_pd *vpd = verbs_get_pd(pd);

	if (atomic_load(&vpd->users))
		return EBUSY;

	if (!vpd->base)
		return ibv_cmd_dealloc_pd(pd);

	atomic_fetch_sub(&vpd->base->users, 1);
	return 0;
}

void *verbs_pd_alloc_buf(struct ibv_pd *pd, size_t size,
			 const enum verbs_buf_backing *backings,
			 struct ibv_buf **buf)
{
	static const enum verbs_buf_backing shared[] = {
		VERBS_BUF_CC_SHARED,
		VERBS_BUF_END,
	};
	struct verbs_pd *vpd = verbs_get_pd(pd);
	void *addr;

	/* Before, so that no other thread deallocates pd meanwhile */
	atomic_fetch_add(&vpd->users, 1);
	addr = verbs_alloc_buf_from(pd, size,
				    vpd->cc_shared ? shared : backings, buf);
	if (!addr)
		atomic_fetch_sub(&vpd->users, 1);
	return addr;
}

void verbs_pd_free_buf(struct ibv_buf *buf)
{
	struct verbs_pd *vpd = verbs_get_pd(buf->pd);

	verbs_free_buf(buf);
	atomic_fetch_sub(&vpd->users, 1);
}
