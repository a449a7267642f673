/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Parent domains for providers that need no more of them than libibverbs has:
 * a protection domain by another name, which decides where its buffers come
 * from. Included by infiniband/driver.h. Such a provider begins each of its
 * protection domains with a struct verbs_pd and has the functions below in its
 * ops.
 */
#ifndef INFINIBAND_DRIVER_PD_H
#define INFINIBAND_DRIVER_PD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/driver_buf.h>
#include <infiniband/verbs.h>

/*
 * All zero for a new protection domain, but for pd. A parent domain is this
 * and no more: what the provider has behind it is that of base.
 */
struct verbs_pd {
	struct ibv_pd pd;		/* must be first */
	struct verbs_pd *base;		/* NULL: not a parent domain */
	atomic_uint users;		/* its buffers and parent domains */
	void *pd_context;		/* the application's */
	bool cc_shared;			/* buffers are shared with the host */
};

static inline struct verbs_pd *verbs_get_pd(struct ibv_pd *pd)
{
	return (struct verbs_pd *)pd;
}

/* The op alloc_parent_domain; errno EINVAL, EOPNOTSUPP or that of the heap */
struct ibv_pd *
verbs_pd_alloc_parent_domain(struct ibv_context *context,
			     struct ibv_parent_domain_init_attr *attr);

/*
 * For the op dealloc_pd, in the place of ibv_cmd_dealloc_pd(): returns EBUSY
 * when the pd is in use, else deallocates it in the kernel if it is there.
 * When it returns 0 the provider frees the pd, a parent domain too.
 */
int verbs_pd_dealloc(struct ibv_pd *pd);

/*
 * The ops alloc_buf and free_buf. backings are those of the provider; a parent
 * domain for shared memory has none other than that.
 */
void *verbs_pd_alloc_buf(struct ibv_pd *pd, size_t size,
			 const enum verbs_buf_backing *backings,
			 struct ibv_buf **buf);
void verbs_pd_free_buf(struct ibv_buf *buf);

#endif /* INFINIBAND_DRIVER_PD_H */
