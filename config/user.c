/* SPDX-License-Identifier: BSD-3-Clause */
/* Sections [user NAME]: what users have of the cores. */
#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "config/internal.h"

#define RATE_MAX (1ull << 50)
#define OPS_LEAST 100u
#define BYTES_LEAST                                                                             \
	(1u << 20) /* a burst is some tens of KiB: with less its acknowledgements would be late \
		    */

/* Asks the system's databases, which may take its time: never on the control thread. */
int
config_user_find(const char *name, uid_t *uid)
{
	struct passwd user, *found;
	char buffer[16384];
	uint64_t number;

	if (config_number(name, &number) == 0) {
		*uid = (uid_t)number;
		return number < UINT32_MAX ? 0 : -ERANGE;
	}
	if (getpwnam_r(name, &user, buffer, sizeof(buffer), &found) != 0 || found == NULL)
		return -ENOENT;
	*uid = found->pw_uid;
	return 0;
}

struct config_user
config_user_of(const struct config *config, uid_t uid)
{
	for (uint32_t i = 0; i < config->num_users; i++)
		if (config->user[i].uid == uid)
			return config->user[i];
	return (struct config_user){.uid = uid, .weight = 1};
}

/* A rate a second; 0 is none. */
static int
set_rate(uint64_t *rate, int (*read)(const char *text, uint64_t *value), uint64_t least, const char *name,
	 const char *key, const char *value, char *why, size_t why_len)
{
	uint64_t number;

	if (read(value, &number) != 0 || (number != 0 && number < least) || number > RATE_MAX)
		return config_refuse(
			why, why_len, -ERANGE,
			"user %s: %s = %s: this is no ceiling; write %llu to %llu a second%s, or 0 for "
			"none",
			name, key, value, (unsigned long long)least, RATE_MAX,
			read == config_size ? ", as in 512M or 8G" : "");
	*rate = number;
	return 0;
}

static int
set_key(struct config_user *user, const char *name, const char *key, const char *value, char *why,
	size_t why_len)
{
	uint64_t number;

	if (strcmp(key, "max_ops") == 0)
		return set_rate(&user->max_ops, config_number, OPS_LEAST, name, key, value, why, why_len);
	if (strcmp(key, "max_bytes") == 0)
		return set_rate(&user->max_bytes, config_size, BYTES_LEAST, name, key, value, why, why_len);
	if (strcmp(key, "weight") != 0)
		return config_refuse(why, why_len, -EINVAL,
				     "user %s: %s: there is no such key for a user; write one of weight, "
				     "max_ops, max_bytes",
				     name, key);
	if (config_number(value, &number) != 0 || number < 1 || number > CONFIG_WEIGHT_MAX)
		return config_refuse(why, why_len, -ERANGE,
				     "user %s: weight = %s: this is no weight; write a number from 1 to %u",
				     name, value, CONFIG_WEIGHT_MAX);
	user->weight = (uint32_t)number;
	return 0;
}

int
config_user_set(struct config *config, const char *name, const char *key, const char *value, char *why,
		size_t why_len)
{
	struct config_user user;
	uint32_t i = 0;
	uid_t uid;
	int error = config_user_find(name, &uid);

	if (error != 0)
		return config_refuse(
			why, why_len, error,
			"user %s: there is no such user; make it (useradd NAME), or write the name "
			"or number of one that there is",
			name);
	while (i < config->num_users && config->user[i].uid != uid)
		i++;
	if (i == CONFIG_USERS_MAX)
		return config_refuse(why, why_len, -ENOSPC, "user %s: this is more than %u users; remove one",
				     name, CONFIG_USERS_MAX);
	user = config_user_of(config, uid);
	error = set_key(&user, name, key, value, why, why_len);
	if (error != 0)
		return error;
	config->user[i] = user;
	config->num_users += i == config->num_users;
	return 0;
}
