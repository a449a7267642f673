// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a process and a thread have of the device, and the counts of it: those
 * that the model has, and those that the kernel tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>

#include <infiniband/mlx5dv.h>

#include "../guest/sim.h"
#include "model.h"
#include "resources.h"

#define PLAIN_SIZE ((size_t)16 * PAGE)
#define STAGE_SIZE ((size_t)PAGE)
#define SHARED_HEAP "/dev/dma_heap/system_cc_shared"

static bool registers_on_demand(const struct rdma *rdma)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	if (page == MAP_FAILED)
		abort();
	mr = ibv_reg_mr(rdma->base, page, PAGE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	if (mr)
		ibv_dereg_mr(mr);
	munmap(page, PAGE);
	return mr;
}

static void ask_caps(struct world *world)
{
	const struct rdma *rdma = &world->rdma;
	struct caps *caps = &world->caps;

	caps->bounces = rdma->bounces;
	caps->imports = rdma->imports;
	caps->is_rxe = rdma->is_rxe;
	caps->is_mlx5 = rdma->is_mlx5;
	caps->reregisters = rdma->is_mlx5 || world->config->native;
	caps->umems = rdma->is_mlx5;
	caps->word = getenv("IBV_BUF_BACKING") ?: "";
	caps->has_heap = !world->config->native && !access(SHARED_HEAP, F_OK);
	caps->on_demand = !rdma->bounces && registers_on_demand(rdma);
}

static struct ibv_pd *opted_in(struct world *world)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = world->rdma.base,
		.comp_mask =
			IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC,
	};

	return ibv_alloc_parent_domain(world->rdma.context, &attr);
}

void world_find(struct world *world)
{
	if (!world->config->native &&
	    !resources_find(getenv("TEST_DEVICE") ?: "", &world->index))
		halt(&world->thread[0], "there is no such device", "%s",
		     "TEST_DEVICE names it");
}

void world_open(struct world *world)
{
	struct rdma *rdma = &world->rdma;

	if (world->config->native ? native_open(rdma) : rdma_open(rdma))
		halt(&world->thread[0], "the device does not open", "%s",
		     strerror(errno));
	ask_caps(world);
	world->domain[DOMAIN_BASE] = (struct domain) {
		.pd = rdma->base,
		.base = -1,
	};
	world->domain[DOMAIN_OPTED] = (struct domain) {
		.pd = opted_in(world),
		.base = DOMAIN_BASE,
		.shared = rdma->bounces,
	};
	if (!world->domain[DOMAIN_OPTED].pd)
		halt(&world->thread[0], "no parent domain", "%s",
		     strerror(errno));
	pthread_mutex_init(&world->mutex, NULL);
	pthread_barrier_init(&world->barrier, NULL, world->config->threads);
	world->fds = mem_fds();
}

void world_close(struct world *world)
{
	if (ibv_dealloc_pd(world->domain[DOMAIN_OPTED].pd))
		halt(&world->thread[0], "the last domain is in use", "%s",
		     strerror(errno));
	if (world->config->native)
		native_close(&world->rdma);
	else
		rdma_close(&world->rdma);
}

void world_empty_store(const struct world *world)
{
	struct ibv_buf *buf;

	if (ibv_alloc_buf(world->rdma.base, (size_t)1 << 60, &buf))
		abort();
}

struct counts world_kernel(const struct world *world)
{
	struct resources resources;
	struct counts counts = {};

	if (world->config->native)
		return native_counts();

	if (!resources_read(world->index, &resources))
		abort();
	counts.contexts = resources.contexts;
	counts.pds = resources.pds;
	counts.mrs = resources.mrs;
	if (sim_is_there()) {
		counts.heap_pieces = sim_heap().pieces;
		counts.umems = sim_count("umem");
		counts.refused = sim_refused();
	}
	return counts;
}

struct counts world_counts(const struct world *world)
{
	struct counts sum = { .contexts = 1, .pds = 1 };
	unsigned int i;

	if (world->parked.addr && world->parked.memory == MEM_SHARED)
		sum.heap_pieces++;
	for (i = 0; i < world->config->threads; i++) {
		const struct counts *counts = &world->thread[i].counts;

		sum.pds += counts->pds;
		sum.mrs += counts->mrs;
		sum.umems += counts->umems;
		sum.heap_pieces += counts->heap_pieces;
		sum.refused += counts->refused;
	}
	return sum;
}

size_t world_fds(const struct world *world)
{
	size_t sum = world->fds;
	unsigned int i;

	for (i = 0; i < world->config->threads; i++)
		sum += world->thread[i].fds;
	return sum + (world->parked.addr && world->parked.has_dmabuf);
}

