/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of the whole control thread share.
 */
#ifndef TEST_CONTROL_ATTACH_H
#define TEST_CONTROL_ATTACH_H

#include <pthread.h>

#include "attach_client.h"
#include "config/config.h"
#include "fake_engine.h"
#include "tests.h"

#define VA 0x10000000ull
#define SIZE 65536ull

extern struct config config;
extern pthread_t control_thread;
extern uint32_t base_fds; /* descriptors of this process when nobody is attached */

void pause_ms(unsigned int ms);
uint32_t count_fds(void);
/* Everything that attachments had is gone, descriptors too. */
void assert_clean(void);
/* Waits for an entry of the type (for any object when 0), and takes it. */
struct fake_event await(uint8_t type, uint32_t object);
void assert_no_event(void);
void forget_events(void);
void assert_ended(struct app *app);
/* What attachments have traced since it was cleared: a line an edge.  Any machine's wrong edge aborts. */
const char *attach_edges(void);
void attach_edges_clear(void);
void attach_edges_trace(void); /* before the control thread starts */

/* The control thread anew, by what `config` is now. */
void attach_restart(void);
/* Attaches and detaches; the reply's error. */
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
