/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of each request, so that records become messages with meaningful handles. */
#ifndef TESTS_FUZZ_MESSAGES_H
#define TESTS_FUZZ_MESSAGES_H

#include "tests/fuzz/daemon/stage.h"

/* Fills a message of this type for `client`. */
void message_fill(struct one_msg *msg, struct client *client, uint32_t type, struct bytes *record);
/* Forgets former ids and segments. */
void messages_begin(void);
/* Returns the id of a live segment, or any number. */
uint32_t message_segment(uint8_t which);

#endif
