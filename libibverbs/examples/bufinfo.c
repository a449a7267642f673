// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ibv_bufinfo: which memory the buffers of ibv_alloc_buf() can have on each
 * device here and now, what it costs, and what is in the way of the rest. This
 * file is the command line and the two ways of output; trying a backing is in
 * buf_probe.c, the words for a failure are in buf_cause.c.
 */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf_cause.h"
#include "buf_probe.h"

#define ROUNDS 9

/* A probe of the report and what there is to say of it */
struct row {
	struct buf_request request;
	struct buf_probe probe;
	struct buf_cause cause;
	bool unneeded;
};

struct report {
	const char *name;
	struct row plain;	/* what a protection domain gives */
	struct row opted_in;	/* what a parent domain with the flag gives */
	struct row rows[BUF_BACKINGS];	/* from BUF_ANON on */
};

static void try_row(struct row *row, struct ibv_device *device,
		    enum buf_backing backing, bool opted_in, size_t size)
{
	row->request = (struct buf_request) {
		.device = device,
		.backing = backing,
		.opted_in = opted_in,
		.size = size,
		.rounds = ROUNDS,
	};
	buf_probe(&row->request, &row->probe);
	buf_explain(&row->request, &row->probe, &row->cause);
}

/* Returns 0, or -1 when the device cannot be used at all. */
static int make_report(struct report *report, struct ibv_device *device,
		       size_t size)
{
	enum buf_backing backing;
	struct row *shared = &report->rows[BUF_CC_SHARED];

	memset(report, 0, sizeof(*report));
	report->name = ibv_get_device_name(device);
	try_row(&report->plain, device, BUF_AS_CHOSEN, false, size);
	switch (report->plain.probe.step) {
	case BUF_STEP_START:
	case BUF_STEP_OPEN:
	case BUF_STEP_PD:
		fprintf(stderr, "ibv_bufinfo: %s: %s%s%s\n", report->name,
			report->plain.cause.text,
			*report->plain.cause.fix ? "; fix: " : "",
			report->plain.cause.fix);
		return -1;
	default:
		break;
	}

	try_row(&report->opted_in, device, BUF_AS_CHOSEN, true, size);
	for (backing = BUF_ANON; backing < BUF_CC_SHARED; backing++)
		try_row(&report->rows[backing], device, backing, false, size);

	if (report->opted_in.probe.bounces) {
		try_row(shared, device, BUF_CC_SHARED, true, size);
	} else {
		shared->unneeded = true;
		snprintf(shared->cause.text, sizeof(shared->cause.text),
			 "the device reaches private memory");
	}

	return 0;
}

static const char *registered_by(const struct buf_probe *probe)
{
	return probe->imports && (probe->got == BUF_DMABUF ||
				  probe->got == BUF_CC_SHARED) ?
		       "fd" :
		       "address";
}

static bool row_ok(const struct row *row)
{
	return !row->unneeded && buf_probe_ok(&row->request, &row->probe);
}

/* The table for people */

static void print_choice(const char *where, const struct row *row)
{
	if (row_ok(row))
		printf("  chosen on %-26s %s\n", where,
		       buf_backing_word(row->probe.got));
	else
		printf("  chosen on %-26s none: %s\n", where,
		       row->cause.text);
}

/* 4K, 2M THP, or 4K+2M THP where only a part has them */
static void print_page(const struct row *row)
{
	char base[BUF_SIZE_LEN], thp[BUF_SIZE_LEN], text[64];
	const struct buf_probe *probe = &row->probe;

	buf_size_text(probe->page_size, base);
	buf_size_text(buf_thp_size(), thp);
	if (!probe->page_size)
		snprintf(text, sizeof(text), "unknown");
	else if (!probe->thp_bytes)
		snprintf(text, sizeof(text), "%s", base);
	else if (probe->thp_bytes == row->request.size)
		snprintf(text, sizeof(text), "%s THP", thp);
	else
		snprintf(text, sizeof(text), "%s+%s THP", base, thp);
	printf("%-10s  ", text);
}

