// SPDX-License-Identifier: GPL-2.0
/*
 * Of mlx5's DevX, the one object that is memory of a process: the umem. By
 * rdma/mlx5_user_ioctl_cmds.h of the kernel.
 */
#include <rdma/ib_umem.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#define UVERBS_MODULE_NAME sim_devx
#include <rdma/uverbs_named_ioctl.h>

#include "sim.h"

static struct ib_umem *get_umem(struct ib_device *ibdev,
				struct uverbs_attr_bundle *attrs, int access)
{
	struct ib_umem_dmabuf *dmabuf;
	u64 addr, length;
	int fd, ret;

	ret = uverbs_copy_from(&addr, attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR);
	if (!ret)
		ret = uverbs_copy_from(&length, attrs,
				       MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);
	if (ret)
		return ERR_PTR(ret);

	if (!uverbs_attr_is_valid(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD))
		return ib_umem_get_va(ibdev, addr, length, access);

	ret = uverbs_get_raw_fd(&fd, attrs,
				MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD);
	if (ret)
		return ERR_PTR(ret);

	dmabuf = ib_umem_dmabuf_get_pinned(ibdev, addr, length, fd, access);
	return IS_ERR(dmabuf) ? ERR_CAST(dmabuf) : &dmabuf->umem;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_DEVX_UMEM_REG)(
	struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj = uverbs_attr_get_uobject(
		attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
	struct ib_device *ibdev = attrs->context->device;
	struct sim_obj *obj;
	u32 access;
	int ret;

	if (!SIM_OF(sim_ucontext, attrs->context)->devx)
		return -EINVAL;

	ret = uverbs_get_flags32(&access, attrs,
				 MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS,
				 IB_ACCESS_LOCAL_WRITE |
				 IB_ACCESS_REMOTE_WRITE |
				 IB_ACCESS_REMOTE_READ |
				 IB_ACCESS_RELAXED_ORDERING);
	if (ret)
		return ret;

	obj = kzalloc(sizeof(*obj), GFP_KERNEL);
	if (!obj)
		return -ENOMEM;

	ret = sim_obj_add(ibdev, obj, SIM_UMEM);
	if (ret)
		goto err_free;

	ret = sim_obj_set(obj, SIM_BUF, get_umem(ibdev, attrs, access));
	if (ret)
		goto err_remove;

	uobj->object = obj;
	uverbs_finalize_uobj_create(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE);
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID,
			      &obj->id, sizeof(obj->id));

err_remove:
	sim_obj_remove(obj);
err_free:
	kfree(obj);
	return ret;
}

static int free_umem(struct ib_uobject *uobj, enum rdma_remove_reason why,
		     struct uverbs_attr_bundle *attrs)
{
	sim_obj_remove(uobj->object);
	kfree(uobj->object);
	return 0;
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_DEVX_UMEM_REG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE,
			MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR,
			   UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_PTR_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_LEN,
			   UVERBS_ATTR_TYPE(u64), UA_MANDATORY),
	UVERBS_ATTR_RAW_FD(MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD, UA_OPTIONAL),
	UVERBS_ATTR_FLAGS_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS,
			     enum ib_access_flags),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, u64),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID,
			    UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_DEVX_UMEM_DEREG,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE,
			MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_DEVX_UMEM,
			    UVERBS_TYPE_ALLOC_IDR(free_umem),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_REG),
			    &UVERBS_METHOD(MLX5_IB_METHOD_DEVX_UMEM_DEREG));

const struct uapi_definition sim_devx_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_DEVX_UMEM),
	{},
};
