// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The model of the contract: which results a call may have, by what the manual
 * pages say and by what the kernel does with memory of each kind. It knows
 * nothing of the library and makes no call.
 *
 * Where a call has several faults, which of them is told first is up to those
 * who look at it, so all of them may be the result.
 */
#include <errno.h>
#include <string.h>

#include "model.h"

#define KNOWN_MASK (IBV_REG_MR_MASK_IOVA | IBV_REG_MR_MASK_ADDR |	       \
		    IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET |	       \
		    IBV_REG_MR_MASK_BUF)
#define BY_FD (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET |		       \
	       IBV_REG_MR_MASK_IOVA)

void may(struct expect *expect, int result)
{
	if (!is_expected(expect, result))
		expect->result[expect->n++] = result;
}

bool is_expected(const struct expect *expect, int result)
{
	unsigned int i;

	for (i = 0; i < expect->n; i++)
		if (expect->result[i] == result)
			return true;
	return false;
}

static bool wants_dmabuf(const struct caps *caps)
{
	return strstr(caps->word, "dmabuf");
}

enum memory contract_memory(const struct caps *caps, bool shared)
{
	if (shared)
		return MEM_SHARED;
	return wants_dmabuf(caps) && caps->imports ? MEM_HEAP : MEM_PRIVATE;
}

bool contract_has_dmabuf(const struct caps *caps, bool shared)
{
	return shared || wants_dmabuf(caps);
}

void contract_alloc_buf(const struct caps *caps, bool shared, bool valid,
			size_t size, struct expect *expect)
{
	if (!valid || !size) {
		may(expect, EINVAL);
		return;
	}
	if (size >= (size_t)1 << 47) {
		may(expect, ENOMEM);
		/* Such a word, and a size that its pages cannot make up */
		if (!strcmp(caps->word, "huge") && !shared)
			may(expect, EOPNOTSUPP);
		return;
	}

	may(expect, 0);
	/* There may be no huge page left, or the size may be too small. */
	if (!strcmp(caps->word, "huge") && !shared) {
		may(expect, ENOMEM);
		may(expect, EOPNOTSUPP);
	}
}

static void check_access(const struct caps *caps, int access,
			 struct expect *expect)
{
	if ((access & IBV_ACCESS_REMOTE_WRITE) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		may(expect, EINVAL);
	if (access & IBV_ACCESS_ON_DEMAND && !caps->on_demand)
		may(expect, EOPNOTSUPP);
}

void contract_reg_address(const struct caps *caps, enum memory memory,
			  int access, struct expect *expect)
{
	check_access(caps, access, expect);
	if (caps->bounces)
		may(expect, EOPNOTSUPP);
	else if (memory != MEM_PRIVATE)
		may(expect, EFAULT);
}

static void reg_fd(const struct caps *caps, enum memory memory, int access,
		   struct expect *expect)
{
	if (!caps->imports) {
		may(expect, EOPNOTSUPP);
		return;
	}
	check_access(caps, access, expect);
	if (access & IBV_ACCESS_ON_DEMAND)
		may(expect, EINVAL);
	if (caps->bounces && memory != MEM_SHARED)
		may(expect, EOPNOTSUPP);
}

static bool in_buf(const struct ask *ask, enum fault fault)
{
	size_t size = ask->handle ? ask->handle->size : ask->region->size;

	if (fault == FAULT_RANGE)
		size++;
	return ask->offset >= 0 && ask->offset < size && ask->length &&
	       ask->length <= size - ask->offset;
}

/* The rules for a buffer, where all is well so far */
static bool is_valid(const struct ask *ask, bool has_dmabuf, enum fault fault)
{
	return ask->mask & IBV_REG_MR_MASK_ADDR &&
	       !(ask->mask &
		 (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET)) &&
	       ask->region && ask->same_pd && in_buf(ask, fault) &&
	       !(ask->mask & IBV_REG_MR_MASK_IOVA && has_dmabuf);
}

static void reg_buf(const struct caps *caps, const struct ask *ask,
		    enum fault fault, struct expect *expect)
{
	bool has_dmabuf = ask->handle ? ask->handle->by_fd :
			  ask->region && ask->region->has_dmabuf;

	if (!is_valid(ask, has_dmabuf, fault)) {
		may(expect, EINVAL);
		return;
	}
	/* A DMA-buf that the device cannot import is mapped so as to be pinned,
	 * unless it is the application's. */
	if (has_dmabuf && (caps->imports || ask->handle))
		reg_fd(caps, ask->region->memory, ask->access, expect);
	else
		contract_reg_address(caps, ask->region->memory, ask->access,
				     expect);
	if (ask->mask & IBV_REG_MR_MASK_IOVA && !ask->congruent)
		may(expect, EINVAL);
}

static void reg_dmabuf(const struct caps *caps, const struct ask *ask,
		       struct expect *expect)
{
	reg_fd(caps, ask->fd_memory, ask->access, expect);
	if (!caps->imports)
		return;
	if (!ask->fd_size)
		may(expect, ask->fd_error);
	else if (ask->fd_offset > ask->fd_size ||
		 ask->length > ask->fd_size - ask->fd_offset)
		may(expect, EINVAL);
	if (!ask->congruent)
		may(expect, EINVAL);
}

void contract_reg(const struct caps *caps, const struct ask *ask,
		  enum fault fault, struct expect *expect)
{
	if (!ask->has_pd || !ask->has_attr) {
		may(expect, EINVAL);
		return;
	}
	if (ask->mask & ~(uint64_t)KNOWN_MASK) {
		may(expect, EOPNOTSUPP);
		return;
	}

	if (ask->mask & IBV_REG_MR_MASK_BUF) {
		reg_buf(caps, ask, fault, expect);
	} else if (ask->mask == BY_FD) {
		reg_dmabuf(caps, ask, expect);
	} else if ((ask->mask & ~IBV_REG_MR_MASK_IOVA) ==
		   IBV_REG_MR_MASK_ADDR) {
		contract_reg_address(caps, ask->region->memory, ask->access,
				     expect);
		if (ask->wraps ||
		    (ask->mask & IBV_REG_MR_MASK_IOVA && !ask->congruent))
			may(expect, EINVAL);
		if (ask->wraps && ask->access & IBV_ACCESS_ON_DEMAND)
			may(expect, EOVERFLOW);
	} else {
		may(expect, EINVAL);
	}
	if (!expect->n)
		may(expect, 0);
}
