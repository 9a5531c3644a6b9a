/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds interfaces that carry an ssh session to this host: established TCP connections to a port of sshd.
 * sudo removes SSH_CONNECTION, so the kernel's connections and sshd's configuration are read, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "control/setup/machine.h"

#define SSH_PORT 22u
#define ESTABLISHED 1u

struct session_reading {
	struct setup_machine *machine;
	bool ssh[UINT16_MAX + 1]; /* indexed by port */
};

static void
add_port(struct session_reading *reading, unsigned long port)
{
	if (port <= UINT16_MAX)
		reading->ssh[port] = true;
}

static void
sshd_line(void *context, char *line)
{
	const char *text = line + strspn(line, " \t");

	if (strncasecmp(text, "port", 4) == 0 && strchr(" \t=", text[4]) != NULL && text[4] != '\0')
		add_port(context, strtoul(text + 5 + strspn(text + 5, " \t="), NULL, 10));
}

/* Handles "CLIENT PORT SERVER PORT". */
static void
add_port_of_this_session(struct session_reading *reading)
{
	const char *session = getenv("SSH_CONNECTION");
	const char *last = session != NULL ? strrchr(session, ' ') : NULL;

	if (last != NULL)
		add_port(reading, strtoul(last + 1, NULL, 10));
}

static void
note_session(struct setup_machine *machine, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < machine->addrs; i++) {
		struct setup_iface *iface = setup_iface_find(machine, machine->addr[i].iface);

		if (iface != NULL && config_addr_equal(&machine->addr[i].addr, addr))
			iface->session = true;
	}
}

/* Handles "0: 0100007F:0016 0200007F:C000 01 ..."; each word of an address is in host byte order. */
static void
tcp_line(void *context, char *line)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct session_reading *reading = context;
	struct config_addr addr = {.family = AF_INET};
	char digits[33];
	unsigned int port, state;
	size_t words;

	if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*x %2x", digits, &port, &state) != 3 ||
	    state != ESTABLISHED || !reading->ssh[port])
		return;
	words = strlen(digits) / 8;
	if (words != 1 && words != 4)
		return;
	for (size_t i = 0; i < words; i++) {
		char word[9] = {0};
		uint32_t value;

		memcpy(word, digits + 8 * i, 8);
		value = (uint32_t)strtoul(word, NULL, 16);
		memcpy(addr.bytes + 4 * i, &value, sizeof(value));
	}
	if (words == 4 && memcmp(addr.bytes, mapped, sizeof(mapped)) == 0) {
		memmove(addr.bytes, addr.bytes + 12, 4);
		memset(addr.bytes + 4, 0, 12);
	} else if (words == 4) {
		addr.family = AF_INET6;
	}
	note_session(reading->machine, &addr);
}

void
setup_sessions_read(struct setup_machine *machine)
{
	struct session_reading reading = {.machine = machine};

	add_port(&reading, SSH_PORT);
	add_port_of_this_session(&reading);
	setup_lines(setup_path(machine, "etc/ssh/sshd_config"), sshd_line, &reading);
	setup_lines(setup_path(machine, "proc/net/tcp"), tcp_line, &reading);
	setup_lines(setup_path(machine, "proc/net/tcp6"), tcp_line, &reading);
}
