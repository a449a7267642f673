// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the kernel has of processes that use RDMA devices. See left.h.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_netlink.h>

#include "left.h"

#define DEBUGFS "/sys/kernel/debug"
#define TRIES 100

static bool add(struct left *left, const char *line)
{
	size_t used = strlen(left->text), length = strlen(line);

	if (used + length >= sizeof(left->text)) {
		fprintf(stderr, "# left: more than fits\n");
		return false;
	}
	memcpy(left->text + used, line, length + 1);
	return true;
}

/* The lines of a file that have the word in them */
static bool add_lines(struct left *left, FILE *file, const char *word)
{
	char line[512];

	while (fgets(line, sizeof(line), file))
		if (strstr(line, word) && !add(left, line))
			return false;
	return true;
}

static bool add_file(struct left *left, const char *path, const char *word)
{
	FILE *file = fopen(path, "re");
	bool done;

	if (!file)
		return errno == ENOENT;
	done = add_lines(left, file, word);
	fclose(file);
	return done;
}

/*
 * The kernel's summary of all RDMA devices, as it answers: which byte means
 * what does not matter here, and to run a program for it takes long.
 */
static bool add_answer(struct left *left, const unsigned char *at, size_t n)
{
	char hex[3];

	for (; n; n--, at++) {
		snprintf(hex, sizeof(hex), "%02x", *at);
		if (!add(left, hex))
			return false;
	}
	return add(left, "\n");
}

static bool add_answers(struct left *left, int fd)
{
	char buf[8192];
	struct nlmsghdr *msg;
	int n;

	for (;;) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n <= 0)
			return false;
		for (msg = (void *)buf; NLMSG_OK(msg, n);
		     msg = NLMSG_NEXT(msg, n)) {
			if (msg->nlmsg_type == NLMSG_DONE)
				return true;
			if (msg->nlmsg_type == NLMSG_ERROR ||
			    !add_answer(left, NLMSG_DATA(msg),
					NLMSG_PAYLOAD(msg, 0)))
				return false;
		}
	}
}

static bool add_devices(struct left *left)
{
	struct nlmsghdr msg = {
		.nlmsg_len = NLMSG_LENGTH(0),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV,
					       RDMA_NLDEV_CMD_RES_GET),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	bool done = false;
	int fd;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
	if (fd < 0 || send(fd, &msg, msg.nlmsg_len, 0) != msg.nlmsg_len)
		perror("# left: netlink");
	else
		done = add_answers(left, fd);
	if (fd >= 0)
		close(fd);
	return done;
}

bool left_read(struct left *left)
{
	left->text[0] = '\0';
	if (access(DEBUGFS "/dma_buf", F_OK) &&
	    mount("debugfs", DEBUGFS, "debugfs", 0, NULL)) {
		perror("# left: debugfs");
		return false;
	}

	if (!add_devices(left) || !left->text[0]) {
		fprintf(stderr, "# left: no RDMA device\n");
		return false;
	}
	return add_file(left, DEBUGFS "/dma_buf/bufinfo", "Total") &&
	       add_file(left, DEBUGFS "/ibv_sim/live", "") &&
	       add_file(left, DEBUGFS "/ibv_sim/memory", "") &&
	       add_file(left, DEBUGFS "/ibv_sim_heap/live", "") &&
	       add_file(left, "/proc/meminfo", "HugePages_");
}

bool left_as(const struct left *before)
{
	struct left now;
	int i;

	for (i = 0; i < TRIES; i++) {
		if (!left_read(&now))
			return false;
		if (!strcmp(now.text, before->text))
			return true;
		usleep(50000);
	}
	fprintf(stderr, "# before:\n%s# now:\n%s", before->text, now.text);
	system("/.guest/rdma resource show");
	return false;
}
