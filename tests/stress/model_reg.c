// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The calls that register memory, and end or change a registration.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "../guest/sim.h"
#include "model.h"

#define ADDR IBV_REG_MR_MASK_ADDR
#define IOVA IBV_REG_MR_MASK_IOVA
#define BUF IBV_REG_MR_MASK_BUF
#define BY_FD (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IOVA)

static int pick_access(struct rng *rng, const struct caps *caps)
{
	int access = 0;

	if (!once_in(rng, 8))
		access |= IBV_ACCESS_LOCAL_WRITE;
	if (once_in(rng, 2))
		access |= IBV_ACCESS_REMOTE_READ;
	if (once_in(rng, 2))
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (once_in(rng, 8))
		access |= IBV_ACCESS_RELAXED_ORDERING;
	/* On a bounce device two causes would have one errno. */
	if (!caps->bounces && once_in(rng, 32))
		access |= IBV_ACCESS_ON_DEMAND;
	return access;
}

/* What a registration is made of: a buffer, a handle, or memory alone */
struct source {
	int region;
	int handle;		/* or -1 */
	struct ibv_buf *buf;
	char *addr;
	size_t size;
	int domain;
};

static bool pick_source(struct thread *thread, struct source *source)
{
	struct rng *rng = &thread->rng;
	int handle = pick(rng, HANDLES), region = pick(rng, REGIONS);

	if (once_in(rng, 3)) {
		const struct handle *of = &thread->handle[handle];

		*source = (struct source) {
			.region = of->region,
			.handle = handle,
			.buf = of->buf,
			.size = of->size,
			.domain = of->domain,
		};
		if (!of->buf)
			return false;
		source->addr = thread->region[of->region].addr + of->offset;
		return true;
	}

	*source = (struct source) {
		.region = region,
		.handle = -1,
		.buf = thread->region[region].buf,
		.addr = thread->region[region].addr,
		.size = thread->region[region].size,
		.domain = thread->region[region].domain,
	};
	return source->addr;
}

/* A range in the source, or one that is not */
static void pick_range(struct rng *rng, size_t size, bool valid,
		       int64_t *offset, size_t *length)
{
	*offset = pick(rng, size);
	*length = 1 + pick(rng, size - *offset);
	if (once_in(rng, 8))
		*length = size - *offset;
	if (valid)
		return;

	switch (pick(rng, 5)) {
	case 0:
		*length = size - *offset + 1;
		break;
	case 1:
		*length = 0;
		break;
	case 2:
		*offset = -1 - (int64_t)pick(rng, PAGE);
		break;
	case 3:
		*offset = size + pick(rng, PAGE);
		break;
	default:
		*length = SIZE_MAX - pick(rng, PAGE);
		break;
	}
}

static void check_fields(struct thread *thread, const struct ibv_mr *mr,
			 const struct ibv_pd *pd, const void *addr,
			 size_t length, int access)
{
	int i;

	if (mr->context != thread->world->rdma.context || mr->pd != pd)
		halt(thread, "context or pd of an MR", "%p, %p",
		     (void *)mr->context, (void *)mr->pd);
	if (mr->addr != addr || mr->length != length)
		halt(thread, "addr or length of an MR", "%p, %zu; not %p, %zu",
		     mr->addr, mr->length, addr, length);
	if (!mr->lkey ||
	    (access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE) &&
	     mr->rkey != mr->lkey))
		halt(thread, "keys of an MR", "%#x, %#x", mr->lkey, mr->rkey);
	for (i = 0; i < KEYS; i++)
		if (thread->key[i].mr && thread->key[i].mr != mr &&
		    thread->key[i].mr->lkey == mr->lkey)
			halt(thread, "two MRs with one key", "%#x", mr->lkey);
}

static void take_key(struct thread *thread, int at, const struct key *key)
{
	thread->key[at] = *key;
	thread->domain[key->domain].keys++;
	if (thread->domain[key->domain].base >= 0)
		thread->domain[thread->domain[key->domain].base].keys++;
	thread->region[key->region].users++;
	thread->region[key->region].keys++;
	if (key->handle >= 0)
		thread->handle[key->handle].users++;
	thread->counts.mrs++;
}

static void drop_key(struct thread *thread, int at)
{
	struct key *key = &thread->key[at];

	thread->domain[key->domain].keys--;
	if (thread->domain[key->domain].base >= 0)
		thread->domain[thread->domain[key->domain].base].keys--;
	thread->region[key->region].users--;
	if (key->handle >= 0)
		thread->handle[key->handle].users--;
	thread->counts.mrs--;
	memset(key, 0, sizeof(*key));
}

