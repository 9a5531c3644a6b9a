/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a data plane: read, checked, and taken over by a running one; or refused with a
 * reason. */
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/route.h"
#include "file.h"

static void
must_say(int error, const char *why)
{
	if (error != 0 && why[0] == '\0')
		fuzz_fail("refused without a word");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config config, next;
	char path[32], why[512] = "", changed[256] = "", text[CONFIG_ADDR_TEXT];
	int error;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file_with(data, size));
	config_defaults(&config);
	next = config;
	error = config_read(&config, path, why, sizeof(why));
	must_say(error, why);
	if (error != 0)
		return 0;
	for (uint32_t i = 0; i < config.num_ports; i++)
		config_addr_text(config.port[i].addr, true, text);
	for (uint32_t i = 0; i < config.num_peers; i++)
		if (config_port_to(&config, &config.peer[i].addr, config.peer[i].port) >=
		    (int)config.num_ports)
			fuzz_fail("a peer by a port that is not there");
	config_ctl_path(&config, (char[CONFIG_PATH_MAX]){0});
	must_say(config_validate(&config, why, sizeof(why)), why);
	must_say(config_reload(&next, &config, changed, sizeof(changed), why, sizeof(why)), why);
	return 0;
}
