/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses addresses to listen on. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "config/internal.h"

#define UNIX "unix:"

static int
parse_unix(const char *path, struct config_listen *listen)
{
	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= sizeof(listen->path))
		return -ENAMETOOLONG;
	listen->family = AF_UNIX;
	strcpy(listen->path, path);
	return 0;
}

/* IPv6 addresses are in brackets because they contain colons. */
static int
parse_inet(const char *text, struct config_listen *listen)
{
	const char *colon = strrchr(text, ':'), *from = text;
	struct config_addr addr;
	char host[CONFIG_ADDR_TEXT];
	uint64_t port;
	bool has_prefix, bracket = text[0] == '[';
	size_t len;

	/* Bounds the text: a port may have any number of leading zeros. */
	if (strlen(text) >= sizeof(listen->text) || colon == NULL || config_number(colon + 1, &port) < 0 ||
	    port == 0 || port > UINT16_MAX)
		return -EINVAL;
	len = (size_t)(colon - text);
	if (bracket) {
		if (len < 2 || text[len - 1] != ']')
			return -EINVAL;
		from++;
		len -= 2;
	}
	if (len == 0 || len >= sizeof(host))
		return -EINVAL;
	memcpy(host, from, len);
	host[len] = '\0';
	if (config_addr_parse(host, &addr, &has_prefix) < 0 || has_prefix ||
	    bracket != (addr.family == AF_INET6))
		return -EINVAL;
	listen->family = addr.family;
	listen->port = (uint16_t)port;
	memcpy(listen->addr, addr.bytes, sizeof(listen->addr));
	return 0;
}

int
config_listen_parse(const char *text, struct config_listen *listen)
{
	int error = 0;

	memset(listen, 0, sizeof(*listen));
	if (strcmp(text, "off") == 0)
		return 0;
	if (strncmp(text, UNIX, strlen(UNIX)) == 0)
		error = parse_unix(text + strlen(UNIX), listen);
	else
		error = parse_inet(text, listen);
	if (error == 0)
		/* fits, since each part's length was checked */
		memcpy(listen->text, text, strlen(text) + 1);
	return error;
}
