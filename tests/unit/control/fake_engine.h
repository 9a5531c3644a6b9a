/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine without cores, ports and DPDK's environment, under the real control
 * thread: commands are acknowledged when the test lets them, and each object is
 * checked for being added before, and removed after, what belongs to it.
 */
#ifndef TEST_CONTROL_FAKE_ENGINE_H
#define TEST_CONTROL_FAKE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/engine.h"
#include "dataplane/mem/reach.h"

#define FAKE_EVENTS 1024

struct fake_event {
	uint32_t object; /* of the completion entry */
	uint8_t type, status;
	uint64_t cookie;
};

/* Commands wait, unacknowledged, while held; grace periods do not end. */
void fake_hold(bool commands, bool graces);
/* The control thread is at a call of the engine when this returns, and stays there until it goes on. */
void fake_stop(bool stop);
/*
 * The test's thread looks keys up as a core would: what it has found it no longer
 * uses in grace periods that start after this.
 */
void fake_quiescent(void);
/* What it hands over to copy threads. */
struct reach_list *fake_reaching(void);
/* The next command of `type` is refused with `error`. */
void fake_refuse(enum engine_command_type type, int error);
extern uint32_t fake_cores;         /* polling cores; 1 */
extern uint16_t fake_steering_port; /* drawn next, and then the one after it; 0: none */
uint32_t fake_waiting(void);        /* commands held */
uint32_t fake_done(enum engine_command_type type);
uint32_t fake_sent(enum engine_command_type type);
/* Called by the control thread, once, as it sends the next command of that type. */
void fake_on(enum engine_command_type type, void (*call)(void));
/* Objects that exist: clients, rings, queue pairs, guards and keys together. */
uint32_t fake_objects(void);
uint32_t fake_keys(void);
/* Broken rules: removal in the wrong order, commands for objects that are not there, ... */
const char *fake_mistake(void);
/* Entries posted to completion rings since the last call; the number of them. */
uint32_t fake_events(struct fake_event *out, uint32_t max);
/* As a core would tell; `id` is that of a queue pair of the only client that has it. */
void fake_tell(uint32_t qpn, enum engine_event_type type, uint32_t value);
void fake_fault_first_client(void);
void fake_guard_first_region(void);
void fake_bind(uint32_t qpn, const struct work *work);
int fake_bind_result(void); /* -1: none yet; 0: refused; 1: done; 2: done when copies under way have ended */
/* The connection of the last ENGINE_QP_CONNECT. */
#define FAKE_REFUSAL 0x62001234u      /* of each queue pair that fails */
extern _Atomic uint32_t fake_refusal; /* the last ENGINE_QP_FLUSH brought it */
struct engine_connection fake_connection(void);
struct one_qp_settings fake_settings(void); /* the last ENGINE_QP_SET */
struct engine_datagram fake_datagram(void); /* the same of ENGINE_QP_DATAGRAM */
struct engine_share fake_share(void);       /* what a user was given last */
struct engine_ah_config fake_ah(void);      /* of the last address handle */

/* Completion rings that have been made since the last call, those of the first user that there was as 0. */
uint32_t fake_made(uint8_t *users, uint32_t max);
void fake_debt(uint64_t owes);  /* of every user, from now on */
uint32_t fake_users(void);      /* there are, with attachments or without */
uint32_t fake_users_made(void); /* ever */
/* Between fake_engine.c and fake_user.c: the control thread comes by; a completion ring is made; an
 * attachment comes or goes. */
void fake_stopped(void);
void fake_wake(void); /* the control thread looks at the engine */
void fake_sending(enum engine_command_type type);
void fake_user_served(struct engine_user *user);
void fake_user_hold(struct engine_user *user, bool hold);

#endif