/* A bounce device counts what it does not take. */
static void count_refused(struct thread *thread, const struct ask *ask,
			  int result)
{
	if (thread->world->caps.bounces && result == EOPNOTSUPP &&
	    !(ask->mask & ~(uint64_t)(ADDR | BUF | BY_FD)))
		thread->counts.refused++;
}

void call_reg_buf_mr(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	const struct caps *caps = &thread->world->caps;
	int to = pick(rng, KEYS), other = pick(rng, DOMAINS);
	bool no_pd = once_in(rng, 64), no_buf = once_in(rng, 64);
	bool foreign = once_in(rng, 16), valid = !once_in(rng, 8);
	int access = pick_access(rng, caps);
	struct expect expect = {};
	struct source source;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ask ask;

	if (!pick_source(thread, &source) || !source.buf ||
	    thread->key[to].mr)
		return;
	pd = thread->domain[foreign ? other : source.domain].pd;
	if (!pd)
		return;

	ask = (struct ask) {
		.has_pd = !no_pd,
		.same_pd = pd == thread->domain[source.domain].pd,
		.has_attr = true,
		.mask = ADDR | BUF,
		.region = no_buf ? NULL : &thread->region[source.region],
		.handle = source.handle < 0 ? NULL :
					      &thread->handle[source.handle],
		.access = access,
		.congruent = true,
	};
	pick_range(rng, source.size, valid, &ask.offset, &ask.length);
	call(thread, "mr%d = ibv_reg_buf_mr(%s%d, %s%s%d, addr + %lld, %zu of %zu, %#x)",
	     to, no_pd ? "NULL not pd" : "pd", foreign ? other : source.domain,
	     no_buf ? "NULL not " : "", source.handle < 0 ? "buf" : "user",
	     source.handle < 0 ? source.region : source.handle,
	     (long long)ask.offset, ask.length, source.size, access);
	contract_reg(caps, &ask, thread->world->config->fault, &expect);
	errno = 0;
	mr = ibv_reg_buf_mr(no_pd ? NULL : pd, no_buf ? NULL : source.buf,
			    source.addr + ask.offset, ask.length, access);
	count_refused(thread, &ask, mr ? 0 : errno);
	outcome(thread, V_REG_BUF_MR, &expect, mr ? 0 : errno);
	if (!mr)
		return;

	check_fields(thread, mr, pd, source.addr + ask.offset, ask.length,
		     access);
	take_key(thread, to, &(struct key) {
		.mr = mr,
		.domain = source.domain,
		.region = source.region,
		.handle = source.handle,
		.offset = source.addr - thread->region[source.region].addr +
			  ask.offset,
		.length = ask.length,
		.iova = (uintptr_t)mr->addr,
		.access = access,
		.pinned = access,
		.by_fd = caps->imports &&
			 (ask.handle ? ask.handle->by_fd :
				       ask.region->has_dmabuf),
	});
}

static uint64_t pick_mask(struct rng *rng)
{
	static const uint64_t valid[] = {
		ADDR, ADDR | IOVA, BUF | ADDR, BUF | ADDR | IOVA, BY_FD,
	};
	uint64_t mask = pick(rng, 64);

	if (once_in(rng, 2))
		mask = valid[pick(rng, ARRAY_SIZE(valid))];
	if (once_in(rng, 64))
		mask |= 1ULL << (6 + pick(rng, 58));
	return mask;
}

/*
 * A descriptor of the region's DMA-buf, or of something else, or none: one that
 * is to be closed, or -1.
 */
