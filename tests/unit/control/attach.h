/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the tests that run the whole control thread. */
#ifndef TEST_CONTROL_ATTACH_H
#define TEST_CONTROL_ATTACH_H

#include <pthread.h>

#include "attach_client.h"
#include "config/config.h"
#include "fake_engine.h"
#include "fds.h"
#include "tests.h"

#define VA 0x10000000ull
#define SIZE 65536ull

extern struct config config;
extern pthread_t control_thread;
extern uint32_t base_fds; /* descriptors of this process without attachments */

void pause_ms(unsigned int ms);
/* Waits until all objects and descriptors of attachments are gone. */
void assert_clean(void);
/* Waits for a completion entry of this type and takes it; object 0: of any object. */
struct fake_event await(uint8_t type, uint32_t object);
void assert_no_event(void);
void forget_events(void);
void assert_ended(struct app *app);
/* Transitions traced since the last clear, one a line. An illegal one, of any state machine, aborts. */
const char *attach_transitions(void);
void attach_transitions_clear(void);
void attach_transitions_trace(void); /* before the control thread starts */

/* Restarts the control thread with the present `config`. */
void attach_restart(void);
/* Attaches and detaches; returns the reply's error. */
int hello_error(uint32_t magic, uint32_t version, uint32_t kind, const char *port);

int object_tests(void);
int renewable_tests(void);
int joined_tests(void);
int mapping_tests(void);
int connection_tests(void);
int step_tests(void);
int number_tests(void);
int datagram_tests(void);
int rsm_tests(void);
int identity_tests(void);
int end_tests(void);
int user_tests(void);
int metrics_tests(void);
int ctl_tests(void);

#endif
