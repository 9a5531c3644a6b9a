/* SPDX-License-Identifier: BSD-3-Clause */
/* What somebody wants of a machine: the ports, their addresses, the cores; whether it can be, and the files
 * for it. */
#ifndef CONTROL_SETUP_PLAN_H
#define CONTROL_SETUP_PLAN_H

#include <stdio.h>

#include "control/setup/ways.h"

struct setup_port {
	struct setup_device device;
	enum setup_way way;
	struct config_addr addr; /* the primary one; family 0: none */
	struct config_addr more[CONFIG_ADDRS_MAX - 1];
	uint32_t mores;
	struct config_addr gateway[CONFIG_GATEWAYS_MAX]; /* of different families; family 0: none */
	uint32_t mtu;                                    /* 0: as the device and its driver have it */
	char cable[CONFIG_PATH_MAX];                     /* memif's socket */
	bool client;                                     /* of it */
	bool role_given;                                 /* by who asks */
};

struct setup_plan {
	const struct setup_machine *machine;
	struct setup_port port[CONFIG_PORTS_MAX];
	uint32_t ports;
	uint32_t node; /* 0: none */
	struct config_peer peer[CONFIG_PEERS_MAX];
	uint32_t peers;
	uint32_t cores;                           /* that poll */
	const char *idle;                         /* NULL: as there are processors for it */
	char given[CONFIG_PORTS_MAX][SETUP_NAME]; /* interfaces that may be taken away, whatever they carry */
	uint32_t givens;
	/* made by setup_plan_check() */
	unsigned int control, polling[CPU_SETSIZE]; /* processors */
};

/* For walking over a port's addresses; NULL behind the last one. */
static inline const struct config_addr *
setup_port_addr(const struct setup_port *port, uint32_t index)
{
	if (index == 0)
		return &port->addr;
	return index <= port->mores ? &port->more[index - 1] : NULL;
}

/* An address for the port that nobody else has; family 0: that cannot be known. */
void setup_plan_address(const struct setup_machine *machine, const struct setup_port *port,
			struct config_addr *addr);
/* False: it cannot be, and `why` says what and the remedy. */
bool setup_plan_check(struct setup_plan *plan, char why[SETUP_WHY]);
/* Those of its sentences that are about ports. */
bool setup_plan_check_ports(const struct setup_plan *plan, char why[SETUP_WHY]);
/* Chooses the processors; part of the check. */
bool setup_cores_choose(struct setup_plan *plan, char why[SETUP_WHY]);

/* ---- of a plan that has been checked ---- */
/* oneside.conf */
void setup_text_conf(const struct setup_plan *plan, FILE *out);
/* eal.conf */
void setup_text_eal(const struct setup_plan *plan, FILE *out);
/* What is to be done besides, as commands, one a line; nothing: nothing.  `unit` is "oneside" or
 * "oneside@NAME".
 */
void setup_text_steps(const struct setup_plan *plan, const char *unit, FILE *out);

#endif