static int pick_fd(struct thread *thread, int at, int *fd, struct ask *ask)
{
	const struct region *region = &thread->region[at];
	unsigned int which = pick(&thread->rng, 16);
	int own;

	ask->fd_size = 0;
	ask->fd_memory = region->memory;
	if (which == 0 || (which >= 3 && !region->has_dmabuf)) {
		*fd = -1;
		ask->fd_error = EBADF;
		return -1;
	}
	if (which == 1) {
		*fd = 1000000;
		ask->fd_error = EBADF;
		return -1;
	}
	if (which == 2 || !region->has_dmabuf) {
		*fd = STDERR_FILENO;
		ask->fd_error = EINVAL;
		return -1;
	}
	own = region->buf ? ibv_export_buf_dmabuf_fd(region->buf) :
			    fcntl(region->fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		halt(thread, "no descriptor", "%s", strerror(errno));
	*fd = own;
	ask->fd_size = mem_whole(region->size);
	return own;
}

void call_reg_mr_ex(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	const struct caps *caps = &thread->world->caps;
	int to = pick(rng, KEYS), other = pick(rng, DOMAINS);
	bool no_pd = once_in(rng, 64), no_buf = once_in(rng, 64);
	bool no_attr = once_in(rng, 64), foreign = once_in(rng, 16);
	bool valid = !once_in(rng, 8), congruent = !once_in(rng, 16);
	int access = pick_access(rng, caps);
	uint64_t mask = pick_mask(rng);
	struct ibv_mr_init_attr attr, before;
	struct expect expect = {};
	const struct region *region;
	int domain, own, fd, err;
	struct source source;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	struct ask ask;
	bool is_buf = mask & BUF;

	if (!pick_source(thread, &source) || thread->key[to].mr)
		return;
	/* Memory of no buffer goes with any domain. */
	domain = source.buf && !foreign ? source.domain : other;
	pd = thread->domain[domain].pd;
	if (!pd)
		return;
	region = &thread->region[source.region];

	ask = (struct ask) {
		.has_pd = !no_pd,
		.same_pd = source.buf && pd == thread->domain[source.domain].pd,
		.has_attr = !no_attr,
		.mask = mask,
		.region = is_buf && (no_buf || !source.buf) ? NULL : region,
		.handle = source.handle < 0 ? NULL :
					      &thread->handle[source.handle],
		.access = access,
		.congruent = congruent,
	};
	pick_range(rng, source.size, valid || !is_buf, &ask.offset,
		   &ask.length);
	own = pick_fd(thread, source.region, &fd, &ask);
	ask.fd_offset = pick(rng, region->size);
	if (mask == BY_FD) {
		ask.length = 1 + pick(rng, region->size - ask.fd_offset);
		if (once_in(rng, 8))
			ask.length += mem_whole(region->size);
		if (once_in(rng, 16))
			ask.fd_offset += mem_whole(region->size);
	} else if (!is_buf && once_in(rng, 32)) {
		ask.length = SIZE_MAX - pick(rng, PAGE);
		ask.wraps = true;
	}

	memset(&attr, 0, sizeof(attr));
	attr.length = ask.length;
	attr.access = access;
	attr.comp_mask = mask;
	attr.iova = ((uint64_t)pick(rng, 1 << 20) << 20) +
		    (mask == BY_FD ? ask.fd_offset :
		     (uintptr_t)source.addr + ask.offset) % PAGE;
	if (!congruent)
		attr.iova ^= 1 + pick(rng, PAGE - 1);
	attr.addr = source.addr + ask.offset;
	attr.fd = fd;
	attr.fd_offset = ask.fd_offset;
	attr.dmah = (void *)thread;
	attr.buf = no_buf ? NULL : source.buf;
	before = attr;

	call(thread, "mr%d = ibv_reg_mr_ex(%s%d, %s{ mask %#llx, %s%d + %lld, %zu of %zu, iova %#llx, %s at %llu, buf %s, access %#x })",
	     to, no_pd ? "NULL not pd" : "pd", domain,
	     no_attr ? "NULL not " : "", (unsigned long long)mask,
	     source.handle < 0 ? "buf" : "user",
	     source.handle < 0 ? source.region : source.handle,
	     (long long)ask.offset, ask.length, source.size,
	     (unsigned long long)attr.iova,
	     ask.fd_size ? "its DMA-buf" : "no DMA-buf",
	     (unsigned long long)ask.fd_offset, attr.buf ? "its" : "NULL",
	     access);
	contract_reg(caps, &ask, thread->world->config->fault, &expect);
	errno = 0;
	mr = ibv_reg_mr_ex(no_pd ? NULL : pd, no_attr ? NULL : &attr);
	err = errno;
	if (own >= 0)
		close(own);
	count_refused(thread, &ask, mr ? 0 : err);
	outcome(thread, V_REG_MR_EX, &expect, mr ? 0 : err);
	if (memcmp(&attr, &before, sizeof(attr)))
		halt(thread, "attributes of a registration changed", "%s",
		     "one of them");
	if (!mr)
		return;

	check_fields(thread, mr, pd,
		     mask == BY_FD ? (void *)(uintptr_t)ask.fd_offset :
				     attr.addr, ask.length, access);
	take_key(thread, to, &(struct key) {
		.mr = mr,
		.domain = domain,
		.region = source.region,
		/* Only what goes by the handle keeps it. */
		.handle = is_buf ? source.handle : -1,
		.offset = mask == BY_FD ? ask.fd_offset :
			  source.addr - region->addr + ask.offset,
		.length = ask.length,
		.iova = mask & IOVA ? attr.iova : (uintptr_t)attr.addr,
		.access = access,
		.pinned = access,
		.by_fd = mask == BY_FD ||
			 (is_buf && caps->imports &&
			  (ask.handle ? ask.handle->by_fd :
					region->has_dmabuf)),
	});
}

void free_key(struct thread *thread, int at)
{
	struct key *key = &thread->key[at];
	uint32_t lkey = key->mr->lkey;
	uint64_t iova = key->iova;
	struct expect expect = {};
	int err;
	char c;

	call(thread, "ibv_dereg_mr(mr%d)", at);
	may(&expect, 0);
	err = ibv_dereg_mr(key->mr);
	outcome(thread, V_DEREG_MR, &expect, err);
	region_check(thread, key->region);
	drop_key(thread, at);
	if (thread->world->rdma.carries)
		return;
	err = sim_read(lkey, iova, &c, 1);
	if (err != ENOENT)
		halt(thread, "a key after its MR", "%#x: %s", lkey,
		     strerror(err));
}

void call_dereg_mr(struct thread *thread)
{
	int at = pick(&thread->rng, KEYS);

	if (thread->key[at].mr)
		free_key(thread, at);
}

#define SUPPORTED (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |  \
		   IBV_REREG_MR_CHANGE_ACCESS)

