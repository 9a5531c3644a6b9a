/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine without cores, ports and DPDK's environment, under the real control thread. Tests decide when
 * commands are acknowledged. Each object is checked for being added before, and removed after, the objects
 * that depend on it. */
#ifndef TEST_CONTROL_FAKE_ENGINE_H
#define TEST_CONTROL_FAKE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/engine.h"
#include "dataplane/mem/bounce.h"

#define FAKE_EVENTS 1024

struct fake_event {
	uint32_t object; /* of the completion entry */
	uint8_t type, status;
	uint64_t cookie;
};

/* Holds commands, which then stay unacknowledged, or grace periods, which then do not end. */
void fake_hold(bool commands, bool graces);
/* Stops the control thread in a call of the engine before returning, or lets it continue. */
void fake_stop(bool stop);
/* The test's thread looks keys up as a core does. This call is its quiescent state: the entries that it found
 * are not used in grace periods that start later. */
void fake_quiescent(void);
/* Accesses that the test's thread handed over to copy threads. */
struct bounce_list *fake_bouncing(void);
/* The next command of `type` is refused with `error`. */
void fake_refuse(enum engine_command_type type, int error);
extern _Atomic uint32_t fake_cores; /* number of polling cores, initially 1 */
extern _Atomic bool fake_lanes;     /* attachments get lanes on them */
extern _Atomic uint32_t fake_home; /* first core of the next attachment; with lanes each gets the next core */
extern uint16_t fake_source_port;  /* that every recognized peer has asked for; 0: none is recognized */
extern uint16_t fake_steering_port; /* the next UDP port drawn, which then counts up; 0: none */
uint32_t fake_waiting(void);        /* number of commands held */
uint32_t fake_done(enum engine_command_type type);
uint32_t fake_sent(enum engine_command_type type);
/* The control thread calls `call` once, when it sends the next command of that type. */
void fake_on(enum engine_command_type type, void (*call)(void));
/* Number of existing objects: clients, rings, queue pairs, guards and keys together. */
uint32_t fake_objects(void);
uint32_t fake_keys(void);
/* The first broken rule (removal in the wrong order, a command for a missing object, ...); NULL: none. */
const char *fake_mistake(void);
/* Moves the entries posted to completion rings since the last call to `out`; returns their number. */
uint32_t fake_events(struct fake_event *out, uint32_t max);
/* Reports an event as a core does. */
void fake_raise(uint32_t qpn, enum engine_event_type type, uint32_t value);
void fake_fault_first_client(void);
void fake_guard_first_region(void);
void fake_bind(uint32_t qpn, const struct engine_bind *bind);
int fake_bind_result(void); /* -1: none yet; 0: refused; 1: done; 2: done once copies under way have ended */
/* fake_connection() and the functions below it return what the last command of a type brought. */
#define FAKE_REFUSAL 0x62001234u      /* refusal of each queue pair that fails */
extern _Atomic uint32_t fake_refusal; /* refusal in the last ENGINE_QP_FLUSH */
extern uint32_t fake_unacknowledged;  /* engine_qp_unacknowledged() of each queue pair, initially 0 */
struct engine_connection fake_connection(void);
struct one_qp_settings fake_settings(void); /* of the last ENGINE_QP_SET */
struct engine_datagram fake_datagram(void); /* of the last ENGINE_QP_DATAGRAM */
struct engine_share fake_share(void);       /* the last one given to a user */
struct engine_ah_config fake_ah(void);      /* of the last address handle */

/* Users of the completion rings made since the last call, in order: for each, how many users existed when
 * its user was made. */
uint32_t fake_made(uint8_t *users, uint32_t max);
void fake_debt(uint64_t owes);  /* debt of every user from now on */
uint32_t fake_users(void);      /* users that exist, with or without attachments */
uint32_t fake_users_made(void); /* users ever made */
/* Calls from fake_engine.c to fake_user.c: the control thread polls; a command is sent; a completion ring is
 * made; an attachment begins or ends. */
void fake_stopped(void);
void fake_wake(void); /* wakes the control thread, so that it polls the engine */
void fake_sending(enum engine_command_type type);
void fake_user_served(struct engine_user *user);
void fake_user_hold(struct engine_user *user, bool hold);

#endif
