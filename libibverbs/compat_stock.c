// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The one private symbol of the stock library that is used by what is no
 * provider: ibv_devinfo and pyverbs. With it those of a stock package run on
 * this library. A provider of a stock package finds the node, but no function
 * in it to register itself with, and is refused as before.
 */
#include <config.h>

#include <infiniband/driver.h>
#include <util/symver.h>

COMPAT_SYMVER_FUNC(ibv_query_gid_type, stock, "IBVERBS_PRIVATE_34", int,
		   struct ibv_context *context, uint8_t port_num,
		   unsigned int index, enum ibv_gid_type_sysfs *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
