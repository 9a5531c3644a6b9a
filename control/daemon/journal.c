/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes DPDK's log, which otherwise goes to standard output and syslog without time or level. Logging
 * threads never wait for a terminal or pipe. A line that would block is dropped and counted. */
#include "control/daemon/daemon.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_log.h>

#define LINE_LEN 2048u /* fits one atomic write to a pipe that polls writable (PIPE_BUF is 4096) */

static bool to_journal;
static uint32_t lost;

/* Line under assembly. stdio calls take_bytes() with the stream locked. */
static struct {
	char text[LINE_LEN];
	size_t len;
} line;

/* JOURNAL_STREAM has device and inode of the standard error that systemd opened. */
static bool
is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	char end;

	return stream != NULL && sscanf(stream, "%llu:%llu%c", &device, &inode, &end) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

const char *
journal_priority(uint32_t level)
{
	static const char *const priorities[] = {"<0>", "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<7>"};

	if (!to_journal)
		return "";
	return priorities[level < RTE_LOG_EMERG ? 0 : level > RTE_LOG_DEBUG ? 7 : level - RTE_LOG_EMERG];
}

static size_t
put_head(char *out, size_t room, uint32_t level)
{
	static const char *const names[] = {"emergency", "alert",  "critical", "error",
					    "warning",   "notice", "info",     "debug"};
	struct timespec now;
	char date[24];
	struct tm tm;

	if (to_journal)
		return (size_t)snprintf(out, room, "%s", journal_priority(level));
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	level = level < RTE_LOG_EMERG ? 0 : level > RTE_LOG_DEBUG ? 7 : level - RTE_LOG_EMERG;
	return (size_t)snprintf(out, room, "%s.%03ldZ %s ", date, now.tv_nsec / 1000000, names[level]);
}

static bool
write_line(const char *text, size_t len)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0 &&
	       write(STDERR_FILENO, text, len) == (ssize_t)len;
}

static void
report_lost(void)
{
	char text[160];
	size_t len;

	if (lost == 0)
		return;
	len = put_head(text, sizeof(text), RTE_LOG_WARNING);
	len += (size_t)snprintf(
		text + len, sizeof(text) - len,
		"control: event=log_lost lines=%u text=\"lines dropped: the reader of standard error was too slow\"\n",
		lost);
	if (write_line(text, len))
		lost = 0;
}

static void
put_line(void)
{
	line.text[line.len++] = '\n';
	report_lost();
	lost += !write_line(line.text, line.len);
	line.len = 0;
}

/* DPDK writes some lines in pieces. */
static ssize_t
take_bytes(void *cookie, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (line.len == 0)
			line.len =
				put_head(line.text, sizeof(line.text), (uint32_t)rte_log_cur_msg_loglevel());
		if (bytes[i] == '\n')
			put_line();
		else if (line.len < LINE_LEN - 1)
			line.text[line.len++] = bytes[i];
	}
	return (ssize_t)len;
}

void
journal_open(void)
{
	static const cookie_io_functions_t functions = {.write = take_bytes};
	FILE *stream = fopencookie(NULL, "w", functions);

	to_journal = is_journal();
	lost = 0;
	line.len = 0;
	/* Out of memory: the log stays where DPDK writes it. */
	if (stream != NULL)
		rte_openlog_stream(stream);
}
