/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line after `--`. Each option is a key of the file and goes through config_set(). --config is read
 * first wherever it appears, so that options override the file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/internal.h"

#define ARGUMENT_MAX 1024u

/* Splits "--name" or "--name=value"; *value is NULL without a value. */
static bool
split_option(const char *arg, char name[64], const char **value)
{
	const char *equals = strchr(arg, '=');
	size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);

	if (strncmp(arg, "--", 2) != 0 || len - 2 >= 64)
		return false;
	memcpy(name, arg + 2, len - 2);
	name[len - 2] = '\0';
	*value = equals != NULL ? equals + 1 : NULL;
	return true;
}

/* Finds options that take no value and say what the program is to do. */
static bool
find_action(const char *name, enum config_action *action)
{
	static const char *const names[] = {[CONFIG_TAKE_OVER] = "take-over",
					    [CONFIG_CHECK] = "check",
					    [CONFIG_PRECHECK] = "precheck",
					    [CONFIG_HELP] = "help",
					    [CONFIG_VERSION] = "version"};

	for (int i = CONFIG_TAKE_OVER; i <= CONFIG_VERSION; i++) {
		if (strcmp(names[i], name) == 0) {
			*action = (enum config_action)i;
			return true;
		}
	}
	return false;
}

/* Takes "--name value" or "--name=value"; *value is NULL without a value. */
static int
next_option(int argc, char **argv, int *index, char name[64], const char **value, char *why, size_t why_len)
{
	const char *arg = argv[*index];
	enum config_action action;

	if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0')
		return config_refuse(
			why, why_len, -EINVAL,
			"argument \"%s\": this is not an option; write --NAME VALUE (see --help)", arg);
	if (!split_option(arg, name, value))
		return config_refuse(why, why_len, -EINVAL,
				     "option %.70s...: there is no such option; see --help", arg);
	(*index)++;
	if (*value == NULL && !find_action(name, &action)) {
		/* An option is never a value: "--socket --check" lacks one. */
		if (*index >= argc || strncmp(argv[*index], "--", 2) == 0)
			return config_refuse(why, why_len, -EINVAL,
					     "option %s: its value is missing; write %s VALUE", arg, arg);
		*value = argv[(*index)++];
	}
	return 0;
}

static bool
is_given(const char *key, char *const *pair, unsigned int pairs)
{
	for (unsigned int i = 0; i < pairs; i++)
		if (strcmp(pair[i], key) == 0)
			return true;
	return false;
}

/* Handles "name=p0,device=net_memif0,...": the pair with `id` names the section, the others are its keys, as
 * in the file. */