static void print_row(const struct row *row, enum buf_backing backing)
{
	const double *usec = row->probe.usec;

	printf("  %-9s  ", buf_backing_word(backing));
	if (!row_ok(row)) {
		printf("%s\n", row->unneeded ? "unneeded" : "no");
		return;
	}

	printf("%-8s  %-16s  ", "yes", row->probe.memory);
	print_page(row);
	printf("%-7s %9.1f %9.1f %9.1f %9.1f\n", registered_by(&row->probe),
	       usec[BUF_OP_ALLOC], usec[BUF_OP_REG], usec[BUF_OP_DEREG],
	       usec[BUF_OP_FREE]);
}

static void print_table(const struct report *report)
{
	const struct buf_probe *probe = &report->plain.probe;
	const char *word = getenv("IBV_BUF_BACKING");
	enum buf_backing backing;
	const struct row *row;
	char text[BUF_SIZE_LEN];

	printf("%s: buffers of %s\n", report->name,
	       buf_size_text(report->plain.request.size, text));
	printf("  %-36s %s\n", "CC_DMA_BOUNCE",
	       probe->bounces ? "yes: needs shared memory" :
				"no: reaches private memory");
	printf("  %-36s %s\n", "imports DMA-bufs",
	       probe->imports ? "yes" : "no");
	if (word)
		printf("  %-36s %s\n", "IBV_BUF_BACKING", word);
	print_choice("a protection domain", &report->plain);
	print_choice("an opted-in parent domain", &report->opted_in);

	printf("\n  %-9s  %-8s  %-16s  %-10s  %-7s %9s %9s %9s %9s\n",
	       "backing", "here", "memory", "page", "reg by", "alloc us",
	       "reg us", "dereg us", "free us");
	for (backing = BUF_ANON; backing < BUF_BACKINGS; backing++)
		print_row(&report->rows[backing], backing);

	printf("\n");
	for (backing = BUF_ANON; backing < BUF_BACKINGS; backing++) {
		row = &report->rows[backing];
		if (*row->cause.text)
			printf("  %s: %s\n", buf_backing_word(backing),
			       row->cause.text);
		if (*row->cause.fix)
			printf("    fix: %s\n", row->cause.fix);
	}
}

/* JSON for machines: all keys are always there, null where nothing is known. */

