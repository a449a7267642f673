// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The calls for protection domains and parent domains.
 */
#include <errno.h>
#include <string.h>

#include "model.h"

#define ALLOW IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC

static bool is_free(const struct thread *thread, int domain)
{
	return !thread->domain[domain].pd;
}

static int pick_own(struct thread *thread)
{
	return DOMAIN_FIRST + pick(&thread->rng, DOMAINS - DOMAIN_FIRST);
}

void call_alloc_pd(struct thread *thread)
{
	struct expect expect = {};
	int to = pick_own(thread);
	struct ibv_pd *pd;

	if (!is_free(thread, to))
		return;

	call(thread, "pd%d = ibv_alloc_pd(context)", to);
	may(&expect, 0);
	pd = ibv_alloc_pd(thread->world->rdma.context);
	outcome(thread, V_ALLOC_PD, &expect, pd ? 0 : errno);
	if (pd->context != thread->world->rdma.context)
		halt(thread, "context of a pd", "%p", pd->context);
	thread->domain[to] = (struct domain) { .pd = pd, .base = -1 };
	thread->counts.pds++;
}

/* What may come of it, with a base that is there */
static void expect_parent(const struct thread *thread, int base,
			  const struct ibv_parent_domain_init_attr *attr,
			  struct expect *expect)
{
	const struct caps *caps = &thread->world->caps;
	uint32_t mask = attr->comp_mask;

	if (mask & ~(ALLOW | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
		     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) || base < 0)
		may(expect, EINVAL);
	/* Custom allocators, and parents of parents, are mlx5's alone. */
	if (!caps->is_mlx5 && base >= 0 && thread->domain[base].base >= 0)
		may(expect, EINVAL);
	if (!caps->is_mlx5 && mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)
		may(expect, EOPNOTSUPP);
	if (!expect->n)
		may(expect, 0);
}

void call_alloc_parent_domain(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	int to = pick_own(thread), base = pick(rng, DOMAINS);
	struct ibv_parent_domain_init_attr attr = {
		.comp_mask = once_in(rng, 3) ? 0 : ALLOW,
		.pd_context = thread,
	};
	struct ibv_parent_domain_init_attr before;
	struct expect expect = {};
	struct ibv_pd *pd;

	if (once_in(rng, 4))
		attr.comp_mask |= IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	if (once_in(rng, 16))
		attr.comp_mask |= 1U << (3 + pick(rng, 29));
	/* Without functions to call: then mlx5 calls none. */
	if (once_in(rng, 16))
		attr.comp_mask |= IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	if (once_in(rng, 32))
		base = -1;
	if (!is_free(thread, to) || base == to ||
	    (base >= 0 && is_free(thread, base)))
		return;

	attr.pd = base < 0 ? NULL : thread->domain[base].pd;
	before = attr;
	call(thread, "pd%d = ibv_alloc_parent_domain(context, { pd%d, mask %#x })",
	     to, base, attr.comp_mask);
	expect_parent(thread, base, &attr, &expect);
	errno = 0;
	pd = ibv_alloc_parent_domain(thread->world->rdma.context, &attr);
	outcome(thread, V_ALLOC_PARENT_DOMAIN, &expect, pd ? 0 : errno);
	if (memcmp(&attr, &before, sizeof(attr)))
		halt(thread, "attributes of a parent domain changed", "%s",
		     "comp_mask or another");
	if (!pd)
		return;
	/* The parent of a parent is one of its base. */
	if (thread->domain[base].base >= 0)
		base = thread->domain[base].base;
	thread->domain[to] = (struct domain) {
		.pd = pd,
		.base = base,
		.shared = attr.comp_mask & ALLOW && thread->world->caps.bounces,
	};
	thread->domain[base].users++;
}

void free_domain(struct thread *thread, int at)
{
	struct domain *domain = &thread->domain[at];
	struct expect expect = {};
	int err;

	call(thread, "ibv_dealloc_pd(pd%d)", at);
	may(&expect, at < DOMAIN_FIRST || domain->users || domain->keys ?
		     EBUSY : 0);
	err = ibv_dealloc_pd(domain->pd);
	outcome(thread, V_DEALLOC_PD, &expect, err);
	if (err)
		return;
	if (domain->base >= 0)
		thread->domain[domain->base].users--;
	else
		thread->counts.pds--;
	domain->pd = NULL;
}

/*
 * A parent domain is not to end before its MRs; the library does not look. The
 * process's own has one parent domain always.
 */
void call_dealloc_pd(struct thread *thread)
{
	int at = pick(&thread->rng, DOMAINS);
	struct domain *domain = &thread->domain[at];

	if (!domain->pd || at == DOMAIN_OPTED)
		return;
	if (domain->base >= 0 && domain->keys && !domain->users)
		return;
	free_domain(thread, at);
}
