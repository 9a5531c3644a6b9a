/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports whose NIC encrypts and decrypts ESP by itself: inline crypto of rte_security.  The NIC computes
 * ciphertext and ICV alone; headers, sequence numbers, windows and limits stay ours.  What it refuses is done
 * by the crypto device, which is told of.
 *
 * Functions are for threads that may wait for a device, unless they say otherwise.
 */
#ifndef DATAPLANE_ESP_NIC_H
#define DATAPLANE_ESP_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

struct config_secret;
struct esp_sa;

/*
 * A key in a NIC.  Immutable; a core uses it until its next quiescent state.  Of a sequence number the packet
 * has the lower half, so it is for the numbers with one upper half.
 */
struct esp_nic_session {
	uint32_t high;  /* that upper half */
	uint32_t id;    /* no other's, and not 0 */
	bool describes; /* the driver notes something in each frame on its way out */
	void *context;  /* the device's, and the session in it: of rte_security */
	void *session;
};

/* A ring of a device has been emptied of what was in it when every core has passed so many quiescent states,
 * each with a burst. */
#define ESP_NIC_ROUNDS 33u

/* Before the first key: the port `name` has such a NIC; `off`: why it was not started for that, or NULL. */
void esp_nic_offer(uint16_t port, uint16_t device, const char *name, const char *off);
void esp_nic_close(void); /* after all keys */

/* A key that is not in use yet, `key` with its salt; no effect at a port that does not offer it. */
void esp_nic_begin(struct esp_sa *sa, const char *name, struct config_secret *key);
/* The NIC is not asked: why. */
void esp_nic_refuse(const struct esp_sa *sa, const char *name, const char *why);
/* The keeper, now and then: another session where the numbers come to another upper half.  True: again soon.
 */
bool esp_nic_tend(struct esp_sa *sa, const char *name);
/* Received frames are not decrypted any more; those that have been may still be on their way.  True: the NIC
 * has the key. */
bool esp_nic_stop(struct esp_sa *sa);
/* No core uses the key, and no device has a frame of it. */
void esp_nic_end(struct esp_sa *sa);

/* ---- cores ---- */

/* The frame, of which all but ciphertext and ICV is there, is the NIC's; false: its driver does not take it.
 */
bool esp_nic_send(const struct esp_nic_session *session, struct rte_mbuf *m, uint32_t ip_at, uint32_t ip_len,
		  bool v4, uint64_t number);

#endif
