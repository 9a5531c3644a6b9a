/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/ctl/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define FROM_MAX ((1ull << 53) - 1) /* every JSON reader represents it exactly */

#define OF_CLIENTS (CTL_M_FROM | CTL_M_PID | CTL_M_UID | CTL_M_PORT)

const struct ctl_name ctl_commands[CTL_COMMANDS] = {
	[CTL_SHOW] = {"show", 0, 0, CTL_LOOK},
	[CTL_TRACE] = {"trace", CTL_M_QP | CTL_M_CLIENT | CTL_M_PID, 0, CTL_LOOK},
	[CTL_METRICS] = {"metrics", CTL_M_FROM | CTL_M_FORMAT, 0, CTL_LOOK},
	[CTL_RELOAD] = {"reload", CTL_M_CHECK, 0, CTL_CHANGE},
	[CTL_PEER_ADD] = {"peer-add", CTL_M_PORT, CTL_M_NODE | CTL_M_ADDRESS, CTL_CHANGE},
	[CTL_PEER_REMOVE] = {"peer-remove", 0, CTL_M_NODE, CTL_CHANGE},
	[CTL_CLIENT_KILL] = {"client-kill", CTL_M_CLIENT | CTL_M_PID, 0, CTL_CHANGE},
	[CTL_DRAIN] = {"drain", 0, 0, CTL_CHANGE},
	[CTL_LOG_LEVEL] = {"log-level", CTL_M_PATTERN, CTL_M_LEVEL, CTL_CHANGE},
	[CTL_TAKE_OVER] = {"take-over", 0, 0, CTL_CHANGE},
	[CTL_UPGRADE] = {"upgrade", CTL_M_BINARY | CTL_M_RELOAD, 0, CTL_CHANGE},
	[CTL_MOVE] = {"move", 0, CTL_M_QP | CTL_M_CORE, CTL_CHANGE},
};

const struct ctl_name ctl_whats[CTL_WHATS] = {
	[CTL_CLIENTS] = {"clients", OF_CLIENTS, 0, CTL_LOOK},
	[CTL_ENDPOINTS] = {"endpoints", OF_CLIENTS | CTL_M_PEER, 0, CTL_LOOK},
	[CTL_CONNECTIONS] = {"connections", OF_CLIENTS | CTL_M_PEER, 0, CTL_LOOK},
	[CTL_LISTENERS] = {"listeners", OF_CLIENTS, 0, CTL_LOOK},
	[CTL_SEGMENTS] = {"segments", OF_CLIENTS, 0, CTL_LOOK},
	[CTL_MEMORY] = {"memory", OF_CLIENTS, 0, CTL_LOOK},
	[CTL_PORTS] = {"ports", CTL_M_FROM | CTL_M_PORT, 0, CTL_LOOK},
	[CTL_PEERS] = {"peers", CTL_M_FROM, 0, CTL_LOOK},
	[CTL_NEIGHBOURS] = {"neighbours", CTL_M_FROM | CTL_M_PORT | CTL_M_PEER, 0, CTL_LOOK},
	[CTL_CORES] = {"cores", CTL_M_FROM, 0, CTL_LOOK},
	[CTL_DROPS] = {"drops", CTL_M_FROM, 0, CTL_LOOK},
	[CTL_TRANSPORT] = {"transport", CTL_M_FROM, 0, CTL_LOOK},
	[CTL_QUOTA] = {"quota", CTL_M_FROM | CTL_M_UID, 0, CTL_LOOK},
	[CTL_IPSEC] = {"ipsec", CTL_M_FROM | CTL_M_PEER, 0, CTL_LOOK},
	[CTL_VERSION] = {"version", CTL_M_FROM, 0, CTL_LOOK},
};

enum kind { WORD, PATH, NUMBER, POSITION, SWITCH };

#define MEMBER(field, kind, bit)                                       \
	{                                                              \
#field, kind, bit, offsetof(struct ctl_request, field) \
	}

static const struct member {
	const char *name;
	enum kind kind;
	uint32_t bit;
	size_t offset;
} members[] = {
	MEMBER(from, POSITION, CTL_M_FROM),   MEMBER(pid, NUMBER, CTL_M_PID),
	MEMBER(uid, NUMBER, CTL_M_UID),       MEMBER(client, NUMBER, CTL_M_CLIENT),
	MEMBER(qp, NUMBER, CTL_M_QP),         MEMBER(node, NUMBER, CTL_M_NODE),
	MEMBER(port, WORD, CTL_M_PORT),       MEMBER(peer, WORD, CTL_M_PEER),
	MEMBER(address, WORD, CTL_M_ADDRESS), MEMBER(pattern, WORD, CTL_M_PATTERN),
	MEMBER(level, WORD, CTL_M_LEVEL),     MEMBER(check, SWITCH, CTL_M_CHECK),
	MEMBER(format, WORD, CTL_M_FORMAT),   MEMBER(core, NUMBER, CTL_M_CORE),
	MEMBER(binary, PATH, CTL_M_BINARY),   MEMBER(reload, SWITCH, CTL_M_RELOAD),
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

void
ctl_printable(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
			*text = '?';
}

static int __attribute__((format(printf, 3, 4)))
write_refusal(char *why, size_t why_len, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, why_len, format, args);
	va_end(args);
	ctl_printable(why);
	return -EINVAL;
}

static int
take_number(const struct member *member, const json_t *value, uint64_t max, uint64_t *number, char *why,
	    size_t why_len)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    (uint64_t)json_integer_value(value) > max)
		return write_refusal(why, why_len, "%s: number out of range; write 0 to %" PRIu64,
				     member->name, max);
	*number = (uint64_t)json_integer_value(value);
	return 0;
}