static int
set_section(struct config *config, const char *option, const char *id, const char *example, const char *text,
	    char *why, size_t why_len)
{
	char copy[ARGUMENT_MAX], section[ARGUMENT_MAX + 8];
	const char *name = NULL;
	char *pair[16];
	unsigned int pairs = 0;

	if (strlen(text) >= sizeof(copy))
		return config_refuse(why, why_len, -E2BIG,
				     "--%s %.40s...: longer than %u bytes; use a file with --config", option,
				     text, ARGUMENT_MAX - 1);
	strcpy(copy, text);
	for (char *save = NULL, *token = strtok_r(copy, ",", &save); token != NULL;
	     token = strtok_r(NULL, ",", &save)) {
		char *equals = strchr(token, '=');
		if (equals == NULL || equals == token || pairs == sizeof(pair) / sizeof(pair[0]))
			return config_refuse(why, why_len, -EINVAL,
					     "--%s %s: \"%s\" is not KEY=VALUE; write as in --%s %s=%s",
					     option, text, token, option, id, example);
		*equals = '\0';
		if (is_given(token, pair, pairs) || (name != NULL && strcmp(token, id) == 0))
			return config_refuse(why, why_len, -EEXIST,
					     "--%s %s: %s is given twice; keep one of them", option, text,
					     token);
		if (strcmp(token, id) == 0)
			name = equals + 1;
		else
			pair[pairs++] = token;
	}
	if (name == NULL || pairs == 0)
		return config_refuse(why, why_len, -EINVAL, "--%s %s: %s is missing; write as in --%s %s=%s",
				     option, text, name == NULL ? id : "what belongs to it", option, id,
				     example);
	snprintf(section, sizeof(section), "%s %s", option, name);
	for (unsigned int i = 0; i < pairs; i++) {
		int ret = config_set(config, section, pair[i], pair[i] + strlen(pair[i]) + 1, why, why_len);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int
set_limit(struct config *config, const char *text, char *why, size_t why_len)
{
	char key[64];
	const char *equals = strchr(text, '=');
	if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof(key))
		return config_refuse(why, why_len, -EINVAL,
				     "--limit %.64s: this is not KEY=VALUE; write as in --limit max_qp=1000",
				     text);
	memcpy(key, text, (size_t)(equals - text));
	key[equals - text] = '\0';
	return config_set(config, "limits", key, equals + 1, why, why_len);
}

/* Options that are sections of the file. */
static const struct {
	const char *name, *id, *example;
} sections[] = {
	{"port", "name", "p0,address=192.0.2.1/24"},
	{"peer", "node", "2,address=192.0.2.2"},
	{"ipsec", "name", "far,address=192.0.2.2,out=300:/etc/oneside/out.key"},
	{"user", "name", "alice,weight=2"},
};

static int
set_option(struct config *config, const char *name, const char *value, char *why, size_t why_len)
{
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strcmp(sections[i].name, name) == 0)
			return set_section(config, name, sections[i].id, sections[i].example, value, why,
					   why_len);
	if (strcmp(name, "limit") == 0)
		return set_limit(config, value, why, why_len);
	if (config_key_find(&config_sections[CONFIG_DATAPLANE], name) != NULL)
		return config_set(config, "dataplane", name, value, why, why_len);
	return config_refuse(why, why_len, -EINVAL, "option --%s: there is no such option; see --help", name);
}

/* Value of `key` in "key=value,...", with its length; NULL: missing. */
static const char *
find_value(const char *text, const char *key, size_t key_len, size_t *len)
{
	for (; *text != '\0'; text += strspn(text, ",")) {
		size_t all = strcspn(text, ",");

		if (all > key_len && strncmp(text, key, key_len) == 0 && text[key_len] == '=') {
			*len = all - key_len - 1;
			return text + key_len + 1;
		}
		text += all;
	}
	return NULL;
}

/* Do two values of a section's option name the same object and share another key? */
static bool
shares_key(const char *a, const char *b, const char *id, const char **key, size_t *key_len)
{
	size_t len_a = 0, len_b = 0;
	const char *name_a = find_value(a, id, strlen(id), &len_a),
		   *name_b = find_value(b, id, strlen(id), &len_b);

	if (name_a == NULL || name_b == NULL || len_a != len_b || strncmp(name_a, name_b, len_a) != 0)
		return false;
	for (; *a != '\0'; a += strspn(a, ",")) {
		*key = a;
		*key_len = strcspn(a, "=,");
		a += strcspn(a, ",");
		if (strlen(id) != *key_len || strncmp(*key, id, *key_len) != 0)
			if (find_value(b, *key, *key_len, &len_b) != NULL)
				return true;
	}
	return false;
}

/* Key of an option without object, with the text of its value; NULL: the option has an object, or does not
 * exist. `config` stands for --config. */
static const void *
scalar_key(const char *option, const char *value, const char **text)
{
	static const char config;
	const char *equals = strchr(value, '=');
	char key[64];

	*text = value;
	if (strcmp(option, "config") == 0)
		return &config;
	if (strcmp(option, "limit") != 0)
		return config_key_find(&config_sections[CONFIG_DATAPLANE], option);
	if (equals == NULL || (size_t)(equals - value) >= sizeof(key))
		return NULL;
	*text = equals + 1;
	snprintf(key, sizeof(key), "%.*s", (int)(equals - value), value);
	return config_key_find(&config_sections[CONFIG_LIMITS], key);
}

