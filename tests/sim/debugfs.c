// SPDX-License-Identifier: GPL-2.0
/*
 * What tests see and do of the device, in ibv_sim/ of debugfs:
 *
 *   live      KIND COUNT BYTES, a line each: objects and the memory they have
 *   memory    KIND ID PART PID SOURCE OFFSET LENGTH EXPORTER, a line for each
 *             piece of memory; SOURCE is "address" or the inode of a DMA-buf
 *   refused   how many pieces a bounce device has not taken
 *   unneeded  how many shared pieces a device that does not bounce was given
 *   fail      write NAME N ERRNO: the n-th object of KIND NAME from now fails,
 *             or the n-th PART NAME, when what comes before it is there
 *   mr/KEY    the memory of a MR as the device reaches it: position in the file
 *             is the address that the key goes with
 */
#include <linux/debugfs.h>
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/highmem.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "sim.h"

static u64 obj_bytes(const struct sim_obj *obj)
{
	u64 bytes = 0;
	int part;

	for (part = 0; part < SIM_PARTS; part++)
		if (obj->parts[part])
			bytes += obj->parts[part]->length;

	return bytes;
}

static int live_show(struct seq_file *seq, void *unused)
{
	struct sim_device *dev = seq->private;
	struct sim_obj *obj;
	unsigned long id;
	u64 bytes;
	int kind;

	mutex_lock(&dev->lock);
	for (kind = 0; kind < SIM_KINDS; kind++) {
		bytes = 0;
		xa_for_each(&dev->kinds[kind].objects, id, obj)
			bytes += obj_bytes(obj);
		seq_printf(seq, "%s %u %llu\n", sim_kind_names[kind],
			   dev->kinds[kind].count, bytes);
	}
	mutex_unlock(&dev->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(live);

static void show_part(struct seq_file *seq, const struct sim_obj *obj, int part)
{
	struct ib_umem *umem = obj->parts[part];

	seq_printf(seq, "%s %u %s %d ", sim_kind_names[obj->kind], obj->id,
		   sim_part_names[part], obj->pid);
	if (umem->is_dmabuf)
		seq_printf(seq, "%lu ",
			   (unsigned long)file_inode(
				to_ib_umem_dmabuf(umem)->attach->dmabuf->file)
					->i_ino);
	else
		seq_puts(seq, "address ");
	seq_printf(seq, "%lu %zu %s\n", umem->address, umem->length,
		   sim_umem_exporter(umem) ?: "-");
}

static int memory_show(struct seq_file *seq, void *unused)
{
	struct sim_device *dev = seq->private;
	struct sim_obj *obj;
	unsigned long id;
	int kind, part;

	mutex_lock(&dev->lock);
	for (kind = 0; kind < SIM_KINDS; kind++)
		xa_for_each(&dev->kinds[kind].objects, id, obj)
			for (part = 0; part < SIM_PARTS; part++)
				if (obj->parts[part])
					show_part(seq, obj, part);
	mutex_unlock(&dev->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(memory);

static ssize_t fail_write(struct file *file, const char __user *user,
			  size_t count, loff_t *pos)
{
	struct sim_device *dev = file_inode(file)->i_private;
	unsigned int n, err;
	char text[64], name[16];
	struct sim_fail *fail;
	int kind, part;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, user, count))
		return -EFAULT;
	text[count] = '\0';
	if (sscanf(text, "%15s %u %u", name, &n, &err) != 3 || !err ||
	    err > MAX_ERRNO)
		return -EINVAL;

	kind = match_string(sim_kind_names, SIM_KINDS, name);
	part = match_string(sim_part_names, SIM_PARTS, name);
	if (kind < 0 && part < 0)
		return -EINVAL;

	fail = kind >= 0 ? &dev->kinds[kind].fail : &dev->part_fails[part];
	mutex_lock(&dev->lock);
	fail->in = n;
	fail->with = -(int)err;
	mutex_unlock(&dev->lock);
	return count;
}

static const struct file_operations fail_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = fail_write,
};

/*
 * Moves bytes between user and what the device sees from offset of umem on, by
 * the DMA addresses that ib_core made; write: to the umem.
 */
static int dma_copy(struct ib_umem *umem, size_t offset, char __user *user,
		    size_t count, bool write)
{
	struct device *dma_device = umem->ibdev->dma_device;
	size_t end, n, left;
	struct scatterlist *sg;
	phys_addr_t at;
	void *map;
	int i;

	offset += ib_umem_offset(umem);
	for_each_sgtable_dma_sg(&umem->sgt_append.sgt, sg, i) {
		end = sg_dma_len(sg);
		for (; count && offset < end;
		     offset += n, user += n, count -= n) {
			at = dma_to_phys(dma_device,
					 sg_dma_address(sg) + offset);
			n = min3(count, end - offset,
				 PAGE_SIZE - offset_in_page(at));

			map = kmap_local_page(pfn_to_page(PHYS_PFN(at)));
			left = write ?
				copy_from_user(map + offset_in_page(at), user,
					       n) :
				copy_to_user(user, map + offset_in_page(at), n);
			kunmap_local(map);
			if (left)
				return -EFAULT;
		}
		if (!count)
			return 0;
		offset -= end;
	}

	return -EFAULT;
}

static ssize_t mr_access(struct file *file, char __user *user, size_t count,
			 loff_t *pos, bool write)
{
	struct sim_mr *mr = file_inode(file)->i_private;
	struct ib_umem *umem = mr->obj.parts[SIM_BUF];
	u64 offset = *pos - mr->ib.iova;
	int ret;

	if (*pos < mr->ib.iova || offset > mr->ib.length ||
	    count > mr->ib.length - offset)
		return -EFAULT;
	if (write && !ib_access_writable(mr->access))
		return -EACCES;

	ret = dma_copy(umem, offset, user, count, write);
	if (ret)
		return ret;

	*pos += count;
	return count;
}

static ssize_t mr_read(struct file *file, char __user *user, size_t count,
		       loff_t *pos)
{
	return mr_access(file, user, count, pos, false);
}

static ssize_t mr_write(struct file *file, const char __user *user,
			size_t count, loff_t *pos)
{
	return mr_access(file, (char __user *)user, count, pos, true);
}

static const struct file_operations mr_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = mr_read,
	.write = mr_write,
	.llseek = default_llseek,
};

void sim_debugfs_add_mr(struct sim_mr *mr)
{
	char name[16];

	snprintf(name, sizeof(name), "%08x", mr->ib.lkey);
	mr->obj.file = debugfs_create_file(name, 0600, mr->obj.dev->debugfs_mr,
					   mr, &mr_fops);
}

void sim_debugfs_remove_mr(struct sim_mr *mr)
{
	debugfs_remove(mr->obj.file);
}

void sim_debugfs_add(struct sim_device *dev)
{
	dev->debugfs = debugfs_create_dir("ibv_sim", NULL);
	dev->debugfs_mr = debugfs_create_dir("mr", dev->debugfs);
	debugfs_create_file("live", 0400, dev->debugfs, dev, &live_fops);
	debugfs_create_file("memory", 0400, dev->debugfs, dev, &memory_fops);
	debugfs_create_file("fail", 0200, dev->debugfs, dev, &fail_fops);
	debugfs_create_u64("refused", 0400, dev->debugfs, &dev->refused);
	debugfs_create_u64("unneeded", 0400, dev->debugfs, &dev->unneeded);
}

void sim_debugfs_remove(struct sim_device *dev)
{
	debugfs_remove(dev->debugfs);
}
