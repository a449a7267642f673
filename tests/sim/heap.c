// SPDX-License-Identifier: GPL-2.0
/*
 * A DMA-buf heap under the name that confidential guests have for memory shared
 * with the host, for kernels that run in no such guest. The kernel takes no
 * heap back, so this module stays once it is loaded.
 *
 * In ibv_sim_heap/ of debugfs:
 *
 *   live   PIECES BYTES that are out
 *   total  pieces that were ever handed out
 *   fail   write N ERRNO: the n-th allocation from now fails
 */
#include <linux/debugfs.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

struct piece {
	size_t count;
	struct sg_table table;
	struct page *pages[] __counted_by(count);
};

static struct {
	struct mutex lock;
	u64 pieces;
	u64 bytes;
	u64 total;
	unsigned int fail_in;
	int fail_with;
} state = {
	.lock = __MUTEX_INITIALIZER(state.lock),
};

static void free_piece(struct piece *piece)
{
	size_t i;

	sg_free_table(&piece->table);
	for (i = 0; i < piece->count && piece->pages[i]; i++)
		__free_page(piece->pages[i]);
	kvfree(piece);
}

static bool scatter;
module_param(scatter, bool, 0644);
MODULE_PARM_DESC(scatter, "single pages, so that nothing is contiguous by chance");

/*
 * In pieces as large as those of the kernel's own heap, where they can be had:
 * with single pages it takes long to import a DMA-buf.
 */
static unsigned int alloc_pages_of(struct page **pages, size_t count)
{
	static const unsigned int orders[] = { 8, 4, 0 };
	unsigned int i, j, order;
	struct page *page;

	for (i = scatter ? 2 : 0; i < ARRAY_SIZE(orders); i++) {
		order = orders[i];
		if (count < 1UL << order)
			continue;
		page = alloc_pages(GFP_HIGHUSER | __GFP_ZERO | __GFP_NOWARN |
				   (order ? __GFP_NORETRY :
					    __GFP_RETRY_MAYFAIL), order);
		if (!page)
			continue;
		split_page(page, order);
		for (j = 0; j < 1U << order; j++)
			pages[j] = page + j;
		return 1U << order;
	}

	return 0;
}

static struct piece *alloc_piece(size_t len)
{
	size_t count = len >> PAGE_SHIFT;
	struct piece *piece;
	unsigned int n;
	size_t i;

	if (count > totalram_pages())
		return NULL;

	piece = kvzalloc(struct_size(piece, pages, count), GFP_KERNEL);
	if (!piece)
		return NULL;

	piece->count = count;
	for (i = 0; i < count; i += n) {
		n = alloc_pages_of(&piece->pages[i], count - i);
		if (!n || fatal_signal_pending(current)) {
			free_piece(piece);
			return NULL;
		}
	}

	if (sg_alloc_table_from_pages(&piece->table, piece->pages, count, 0, len,
				      GFP_KERNEL)) {
		free_piece(piece);
		return NULL;
	}

	return piece;
}

/* A copy of the list, which is as long as there are pieces of memory */
static struct sg_table *copy_table(const struct sg_table *from)
{
	struct scatterlist *sg, *copy;
	struct sg_table *table;
	int i;

	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return NULL;

	if (sg_alloc_table(table, from->orig_nents, GFP_KERNEL)) {
		kfree(table);
		return NULL;
	}

	copy = table->sgl;
	for_each_sgtable_sg(from, sg, i) {
		sg_set_page(copy, sg_page(sg), sg->length, sg->offset);
		copy = sg_next(copy);
	}
	return table;
}

static struct sg_table *heap_map(struct dma_buf_attachment *attachment,
				 enum dma_data_direction direction)
{
	struct piece *piece = attachment->dmabuf->priv;
	struct sg_table *table;
	int ret;

	table = copy_table(&piece->table);
	if (!table)
		return ERR_PTR(-ENOMEM);

	ret = dma_map_sgtable(attachment->dev, table, direction, 0);
	if (ret)
		goto err_table;