/* Refuses if the option before argv[index], which has no object, is repeated before `end`. */
static int
check_scalar(const char *option, const char *value, int index, int end, char **argv, char *why,
	     size_t why_len)
{
	const char *text, *other_value = NULL, *other_text = NULL;
	const void *key = scalar_key(option, value, &text);
	char other[64];

	while (key != NULL && index < end) {
		if (next_option(end, argv, &index, other, &other_value, why, why_len) != 0)
			return 0; /* refused when it is parsed itself */
		if (other_value != NULL && scalar_key(other, other_value, &other_text) == key)
			return config_refuse(
				why, why_len, -EEXIST,
				"--%s %s and --%s %s: it is given twice, as %s and as %s; keep one", option,
				value, other, other_value, text, other_text);
	}
	return 0;
}

/* Refuses if a key of the section option before argv[index] is repeated for the same object before `end`. */
static int
check_repeated(const char *option, const char *text, int index, int end, char **argv, char *why,
	       size_t why_len)
{
	const char *id = NULL, *key, *value;
	size_t key_len;
	char name[64];

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strcmp(sections[i].name, option) == 0)
			id = sections[i].id;
	while (id != NULL && index < end) {
		if (next_option(end, argv, &index, name, &value, why, why_len) != 0)
			return 0; /* refused when it is parsed itself */
		if (strcmp(name, option) == 0 && shares_key(text, value, id, &key, &key_len))
			return config_refuse(why, why_len, -EEXIST,
					     "--%s %s and --%s %s: %.*s is given twice; keep one of them",
					     option, text, option, value, (int)key_len, key);
	}
	return 0;
}

bool
config_is_option(const char *arg)
{
	static const char *const others[] = {"config", "port",  "peer",     "ipsec",    "user",
					     "limit",  "check", "precheck", "take-over"};
	const char *value;
	char name[64];

	if (!split_option(arg, name, &value))
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i], name) == 0)
			return true;
	/* EAL also has --log-level. */
	return config_key_find(&config_sections[CONFIG_DATAPLANE], name) != NULL &&
	       strcmp(name, "log-level") != 0 && strcmp(name, "log_level") != 0;
}