/* New memory is taken by address: what was a buffer's is so no longer. */
void call_rereg_mr(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	const struct caps *caps = &thread->world->caps;
	int at = pick(rng, KEYS), region = pick(rng, REGIONS);
	int domain = pick(rng, DOMAINS), flags = pick(rng, 8), result;
	int access = pick_access(rng, caps) & ~IBV_ACCESS_ON_DEMAND;
	unsigned int wrong = pick(rng, 24);
	struct key *key = &thread->key[at], now;
	struct expect expect = {};
	struct ibv_mr before;
	int64_t offset = 0;
	size_t length = 0;
	char *addr = NULL;
	bool moves, no_input = false;

	if (wrong == 0)
		flags |= 1 << (3 + pick(rng, 20));
	moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	if (!key->mr || !thread->region[region].addr ||
	    !thread->domain[domain].pd ||
	    key->access & IBV_ACCESS_ON_DEMAND)
		return;
	if (moves) {
		pick_range(rng, thread->region[region].size, true, &offset,
			   &length);
		addr = thread->region[region].addr + offset;
		if (wrong == 1)
			addr = NULL;
		if (wrong == 2)
			length = 0;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS) && wrong != 3)
		access = 0;

	call(thread, "ibv_rereg_mr(mr%d, %#x, pd%d, buf%d + %lld%s, %zu, %#x)",
	     at, flags, domain, region, (long long)offset,
	     addr ? "" : " not, NULL", length, access);
	if (key->by_fd || flags & ~SUPPORTED ||
	    (moves && (!addr || !length)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
		no_input = true;
		may(&expect, EINVAL);
	} else if (!caps->reregisters) {
		may(&expect, EOPNOTSUPP);
	} else {
		if (!flags)
			may(&expect, EINVAL);
		if (moves)
			contract_reg_address(caps,
				thread->region[region].memory,
				flags & IBV_REREG_MR_CHANGE_ACCESS ?
					access : key->access, &expect);
		else if (access & IBV_ACCESS_REMOTE_WRITE &&
			 !(access & IBV_ACCESS_LOCAL_WRITE))
			may(&expect, EINVAL);
		/* Memory that was pinned to be read cannot be written. */
		if (!thread->world->config->native && !moves &&
		    flags & IBV_REREG_MR_CHANGE_ACCESS &&
		    access & IBV_ACCESS_LOCAL_WRITE &&
		    !(key->pinned & IBV_ACCESS_LOCAL_WRITE))
			may(&expect, EACCES);
		if (!expect.n)
			may(&expect, 0);
	}

	before = *key->mr;
	errno = 0;
	result = ibv_rereg_mr(key->mr, flags, thread->domain[domain].pd, addr,
			      length, access);
	if (result && result != (no_input ? IBV_REREG_MR_ERR_INPUT :
					    IBV_REREG_MR_ERR_CMD))
		halt(thread, "result of ibv_rereg_mr()", "%d", result);
	outcome(thread, V_REREG_MR, &expect, result ? errno : 0);
	if (result) {
		if (memcmp(&before, key->mr, sizeof(before)))
			halt(thread, "an MR changed", "by a failure");
		return;
	}

	now = *key;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		now.domain = domain;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		now.access = access;
	if (moves) {
		now.region = region;
		now.handle = -1;
		now.offset = offset;
		now.length = length;
		now.iova = (uintptr_t)addr;
		now.pinned = now.access;
	}
	drop_key(thread, at);
	take_key(thread, at, &now);
	check_fields(thread, now.mr, thread->domain[now.domain].pd,
		     moves ? addr : before.addr, now.length, now.access);
	if (now.handle < 0)
		region_check(thread, now.region);
}

