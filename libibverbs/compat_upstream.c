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

#define LACKS_OBJECT(name, node, type, ...)                                    \
	COMPAT_SYMVER_FUNC(name, lacks, node, type *, __VA_ARGS__)             \
	{                                                                      \
		errno = EOPNOTSUPP;                                            \
		return NULL;                                                   \
	}

#define LACKS(name, node, ...)                                                 \
	COMPAT_SYMVER_FUNC(name, lacks, node, int, __VA_ARGS__)                \
	{                                                                      \
		return EOPNOTSUPP;                                             \
	}

LACKS_OBJECT(ibv_alloc_dmah, "IBVERBS_1.15", struct ibv_dmah,
	     struct ibv_context *context, struct ibv_dmah_init_attr *attr)
LACKS(ibv_dealloc_dmah, "IBVERBS_1.15", struct ibv_dmah *dmah)

LACKS(_ibv_query_comp_cntr_caps, "IBVERBS_1.18", struct ibv_context *context,
      struct ibv_comp_cntr_caps *caps, size_t caps_size)
LACKS_OBJECT(ibv_create_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr,
	     struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr)
LACKS(ibv_destroy_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr)
LACKS(ibv_set_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t value)
LACKS(ibv_set_err_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t value)
LACKS(ibv_inc_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t amount)
LACKS(ibv_inc_err_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t amount)
LACKS(ibv_read_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t *value)
LACKS(ibv_read_err_comp_cntr, "IBVERBS_1.18", struct ibv_comp_cntr *cntr,
      uint64_t *value)
LACKS(ibv_qp_attach_comp_cntr, "IBVERBS_1.18", struct ibv_qp *qp,
      struct ibv_comp_cntr *cntr, struct ibv_qp_attach_comp_cntr_attr *attr)
