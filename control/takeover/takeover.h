/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking over (doc/upgrade.md): a new data plane replaces one that serves, and no program notices.
 *
 * The new process asks on the control socket, compares what must be equal, and prepares all but its ports;
 * those, too, if two processes can have them open.  Then the old process stops its cores at a quiet point,
 * writes what it knows into a sealed file, and closes its ports, unless the new one has its own.  The new
 * process opens them, reads the file, commits, and starts its cores.  Until the commit the old process has
 * everything: it opens its ports again and goes on if the new one refuses, dies, or takes longer than
 * TAKEOVER_WAIT_NS.  The new process touches nothing that others see before it.
 */
#ifndef CONTROL_TAKEOVER_TAKEOVER_H
#define CONTROL_TAKEOVER_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define TAKEOVER_VERSION 2u            /* of the format */
#define TAKEOVER_WAIT_NS 3000000000ull /* from the closing of the ports to the commit */
#define TAKEOVER_QUIET_NS 300000000ull /* until the old process is at a quiet point */
#define TAKEOVER_LAST_NS 5000000000ull /* for the old process's last answer */
#define TAKEOVER_END_NS 2000000000ull  /* for the end of a new process that does not take over */

/* The steps of both processes.  With ONESIDE_TAKEOVER_KILL=NAME, or _STOP=NAME, in its environment a process
 * kills, or stops, itself at that step, for tests. */
enum takeover_step {
	TAKEOVER_GIVE_ASKED,
	TAKEOVER_GIVE_STOPPED,
	TAKEOVER_GIVE_WRITTEN,
	TAKEOVER_GIVE_CLOSED,
	TAKEOVER_GIVE_SENT,
	TAKEOVER_GIVE_COMMITTED,
	TAKEOVER_GIVE_ANSWERED,
	TAKEOVER_TAKE_CONNECTED,
	TAKEOVER_TAKE_PREPARED,
	TAKEOVER_TAKE_RECEIVED,
	TAKEOVER_TAKE_OPENED,
	TAKEOVER_TAKE_BUILT,
	TAKEOVER_TAKE_READY,
	TAKEOVER_TAKE_COMMITTED,
	TAKEOVER_STEPS
};
extern const char *const takeover_step_name[TAKEOVER_STEPS];
void takeover_step(enum takeover_step step);

/* ---- give.c: the old process ---- */

/* The control thread's calls. */
struct takeover_calls {
	int (*loop)(void);      /* one loop, without sleeping; not 0: the process ends */
	bool (*poll)(void);     /* processes what the cores have sent */
	bool (*changing)(void); /* a change of the configuration is under way */
	/* The commit has arrived from this process; 0: unknown. True: the new process has to reload. */
	bool (*committed)(int process);
};
/* A caller of the control socket wants to take over; the function owns `fd`.  False: another one does. */
bool takeover_ask(int fd);
bool takeover_asked(void);
/* True: the new process serves, and this one has to end without a word to applications and peers. */
bool takeover_give(const struct takeover_calls *calls);

/* ---- take.c: the new process ---- */

/* Returns 1; 0: no data plane serves on the socket; or -errno and a sentence. */
int takeover_connect(const struct config *config, char *why, size_t why_len);
/* Compares the two data planes; call after the EAL has started.  0, or -EBUSY and a sentence that names what
 * differs. */
int takeover_compare(const struct config *config, char *why, size_t why_len);
/* False: packet sockets of both processes could take frames from each other. */
bool takeover_may_share_ports(void);
bool takeover_is_physical(void); /* EAL needs IOVA mode PA */
uint16_t takeover_room(void);    /* of packet buffers: for engine_prepare() */
/* Has the old process stop, and receives its state.  Returns 1; 0: it has died before, and there is nothing
 * to take over; or -errno and a sentence: it goes on. */
int takeover_receive(bool ports_open, char *why, size_t why_len);
/* Reads the state; peers that were added join `config`, which control.config names.  Call after
 * daemon_init(), before engine_start(). */
int takeover_build(struct config *config, char *why, size_t why_len);
/* Call before engine_start().  0: this process is alone; -errno and a sentence: the old one goes on. */
int takeover_commit(char *why, size_t why_len);
/* Call when the cores run: what can wait until programs go on. */
void takeover_finish(void);
/* After the commit: a reload was requested that this process may not have made. */
bool takeover_reload_is_due(void);
/* From the request to stop to the commit; 0: this process did not take over. */
uint64_t takeover_stopped_ns(void);

#endif