static void open_plain(struct thread *thread)
{
	struct region *region = &thread->region[REGION_PLAIN];

	region->addr = mmap(NULL, PLAIN_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region->addr == MAP_FAILED)
		halt(thread, "no memory", "%s", strerror(errno));
	region->size = PLAIN_SIZE;
	region->memory = MEM_PRIVATE;
	region->fd = -1;
}

/* Memory of the shared heap that the process has by itself, with its DMA-buf */
static void open_heap(struct thread *thread)
{
	struct region *region = &thread->region[REGION_HEAP];
	struct dma_heap_allocation_data data = {
		.len = PLAIN_SIZE,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int heap;

	if (!thread->world->caps.has_heap)
		return;
	heap = open(SHARED_HEAP, O_RDWR | O_CLOEXEC);
	if (heap < 0 || ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		halt(thread, "no heap", "%s", strerror(errno));
	close(heap);
	region->addr = mmap(NULL, PLAIN_SIZE, PROT_READ | PROT_WRITE,
			    MAP_SHARED, data.fd, 0);
	if (region->addr == MAP_FAILED)
		halt(thread, "the heap cannot be mapped", "%s",
		     strerror(errno));
	region->size = PLAIN_SIZE;
	region->memory = MEM_SHARED;
	region->has_dmabuf = true;
	region->fd = data.fd;
	thread->counts.heap_pieces++;
	thread->fds++;
}

static void open_traffic(struct thread *thread)
{
	const struct rdma *rdma = &thread->world->rdma;

	thread->stage = mmap(NULL, STAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (thread->stage == MAP_FAILED || pair_open(&thread->pair, rdma))
		halt(thread, "no QPs", "%s", strerror(errno));
	thread->stage_mr = ibv_reg_mr(rdma->base, thread->stage, STAGE_SIZE,
				      IBV_ACCESS_LOCAL_WRITE);
	if (!thread->stage_mr)
		halt(thread, "no MR for traffic", "%s", strerror(errno));
	thread->counts.mrs++;
}

static void close_traffic(struct thread *thread)
{
	ibv_dereg_mr(thread->stage_mr);
	thread->counts.mrs--;
	pair_close(&thread->pair);
	munmap(thread->stage, STAGE_SIZE);
}

void thread_open(struct thread *thread)
{
	struct world *world = thread->world;
	size_t refused = thread->counts.refused;
	unsigned int number = thread->number;
	int i;

	memset(thread, 0, sizeof(*thread));
	thread->world = world;
	thread->number = number;
	thread->counts.refused = refused;
	memcpy(thread->domain, world->domain, sizeof(world->domain));
	for (i = 0; i < EXPORTS; i++)
		thread->export[i].fd = -1;
	open_plain(thread);
	open_heap(thread);
	for (i = 0; i < REGION_FIRST; i++) {
		if (!thread->region[i].addr)
			continue;
		thread->region[i].want = calloc(1, PLAIN_SIZE);
		if (!thread->region[i].want)
			abort();
	}
	if (world->rdma.carries && !world->config->native)
		open_traffic(thread);
}

void thread_close(struct thread *thread)
{
	int i;

	for (i = 0; i < EXPORTS; i++)
		if (thread->export[i].fd >= 0)
			close_export(thread, i);
	for (i = 0; i < UMEMS; i++)
		if (thread->umem[i].umem)
			free_umem(thread, i);
	for (i = 0; i < KEYS; i++)
		if (thread->key[i].mr)
			free_key(thread, i);
	for (i = 0; i < HANDLES; i++)
		if (thread->handle[i].buf)
			free_handle(thread, i);
	for (i = REGION_FIRST; i < REGIONS; i++)
		if (thread->region[i].addr)
			free_region(thread, i);
	/* Parent domains are behind their bases, or before: twice. */
	for (i = DOMAIN_FIRST; i < DOMAINS; i++)
		if (thread->domain[i].pd && thread->domain[i].base >= 0)
			free_domain(thread, i);
	for (i = DOMAIN_FIRST; i < DOMAINS; i++)
		if (thread->domain[i].pd)
			free_domain(thread, i);
	if (thread->stage)
		close_traffic(thread);
	for (i = 0; i < REGION_FIRST; i++) {
		struct region *region = &thread->region[i];

		if (!region->addr)
			continue;
		region_check(thread, i);
		munmap(region->addr, region->size);
		if (region->fd >= 0) {
			close(region->fd);
			thread->counts.heap_pieces--;
			thread->fds--;
		}
		free(region->want);
	}
}
