// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The kernel's counts of the objects of a device, by netlink. See resources.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <infiniband/verbs.h>

#include "resources.h"

struct request {
	struct nlmsghdr header;
	struct nlattr index_attr;
	uint32_t index;
};

struct reply {
	union {
		struct nlmsghdr header;
		char bytes[8192];
	};
};

static bool ask(uint32_t index, struct reply *reply)
{
	struct request request = {
		.header = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV,
						       RDMA_NLDEV_CMD_RES_GET),
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.index_attr = {
			.nla_len = sizeof(struct nlattr) + sizeof(uint32_t),
			.nla_type = RDMA_NLDEV_ATTR_DEV_INDEX,
		},
		.index = index,
	};
	ssize_t n = -1;
	int fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0)
		return false;
	if (send(fd, &request, sizeof(request), 0) == sizeof(request))
		n = recv(fd, reply, sizeof(*reply), 0);
	close(fd);
	if (n < (ssize_t)sizeof(reply->header) ||
	    reply->header.nlmsg_len > n ||
	    reply->header.nlmsg_type != request.header.nlmsg_type) {
		if (n >= 0)
			errno = EPROTO;
		return false;
	}
	return true;
}

/* The next attribute of the type in [*at, end), or NULL; *at moves past it. */
static const struct nlattr *next_attr(const char **at, const char *end,
				      unsigned int type)
{
	const struct nlattr *attr;

	while (*at + NLA_HDRLEN <= end) {
		attr = (const struct nlattr *)*at;
		if (attr->nla_len < NLA_HDRLEN || *at + attr->nla_len > end)
			return NULL;
		*at += NLA_ALIGN(attr->nla_len);
		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return attr;
	}
	return NULL;
}

static const char *first_in(const struct nlattr *attr)
{
	return (const char *)attr + NLA_HDRLEN;
}

static const char *end_of(const struct nlattr *attr)
{
	return (const char *)attr + attr->nla_len;
}

static void take_entry(const struct nlattr *entry, struct resources *resources)
{
	const char *name_at = first_in(entry), *count_at = name_at;
	const struct nlattr *name, *count;
	uint64_t n;

	name = next_attr(&name_at, end_of(entry),
			 RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME);
	count = next_attr(&count_at, end_of(entry),
			  RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR);
	if (!name || !count)
		return;
	memcpy(&n, first_in(count), sizeof(n));
	if (!strcmp(first_in(name), "ctx"))
		resources->contexts = n;
	else if (!strcmp(first_in(name), "pd"))
		resources->pds = n;
	else if (!strcmp(first_in(name), "mr"))
		resources->mrs = n;
	else if (!strcmp(first_in(name), "cq"))
		resources->cqs = n;
	else if (!strcmp(first_in(name), "qp"))
		resources->qps = n;
}

bool resources_find(const char *name, uint32_t *index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false;
	int i;

	for (i = 0; list && list[i] && !found; i++) {
		found = !strcmp(ibv_get_device_name(list[i]), name);
		if (found)
			*index = ibv_get_device_index(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!found)
		fprintf(stderr, "# resources: no device %s\n", name);
	return found;
}

bool resources_read(uint32_t index, struct resources *resources)
{
	const struct nlattr *summary, *entry;
	struct reply reply;
	const char *at;

	memset(resources, 0, sizeof(*resources));
	if (!ask(index, &reply))
		goto err;
	at = reply.bytes + NLMSG_HDRLEN;
	summary = next_attr(&at, reply.bytes + reply.header.nlmsg_len,
			    RDMA_NLDEV_ATTR_RES_SUMMARY);
	errno = EPROTO;
	if (!summary)
		goto err;
	at = first_in(summary);
	while ((entry = next_attr(&at, end_of(summary),
				  RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY)))
		take_entry(entry, resources);
	return true;

err:
	fprintf(stderr, "# resources: %s\n", strerror(errno));
	return false;
}