static int
take_word(const struct member *member, const json_t *value, char *word, size_t room, char *why,
	  size_t why_len)
{
	if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) >= room)
		return write_refusal(why, why_len,
				     "%s: not a string, or too long; write a string of 1 to %zu bytes",
				     member->name, room - 1);
	strcpy(word, json_string_value(value));
	return 0;
}

static int
take_member(const struct member *member, const json_t *value, struct ctl_request *request, char *why,
	    size_t why_len)
{
	char *field = (char *)request + member->offset;
	uint64_t number = 0;
	int error;

	switch (member->kind) {
	case WORD:
		return take_word(member, value, field, CTL_WORD_MAX, why, why_len);
	case PATH:
		return take_word(member, value, field, CTL_PATH_MAX, why, why_len);
	case NUMBER:
		error = take_number(member, value, UINT32_MAX, &number, why, why_len);
		*(uint32_t *)(void *)field = (uint32_t)number;
		return error;
	case POSITION:
		return take_number(member, value, FROM_MAX, (uint64_t *)(void *)field, why, why_len);
	case SWITCH:
		if (!json_is_boolean(value))
			return write_refusal(why, why_len, "%s: not a boolean; write true or false",
					     member->name);
		*(bool *)field = json_is_true(value);
		return 0;
	}
	return -EINVAL;
}

/* Index of `value` among the `count` names, or -EINVAL. */
static int
find_name(const json_t *value, const struct ctl_name *names, int count, const char *whose, const char *kind,
	  char *why, size_t why_len)
{
	const char *text = json_is_string(value) ? json_string_value(value) : "";
	char known[256] = "";

	for (int i = 0; i < count; i++) {
		if (strcmp(names[i].name, text) == 0)
			return i;
		strcat(strcat(known, i > 0 ? ", " : ""), names[i].name);
	}
	return write_refusal(why, why_len, "%s \"%.40s\": %s; write one of %s", whose, text, kind, known);
}

static const struct member *
find_member(const char *name)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (strcmp(members[i].name, name) == 0)
			return &members[i];
	return NULL;
}

static int
take_members(json_t *root, uint32_t allowed, struct ctl_request *request, char *why, size_t why_len)
{
	const char *name;
	json_t *value;

	json_object_foreach(root, name, value) {
		const struct member *member = find_member(name);
		int error;

		if (strcmp(name, "command") == 0 ||
		    (request->command == CTL_SHOW && strcmp(name, "what") == 0))
			continue;
		if (member == NULL || (allowed & member->bit) == 0)
			return write_refusal(
				why, why_len,
				"%.40s: unknown word for %s %s; leave it out, or see onesidectl --help", name,
				ctl_commands[request->command].name,
				request->command == CTL_SHOW ? ctl_whats[request->what].name : "");
		error = take_member(member, value, request, why, why_len);
		if (error != 0)
			return error;
		request->given |= member->bit;
	}
	return 0;
}

static int
check_needed(const struct ctl_request *request, char *why, size_t why_len)
{
	uint32_t missing = ctl_commands[request->command].needed & ~request->given;
	uint32_t whose = request->given & (CTL_M_CLIENT | CTL_M_PID | CTL_M_QP);

	for (size_t i = 0; i < MEMBERS; i++)
		if ((missing & members[i].bit) != 0)
			return write_refusal(why, why_len, "%s: %s is missing; see onesidectl --help",
					     ctl_commands[request->command].name, members[i].name);
	if (request->command == CTL_CLIENT_KILL && whose == 0)
		return write_refusal(why, why_len,
				     "client-kill: no attachment is named; give a pid, or client=NUMBER");
	if (request->command == CTL_CLIENT_KILL && (whose & CTL_M_PID) != 0 && request->pid == 0)
		return write_refusal(
			why, why_len,
			"pid 0: processes outside the data plane's pid namespace show as 0; give client=NUMBER");
	if (request->command != CTL_SHOW && (whose & (whose - 1)) != 0)
		return write_refusal(why, why_len,
				     "%s: one of pid, client and qp is enough; leave the others out",
				     ctl_commands[request->command].name);
	return 0;
}

static int
take_request(json_t *root, struct ctl_request *request, char *why, size_t why_len)
{
	const struct ctl_name *command;
	uint32_t allowed;
	int which, error;

	if (!json_is_object(root))
		return write_refusal(
			why, why_len,
			"a request is one JSON object, as in {\"command\": \"show\", \"what\": \"clients\"}");
	which = find_name(json_object_get(root, "command"), ctl_commands, CTL_COMMANDS, "command",
			  "no such command", why, why_len);
	if (which < 0)
		return which;
	request->command = (enum ctl_command)which;
	command = &ctl_commands[which];
	allowed = command->needed | command->allowed;
	if (request->command == CTL_SHOW) {
		which = find_name(json_object_get(root, "what"), ctl_whats, CTL_WHATS, "show", "no such list",
				  why, why_len);
		if (which < 0)
			return which;
		request->what = (enum ctl_what)which;
		allowed = ctl_whats[which].allowed;
	}
	error = take_members(root, allowed, request, why, why_len);
	return error != 0 ? error : check_needed(request, why, why_len);
}

int
ctl_parse(const char *text, size_t len, struct ctl_request *request, char *why, size_t why_len)
{
	json_error_t at;
	json_t *root;
	int error;

	memset(request, 0, sizeof(*request));
	if (len > CTL_REQUEST_MAX)
		return write_refusal(why, why_len, "a request of %zu bytes is too long; write at most %u",
				     len, CTL_REQUEST_MAX);
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
	if (root == NULL)
		return write_refusal(why, why_len, "a request has to be JSON: %.100s at byte %d", at.text,
				     at.position);
	error = take_request(root, request, why, why_len);
	json_decref(root);
	return error;
}
