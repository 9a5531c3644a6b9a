/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/takeover/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- peers ---- */

/* A peer in the words of `onesidectl peer add`. */
struct added_peer {
	char address[CONFIG_ADDR_TEXT], port[ONE_PORT_NAME];
};

static const struct record_field peer_fields[] = {
	RECORD_FIELD(added_peer, address, RECORD_VALUE, 0, NULL),
	RECORD_FIELD(added_peer, port, RECORD_VALUE, 0, NULL),
};
static RECORD_FORM(peer_form, RECORD_PEER, 1, peer_fields);

static void
peers_write(struct pass_out *out)
{
	for (uint32_t i = 0; i < control.config->num_peers; i++) {
		const struct config_peer *peer = &control.config->peer[i];
		struct added_peer words = {.address = ""};

		if (!peer->added)
			continue;
		config_addr_text(&peer->addr, false, words.address);
		snprintf(words.port, sizeof(words.port), "%s", peer->port);
		record_put(&out->records, &peer_form, peer->node, &words, &out->context);
	}
}

/* True if the text ends within `size` bytes and can be printed. */
static bool
is_printable(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return len < size;
}

static bool
is_configured(const struct config *config, uint64_t node)
{
	for (uint32_t i = 0; i < config->num_peers; i++)
		if (config->peer[i].node == node)
			return true;
	return false;
}

/* The configuration of this process may have the node, too, and is newer. */
static int
peer_read(struct pass_in *in, struct config *config)
{
	struct added_peer words;
	char why[200];
	uint64_t node;

	if (pass_get(in, &peer_form, &words, &node) != 0)
		return -EINVAL;
	if (node > UINT32_MAX || !is_printable(words.address, sizeof(words.address)) ||
	    !is_printable(words.port, sizeof(words.port)))
		return pass_refuse(in, "an added peer has no node, or no text for its address or port");
	if (is_configured(config, node))
		return 0;
	if (config_peer_add(config, (uint32_t)node, words.address, words.port, why, sizeof(why)) != 0 ||
	    config_validate(config, why, sizeof(why)) != 0)
		return pass_refuse(in, "%s; or write onesidectl peer remove %u", why, (uint32_t)node);
	return 0;
}

/* ---- all ---- */

void
takeover_common_write(struct pass_out *out)
{
	peers_write(out);
}

int
takeover_common_read(struct pass_in *in, struct config *config)
{
	int error = 0;

	while (error == 0 && pass_is(in, RECORD_PEER))
		error = peer_read(in, config);
	return error;
}