static void take_umem(struct thread *thread, int at, const struct umem *umem)
{
	thread->umem[at] = *umem;
	thread->region[umem->region].users++;
	if (umem->handle >= 0)
		thread->handle[umem->handle].users++;
	thread->counts.umems++;
}

void call_umem_reg(struct thread *thread)
{
	struct rng *rng = &thread->rng;
	const struct caps *caps = &thread->world->caps;
	int to = pick(rng, UMEMS);
	bool no_buf = once_in(rng, 32), valid = !once_in(rng, 8);
	bool and_fd = once_in(rng, 32), unknown = once_in(rng, 32);
	struct mlx5dv_devx_umem_in in = {
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = PAGE,
		.comp_mask = MLX5DV_UMEM_MASK_BUF,
		.dmabuf_fd = -1,
	};
	struct mlx5dv_devx_umem_in before;
	struct mlx5dv_devx_umem *umem;
	const struct region *region;
	struct expect expect = {};
	struct source source;
	int64_t offset;
	bool by_fd;

	if (!caps->umems || thread->umem[to].umem ||
	    !pick_source(thread, &source) || !source.buf)
		return;
	region = &thread->region[source.region];
	by_fd = source.handle < 0 ? region->has_dmabuf :
				    thread->handle[source.handle].by_fd;
	pick_range(rng, source.size, valid, &offset, &in.size);
	in.addr = (void *)(uintptr_t)offset;
	in.buf = no_buf ? NULL : source.buf;
	if (and_fd)
		in.comp_mask |= MLX5DV_UMEM_MASK_DMABUF;
	if (unknown)
		in.comp_mask |= 1ULL << (5 + pick(rng, 59));
	before = in;

	call(thread, "umem%d = mlx5dv_devx_umem_reg_ex({ mask %#llx, %s%d, %lld, %zu of %zu })",
	     to, (unsigned long long)in.comp_mask,
	     source.handle < 0 ? "buf" : "user",
	     source.handle < 0 ? source.region : source.handle,
	     (long long)offset, in.size, source.size);
	if (unknown)
		may(&expect, EOPNOTSUPP);
	else if (and_fd || no_buf || offset < 0 || offset >= source.size ||
		 !in.size || in.size > source.size - offset)
		may(&expect, EINVAL);
	else if (caps->bounces && !(by_fd && region->memory == MEM_SHARED))
		may(&expect, EOPNOTSUPP);
	else if (!by_fd && region->memory != MEM_PRIVATE)
		may(&expect, EFAULT);
	else
		may(&expect, 0);
	errno = 0;
	umem = mlx5dv_devx_umem_reg_ex(thread->world->rdma.context, &in);
	if (!umem && errno == EOPNOTSUPP && !unknown)
		thread->counts.refused++;
	outcome(thread, V_UMEM_REG, &expect, umem ? 0 : errno);
	if (memcmp(&in, &before, sizeof(in)))
		halt(thread, "attributes of a umem changed", "%s",
		     "one of them");
	if (umem)
		take_umem(thread, to, &(struct umem) {
			.umem = umem,
			.region = source.region,
			.handle = source.handle,
		});
}

void free_umem(struct thread *thread, int at)
{
	struct umem *umem = &thread->umem[at];
	struct expect expect = {};

	call(thread, "mlx5dv_devx_umem_dereg(umem%d)", at);
	may(&expect, 0);
	outcome(thread, V_UMEM_DEREG, &expect,
		mlx5dv_devx_umem_dereg(umem->umem));
	region_check(thread, umem->region);
	thread->region[umem->region].users--;
	if (umem->handle >= 0)
		thread->handle[umem->handle].users--;
	thread->counts.umems--;
	umem->umem = NULL;
}

void call_umem_dereg(struct thread *thread)
{
	int at = pick(&thread->rng, UMEMS);

	if (thread->umem[at].umem)
		free_umem(thread, at);
}
