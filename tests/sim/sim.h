/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An RDMA device without hardware, for tests: it has the user ABI of another
 * one (its personality), so that the provider of that one in rdma-core drives
 * it. All memory that it is given goes through ib_core as that of a real device
 * does; it moves no data but what debugfs asks for.
 */
#ifndef IBV_SIM_H
#define IBV_SIM_H

#include <linux/mutex.h>
#include <linux/xarray.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

enum sim_kind {
	SIM_UCONTEXT,
	SIM_PD,
	SIM_MR,
	SIM_MW,
	SIM_AH,
	SIM_CQ,
	SIM_QP,
	SIM_SRQ,
	SIM_WQ,
	SIM_XRCD,
	SIM_UMEM,
	SIM_KINDS,
};

/* The pieces of memory that an object may have */
enum sim_part {
	SIM_BUF,	/* the ring; all of a MR */
	SIM_SQ_BUF,	/* the send queue, where it has a ring of its own */
	SIM_DB,		/* the doorbell record */
	SIM_PARTS,
};

/* What each object of the device begins with, after that of ib_core */
struct sim_obj {
	struct sim_device *dev;
	enum sim_kind kind;
	u32 id;			/* number or, shifted, key */
	pid_t pid;		/* of the process that made it */
	struct ib_umem *parts[SIM_PARTS];
	struct dentry *file;	/* of a MR */
};

struct sim_ucontext {
	struct ib_ucontext ib;
	struct sim_obj obj;
	u32 uars;		/* pages that doorbells are rung on */
	bool devx;		/* of mlx5: may have umems */
};

struct sim_pd {
	struct ib_pd ib;
	struct sim_obj obj;
};

struct sim_mr {
	struct ib_mr ib;
	struct sim_obj obj;
	int access;
};

struct sim_mw {
	struct ib_mw ib;
	struct sim_obj obj;
};

struct sim_ah {
	struct ib_ah ib;
	struct sim_obj obj;
};

struct sim_xrcd {
	struct ib_xrcd ib;
	struct sim_obj obj;
};

/* Kernel memory that a process maps */
struct sim_pages {
	struct rdma_user_mmap_entry entry;
	void *pages;
	size_t size;
};

struct sim_cq {
	struct ib_cq ib;
	struct sim_obj obj;
	struct sim_pages *pages, *db;
};

struct sim_qp {
	struct ib_qp ib;
	struct sim_obj obj;
	struct ib_qp_cap cap;
	enum ib_qp_state state;
	struct sim_pages *sq, *rq, *db;
};

struct sim_srq {
	struct ib_srq ib;
	struct sim_obj obj;
	struct ib_srq_attr attr;
};

struct sim_wq {
	struct ib_wq ib;
	struct sim_obj obj;
};

/* A failure on demand */
struct sim_fail {
	u32 in;			/* so many until one fails; 0: none does */
	int with;		/* -errno */
};

/* All of one kind; under the device's lock */
struct sim_kind_state {
	struct xarray objects;	/* by id */
	u32 next;		/* id to try first */
	u32 count;
	struct sim_fail fail;
};

struct sim_device {
	struct ib_device ib;
	const struct sim_personality *personality;
	bool bounce;
	struct page *uar;	/* what doorbells are rung on */
	struct mutex lock;
	struct sim_kind_state kinds[SIM_KINDS];
	struct sim_fail part_fails[SIM_PARTS];
	u64 refused;		/* pieces of memory that bounce forbids */
	u64 unneeded;		/* shared ones that a device without got */
	struct dentry *debugfs;
	struct dentry *debugfs_mr;
};

struct sim_personality {
	const char *name;
	const struct ib_device_ops *ops;
	const struct uapi_definition *defs;
	enum ib_qp_type driver_qp;	/* whose states IB_QPT_DRIVER has */
};

extern const struct sim_personality sim_mlx5, sim_efa;
extern const struct uapi_definition sim_devx_defs[];
extern const struct ib_device_ops sim_common_ops;
extern const char *const sim_kind_names[SIM_KINDS];
extern const char *const sim_part_names[SIM_PARTS];

/* Module parameters */
extern unsigned int sim_max_objects, sim_max_cqe, sim_max_wr;

#define to_sim(ibdev) container_of(ibdev, struct sim_device, ib)
#define SIM_OF(type, object) container_of(object, struct type, ib)

/*
 * Give obj, all zero but for what ib_core uses, its number. Fails as the limits
 * and debugfs say. sim_obj_remove() also releases its memory.
 */
int sim_obj_add(struct ib_device *ibdev, struct sim_obj *obj,
		enum sim_kind kind);
void sim_obj_remove(struct sim_obj *obj);

/* Make umem or an ERR_PTR a part of obj; umem is released if it fails. */
int sim_obj_set(struct sim_obj *obj, enum sim_part part, struct ib_umem *umem);

/* Name of the exporter of a DMA-buf, NULL if umem is not one */
const char *sim_umem_exporter(struct ib_umem *umem);

void sim_device_attr(struct ib_device *ibdev, struct ib_device_attr *attr);

/* For those personalities whose ABI has it */
struct ib_mr *sim_rereg_user_mr(struct ib_mr *ib, int flags, u64 start,
				u64 length, u64 iova, int access,
				struct ib_pd *pd, struct ib_udata *udata);

/* Pages for a process to map; the key of sim_pages_key() says where. */
struct sim_pages *sim_pages_alloc(struct ib_ucontext *ucontext, size_t size);
void sim_pages_free(struct sim_pages *pages);
u64 sim_pages_key(struct sim_pages *pages);
int sim_pages_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma);

void sim_debugfs_add(struct sim_device *dev);
void sim_debugfs_remove(struct sim_device *dev);
void sim_debugfs_add_mr(struct sim_mr *mr);
void sim_debugfs_remove_mr(struct sim_mr *mr);

#endif /* IBV_SIM_H */