int
config_options(struct config *config, int argc, char **argv, enum config_action *action, char *why,
	       size_t why_len)
{
	*action = CONFIG_SERVE;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 1; i < argc;) {
			char name[64];
			const char *value = NULL;
			int ret = next_option(argc, argv, &i, name, &value, why, why_len);
			if (ret < 0)
				return ret;
			bool is_config = strcmp(name, "config") == 0;
			if (find_action(name, action)) {
				if (value != NULL)
					return config_refuse(why, why_len, -EINVAL,
							     "option --%s: it takes no value; remove =%s",
							     name, value);
			} else if (pass == 0 && is_config) {
				ret = check_scalar(name, value, i, argc, argv, why, why_len);
				if (ret == 0)
					ret = config_read(config, value, why, why_len);
			} else if (pass == 1 && !is_config) {
				ret = check_repeated(name, value, i, argc, argv, why, why_len);
				if (ret == 0)
					ret = check_scalar(name, value, i, argc, argv, why, why_len);
				if (ret == 0)
					ret = set_option(config, name, value, why, why_len);
			}
			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

void
config_usage(void *file)
{
	const struct config_key *limits = config_sections[CONFIG_LIMITS].keys;
	FILE *out = file;
	fprintf(out,
		"Usage: oneside-dataplane [EAL options] -- [options]\n"
		"\n"
		"EAL options choose cores (-l 0,1: the first is the control thread, the others poll), memory\n"
		"(hugepages, or --no-huge -m 1024) and devices (-a PCI-ADDRESS, --vdev=net_memif0,...).\n"
		"\n"
		"  --config FILE     read FILE first; the options below override it\n"
		"  --port name=NAME,address=ADDRESS/PREFIX[,device=DEVICE][,gateway=ADDRESS][,mtu=N][,path_mtu=N]\n"
		"         [,route=NETWORK/PREFIX via ADDRESS][,ack_timeout=N][,rnr_retry=N]\n"
		"         [,dscp=N][,flow_label=N]; separate several addresses, gateways or routes by blanks\n"
		"  --peer node=N,address=ADDRESS[,port=NAME][,secret_file=PATH][,old_secret_file=PATH]\n"
		"         [,dscp=N][,flow_label=N]\n"
		"  --ipsec name=NAME,address=ADDRESS,out=SPI:FILE,in=SPI:FILE[,in_next=SPI:FILE][,port=NAME]\n"
		"         [,policy=encrypt|plain][,soft_packets=N][,hard_packets=N][,soft_bytes=N][,hard_bytes=N]\n"
		"  --user name=NAME[,weight=N][,max_ops=N][,max_bytes=N][,dscp=N][,flow_label=N]\n"
		"                    a user's share of the cores, limits per second, and marks of packets\n"
		"  --node N          RSM node id, 1 to 63 (0: no RSM between nodes)\n"
		"  --socket PATH     where applications attach (default " ONE_SOCKET_DEFAULT ")\n"
		"  --socket-mode N   its permissions, octal (default 0666)\n"
		"  --ctl PATH        the control socket for onesidectl (default: next to the socket)\n"
		"  --ctl-group GROUP a group that may look, besides root and the own user\n"
		"  --ctl-admin-group GROUP\n"
		"                    a group that may look and change\n"
		"  --idle HOW        what a polling core without work does: spin, yield or sleep\n"
		"  --keepalive-ms N  silence after which an RSM peer is lost\n"
		"  --work-pool N     requests in progress per core\n"
		"  --mbufs N         packet buffers per core and port\n"
		"  --placement auto|fixed|one|next\n"
		"  --process-memory yes|no\n"
		"                    whether memory that cannot be shared may be registered (slower)\n"
		"  --state DIRECTORY where IPsec sequence numbers are saved (default /var/lib/oneside)\n"
		"  --metrics WHERE   serve metrics by HTTP: unix:PATH, ADDRESS:PORT or [ADDRESS]:PORT\n"
		"  --log-level LEVEL lowest level of oneside's own log lines; not EAL's option\n"
		"  --limit KEY=N     may be repeated; KEY is one of\n"
		"                   ");
	for (const struct config_key *key = limits; key->name != NULL; key++)
		fprintf(out, "%s %s", key != limits && (key - limits) % 5 == 0 ? "\n                   " : "",
			key->name);
	fprintf(out,
		"\n"
		"  --take-over       replace the data plane that serves on the socket; programs notice nothing\n"
		"  --check           check machine and configuration, print what is missing, and end\n"
		"  --precheck        the same without starting devices and memory\n"
		"  --help            this text\n"
		"  --version         the versions of oneside and DPDK\n"
		"\n"
		"Two data planes on a virtual cable, without root:\n"
		"  oneside-dataplane -l 0,1 --no-huge -m 512 --no-pci --iova-mode=va --file-prefix=a \\\n"
		"    --vdev=net_memif0,role=server,socket=/tmp/cable,socket-abstract=no \\\n"
		"    -- --socket /tmp/a.sock --port name=p0,device=net_memif0,address=192.0.2.1/24\n"
		"and the same with b, role=client, /tmp/b.sock, 192.0.2.2/24, and a polling core of its own:\n"
		"--lcores=0@1,1@0 instead of -l 0,1 where there are two processors.\n");
}