static void json_string(const char *text)
{
	if (!text || !*text) {
		printf("null");
		return;
	}

	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ')
			printf("\\u%04x", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static void json_key(const char *indent, const char *key, const char *text)
{
	printf("%s\"%s\": ", indent, key);
	json_string(text);
	printf(",\n");
}

static void json_choice(const char *key, const struct row *row)
{
	printf("\t\t\"%s\": { \"backing\": ", key);
	json_string(row_ok(row) ? buf_backing_word(row->probe.got) : NULL);
	printf(", \"cause\": ");
	json_string(row->cause.text);
	printf(" },\n");
}

static void json_row(const struct row *row, enum buf_backing backing)
{
	static const char *const ops[] = {
		[BUF_OP_ALLOC] = "alloc",
		[BUF_OP_REG] = "register",
		[BUF_OP_DEREG] = "deregister",
		[BUF_OP_FREE] = "free",
	};
	static const char indent[] = "\t\t\t\t";
	const struct buf_probe *probe = &row->probe;
	bool ok = row_ok(row);
	int i;

	printf("\t\t\t{\n");
	json_key(indent, "backing", buf_backing_word(backing));
	json_key(indent, "status",
		 ok ? "ok" : row->unneeded ? "unneeded" : "unavailable");
	json_key(indent, "memory", ok ? probe->memory : NULL);
	if (ok && probe->page_size)
		printf("%s\"page_size\": %zu,\n%s\"thp_bytes\": %zu,\n", indent,
		       probe->page_size, indent, probe->thp_bytes);
	else
		printf("%s\"page_size\": null,\n%s\"thp_bytes\": null,\n",
		       indent, indent);
	json_key(indent, "registered_by", ok ? registered_by(probe) : NULL);

	printf("%s\"usec\": {", indent);
	for (i = 0; i < BUF_OPS; i++) {
		printf("%s \"%s\": ", i ? "," : "", ops[i]);
		if (ok)
			printf("%.1f", probe->usec[i]);
		else
			printf("null");
	}
	printf(" },\n");

	json_key(indent, "cause", row->cause.text);
	printf("%s\"fix\": ", indent);
	json_string(row->cause.fix);
	printf("\n\t\t\t}%s\n", backing + 1 < BUF_BACKINGS ? "," : "");
}

static void print_json(const struct report *report)
{
	const struct buf_probe *probe = &report->plain.probe;
	enum buf_backing backing;

	printf("\t{\n");
	json_key("\t\t", "name", report->name);
	printf("\t\t\"cc_dma_bounce\": %s,\n",
	       probe->bounces ? "true" : "false");
	printf("\t\t\"imports_dmabuf\": %s,\n",
	       probe->imports ? "true" : "false");
	json_choice("on_pd", &report->plain);
	json_choice("on_parent_domain", &report->opted_in);
	printf("\t\t\"backings\": [\n");
	for (backing = BUF_ANON; backing < BUF_BACKINGS; backing++)
		json_row(&report->rows[backing], backing);
	printf("\t\t]\n\t}");
}

static void json_start(size_t size)
{
	printf("{\n");
	printf("\t\"size\": %zu,\n", size);
	json_key("\t", "ibv_buf_backing", getenv("IBV_BUF_BACKING"));
	printf("\t\"devices\": [\n");
}

/* Returns how many devices were shown. */
static int show(struct ibv_device **list, const char *name, size_t size,
		bool json)
{
	struct report report;
	int shown = 0;

	for (; *list; list++) {
		if (name && strcmp(ibv_get_device_name(*list), name))
			continue;
		if (make_report(&report, *list, size))
			continue;

		if (json && !shown)
			json_start(size);
		if (shown)
			printf(json ? ",\n" : "\n");
		if (json)
			print_json(&report);
		else
			print_table(&report);
		shown++;
	}

	if (json && shown)
		printf("\n\t]\n}\n");
	return shown;
}

static bool in_list(struct ibv_device **list, const char *name)
{
	while (*list && strcmp(ibv_get_device_name(*list), name))
		list++;
	return *list;
}

static void usage(FILE *out)
{
	fprintf(out, "Usage: ibv_bufinfo [OPTION]...\n"
		     "Show which memory ibv_alloc_buf() can have on each RDMA device.\n\n"
		     "  -d, --device=DEV  only this device\n"
		     "  -s, --size=SIZE   of the buffers that are tried, with K, M or G; 2M\n"
		     "                    if not given\n"
		     "  -j, --json        print JSON\n"
		     "  -h, --help        print this and exit\n");
}

int main(int argc, char *argv[])
{
	static const struct option options[] = {
		{ .name = "device", .has_arg = 1, .val = 'd' },
		{ .name = "size", .has_arg = 1, .val = 's' },
		{ .name = "json", .has_arg = 0, .val = 'j' },
		{ .name = "help", .has_arg = 0, .val = 'h' },
		{}
	};
	struct buf_cause cause;
	struct ibv_device **list;
	const char *name = NULL;
	size_t size = 2 << 20;
	bool json = false;
	int shown = 0;
	int c;

	while ((c = getopt_long(argc, argv, "d:s:jh", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			name = optarg;
			break;
		case 's':
			size = buf_parse_size(optarg);
			if (!size) {
				fprintf(stderr,
					"ibv_bufinfo: '%s' is no size: give bytes, or a number with K, M or G\n",
					optarg);
				return 1;
			}
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 1;
		}
	}
	if (optind < argc) {
		usage(stderr);
		return 1;
	}

	list = ibv_get_device_list(NULL);
	if (!list) {
		fprintf(stderr, "ibv_bufinfo: cannot list RDMA devices: %s\n",
			strerror(errno));
		return 1;
	}

	if (!*list || (name && !in_list(list, name))) {
		buf_explain_unlisted(name, &cause);
		fprintf(stderr, "ibv_bufinfo: %s%s%s\n", cause.text,
			*cause.fix ? "; fix: " : "", cause.fix);
	} else {
		shown = show(list, name, size, json);
	}

	ibv_free_device_list(list);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "ibv_bufinfo: cannot write: %s\n",
			strerror(errno));
		return 1;
	}
	return shown ? 0 : 1;
}