	return table;

err_table:
	sg_free_table(table);
	kfree(table);
	return ERR_PTR(ret);
}

static void heap_unmap(struct dma_buf_attachment *attachment,
		       struct sg_table *table,
		       enum dma_data_direction direction)
{
	dma_unmap_sgtable(attachment->dev, table, direction, 0);
	sg_free_table(table);
	kfree(table);
}

/* By frame, as the kernel's own heaps: such a mapping cannot be pinned. */
static int heap_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct piece *piece = dmabuf->priv;
	size_t i = vma->vm_pgoff;
	unsigned long addr;
	int ret = 0;

	for (addr = vma->vm_start; addr < vma->vm_end && !ret;
	     addr += PAGE_SIZE, i++)
		ret = remap_pfn_range(vma, addr, page_to_pfn(piece->pages[i]),
				      PAGE_SIZE, vma->vm_page_prot);

	return ret;
}

static void heap_release(struct dma_buf *dmabuf)
{
	mutex_lock(&state.lock);
	state.pieces--;
	state.bytes -= dmabuf->size;
	mutex_unlock(&state.lock);
	free_piece(dmabuf->priv);
}

static const struct dma_buf_ops heap_buf_ops = {
	.map_dma_buf = heap_map,
	.unmap_dma_buf = heap_unmap,
	.mmap = heap_mmap,
	.release = heap_release,
};

static int fail_on_demand(void)
{
	int ret = 0;

	mutex_lock(&state.lock);
	if (state.fail_in && !--state.fail_in)
		ret = state.fail_with;
	mutex_unlock(&state.lock);
	return ret;
}

static struct dma_buf *heap_allocate(struct dma_heap *heap, unsigned long len,
				     u32 fd_flags, u64 heap_flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;
	struct piece *piece;
	int ret;

	ret = fail_on_demand();
	if (ret)
		return ERR_PTR(ret);

	piece = alloc_piece(len);
	if (!piece)
		return ERR_PTR(-ENOMEM);

	info.exp_name = dma_heap_get_name(heap);
	info.ops = &heap_buf_ops;
	info.size = len;
	info.flags = fd_flags;
	info.priv = piece;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		free_piece(piece);
		return dmabuf;
	}

	mutex_lock(&state.lock);
	state.pieces++;
	state.bytes += len;
	state.total++;
	mutex_unlock(&state.lock);
	return dmabuf;
}

static const struct dma_heap_ops heap_ops = {
	.allocate = heap_allocate,
};

static int live_show(struct seq_file *seq, void *unused)
{
	mutex_lock(&state.lock);
	seq_printf(seq, "%llu %llu\n", state.pieces, state.bytes);
	mutex_unlock(&state.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(live);

static ssize_t fail_write(struct file *file, const char __user *user,
			  size_t count, loff_t *pos)
{
	unsigned int n, err;
	char text[32];

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, user, count))
		return -EFAULT;
	text[count] = '\0';
	if (sscanf(text, "%u %u", &n, &err) != 2 || !err || err > MAX_ERRNO)
		return -EINVAL;

	mutex_lock(&state.lock);
	state.fail_in = n;
	state.fail_with = -(int)err;
	mutex_unlock(&state.lock);
	return count;
}

static const struct file_operations fail_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = fail_write,
};

static int __init heap_init(void)
{
	const struct dma_heap_export_info info = {
		.name = "system_cc_shared",
		.ops = &heap_ops,
	};
	struct dma_heap *heap;
	struct dentry *dir;

	heap = dma_heap_add(&info);
	if (IS_ERR(heap))
		return PTR_ERR(heap);

	dir = debugfs_create_dir("ibv_sim_heap", NULL);
	debugfs_create_file("live", 0400, dir, NULL, &live_fops);
	debugfs_create_file("fail", 0200, dir, NULL, &fail_fops);
	debugfs_create_u64("total", 0400, dir, &state.total);
	return 0;
}

module_init(heap_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Heap of shared memory, for tests");
MODULE_IMPORT_NS("DMA_BUF");
MODULE_IMPORT_NS("DMA_BUF_HEAP");
