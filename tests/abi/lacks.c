// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Calls what upstream's library has and ours answers for without having it:
 * built with upstream's headers and library, run on ours. Each is named with
 * its answer; without an object there is nothing that it could take or do.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

static bool good = true;

static void answers(const char *name, int error)
{
	printf("%s: %s\n", name, error ? strerrorname_np(error) : "success");
	good &= error == EOPNOTSUPP;
}

static void gives(const char *name, const void *object)
{
	answers(name, object ? 0 : errno);
	errno = 0;
}

int main(void)
{
	struct ibv_qp_attach_comp_cntr_attr attach = {};
	struct ibv_comp_cntr_init_attr cntr = {};
	struct ibv_dmah_init_attr dmah = {};
	struct ibv_comp_cntr_caps caps = {};
	uint64_t value = 7;

	gives("ibv_alloc_dmah", ibv_alloc_dmah(NULL, &dmah));
	answers("ibv_dealloc_dmah", ibv_dealloc_dmah(NULL));
	answers("_ibv_query_comp_cntr_caps",
		ibv_query_comp_cntr_caps(NULL, &caps));
	gives("ibv_create_comp_cntr", ibv_create_comp_cntr(NULL, &cntr));
	answers("ibv_destroy_comp_cntr", ibv_destroy_comp_cntr(NULL));
	answers("ibv_set_comp_cntr", ibv_set_comp_cntr(NULL, 1));
	answers("ibv_set_err_comp_cntr", ibv_set_err_comp_cntr(NULL, 1));
	answers("ibv_inc_comp_cntr", ibv_inc_comp_cntr(NULL, 1));
	answers("ibv_inc_err_comp_cntr", ibv_inc_err_comp_cntr(NULL, 1));
	answers("ibv_read_comp_cntr", ibv_read_comp_cntr(NULL, &value));
	answers("ibv_read_err_comp_cntr",
		ibv_read_err_comp_cntr(NULL, &value));
	answers("ibv_qp_attach_comp_cntr",
		ibv_qp_attach_comp_cntr(NULL, NULL, &attach));
	if (value != 7)
		good = false;
	return !good;
}
