/* SPDX-License-Identifier: BSD-3-Clause */
/* Users' shares of the cores, as configured.  Control thread. */
#ifndef CONTROL_ATTACH_USER_H
#define CONTROL_ATTACH_USER_H

#include "control/base/quota.h"

#define USERS_DEBTORS 256u /* users without attachments whose debt is stored */

/* Returns the user of all attachments of an account, created with the first.  NULL: no memory. */
struct engine_user *user_of(struct quota_account *account);
/* Drops a reference to the account (quota_leave()), and frees or stores its user with the last. */
void user_leave(struct quota_account *account);
void users_fini(void); /* call after all attachments have ended */
/* Applies the present configuration to all users with attachments. */
void users_put_in_force(void);

#endif
