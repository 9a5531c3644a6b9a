/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user has of the cores, as the configuration says.  Control thread. */
#ifndef CONTROL_ATTACH_USER_H
#define CONTROL_ATTACH_USER_H

#include "control/base/quota.h"

#define USERS_DEBTORS 256u /* without attachments, that are remembered */

/* The same for all its attachments, made with the first; NULL: no memory. */
struct engine_user *user_of(struct quota_account *account);
/* Something that refers to the account has ended: quota_leave(). */
void user_leave(struct quota_account *account);
void users_fini(void); /* without attachments */
/* As the configuration is now. */
void users_put_in_force(void);

#endif
