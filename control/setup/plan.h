/* SPDX-License-Identifier: BSD-3-Clause */
/* Plan of a data plane on a machine: ports, addresses, cores; its validation, and the text of its files. */
#ifndef CONTROL_SETUP_PLAN_H
#define CONTROL_SETUP_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include "config/address.h"
#include "control/setup/modes.h"

struct setup_port {
	struct setup_device device;
	enum setup_mode mode;
	struct config_addr addr; /* primary address; family 0: none */
	struct config_addr more[CONFIG_ADDRS_MAX - 1];
	uint32_t mores;
	struct config_addr gateway[CONFIG_GATEWAYS_MAX]; /* at most one per family; family 0: none */
	uint32_t mtu;                                    /* 0: default of device and driver */
	char cable[CONFIG_PATH_MAX];                     /* path of the memif's socket */
	bool client;                                     /* client end of the memif */
	bool role_given;                                 /* given on the command line */
};

struct setup_plan {
	const struct setup_machine *machine;
	struct setup_port port[CONFIG_PORTS_MAX];
	uint32_t ports;
	uint32_t node; /* 0: none */
	struct config_peer peer[CONFIG_PEERS_MAX];
	uint32_t peers;
	uint32_t cores;   /* number of polling cores */
	const char *idle; /* NULL: chosen by the number of processors */
	/* interfaces that may be taken from the kernel, whatever they carry */
	char given[CONFIG_PORTS_MAX][SETUP_NAME];
	uint32_t givens;
	/* set by setup_plan_check() */
	unsigned int control, polling[CPU_SETSIZE]; /* processors */
};

/* Iterates over a port's addresses; NULL after the last. */
static inline const struct config_addr *
setup_port_addr(const struct setup_port *port, uint32_t index)
{
	if (index == 0)
		return &port->addr;
	return index <= port->mores ? &port->more[index - 1] : NULL;
}

/* Proposes an unused address for the port; family 0: unknown. */
void setup_plan_address(const struct setup_machine *machine, const struct setup_port *port,
			struct config_addr *addr);
/* False: the plan is impossible, and `why` names the reason and the remedy. */
bool setup_plan_check(struct setup_plan *plan, char why[SETUP_WHY]);
/* Checks the ports only. */
bool setup_plan_check_ports(const struct setup_plan *plan, char why[SETUP_WHY]);
/* Chooses the processors, as part of the check. */
bool setup_cores_choose(struct setup_plan *plan, char why[SETUP_WHY]);

/* ---- text of a checked plan ---- */
/* oneside.conf */
void setup_text_conf(const struct setup_plan *plan, FILE *out);
/* eal.conf */
void setup_text_eal(const struct setup_plan *plan, FILE *out);
/* Writes the remaining steps as commands, one per line, if any. `unit` is "oneside" or "oneside@NAME". */
void setup_text_steps(const struct setup_plan *plan, const char *unit, FILE *out);

/* ---- write.c: both files of a plan in one folder, both or none, without losing existing files ---- */
#define SETUP_FILE_MAX 3072u

struct setup_files {
	char conf[SETUP_FILE_MAX]; /* oneside.conf, or the name given by --output */
	char eal[SETUP_FILE_MAX];  /* eal.conf in the same folder */
};

/* Functions return false with a sentence in `why`. */
bool setup_files_name(struct setup_files *files, const char *conf, char why[SETUP_WHY]);
/* The file of the two that exists, or NULL. */
const char *setup_files_there(const struct setup_files *files);
/* With `replace`, existing files are saved as NAME.old. */
bool setup_files_write(const struct setup_files *files, const struct setup_plan *plan, bool replace,
		       char why[SETUP_WHY]);

/* ---- instances.c: other data planes of this machine ---- */
#define SETUP_PATH 512
/* `own` is the oneside.conf being written; `by` receives the folder of the data plane that has the address.
 */
bool setup_instance_has_address(const char *own, const struct config_addr *addr, char by[SETUP_PATH]);
/* Has another data plane that end of the memif with this socket? */
bool setup_instance_has_cable(const char *own, const char *cable, bool client, char by[SETUP_PATH]);

#endif
