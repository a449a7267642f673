// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The functions of upstream's version nodes 1.15 and 1.18 that this library
 * lacks. A node stands for all of its functions: a program that needs one of
 * these loads here, and is told that there is no such thing, as it is told by
 * upstream's library on a device without it.
 *
 * They are for programs built elsewhere. No header declares them, and the
 * linker does not find them.
 */
#include <config.h>

#include <errno.h>

#include <infiniband/verbs.h>
#include <util/symver.h>

struct ibv_dmah_init_attr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

COMPAT_SYMVER_FUNC(ibv_alloc_dmah, lacks, "IBVERBS_1.15", struct ibv_dmah *,
		   struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

COMPAT_SYMVER_FUNC(ibv_dealloc_dmah, lacks, "IBVERBS_1.15", int,
		   struct ibv_dmah *dmah)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(_ibv_query_comp_cntr_caps, lacks, "IBVERBS_1.18", int,
		   struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
		   size_t caps_size)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_create_comp_cntr, lacks, "IBVERBS_1.18",
		   struct ibv_comp_cntr *, struct ibv_context *context,
		   struct ibv_comp_cntr_init_attr *attr)
{
	errno = EOPNOTSUPP;
	return NULL;
}

COMPAT_SYMVER_FUNC(ibv_destroy_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_set_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_set_err_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t value)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_inc_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_inc_err_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t amount)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_read_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_read_err_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_comp_cntr *cntr, uint64_t *value)
{
	return EOPNOTSUPP;
}

COMPAT_SYMVER_FUNC(ibv_qp_attach_comp_cntr, lacks, "IBVERBS_1.18", int,
		   struct ibv_qp *qp, struct ibv_comp_cntr *cntr,
		   struct ibv_qp_attach_comp_cntr_attr *attr)
{
	return EOPNOTSUPP;
}
