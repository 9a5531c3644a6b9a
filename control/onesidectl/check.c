/* SPDX-License-Identifier: BSD-3-Clause */
/* What a machine lacks for a configuration: the data plane's --precheck, for the service as the service would
 * run it. */
#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

#define USER "oneside" /* of the service */

bool
onesidectl_service(const char *conf, char service[ONESIDECTL_SERVICE])
{
	static const char folder[] = SYSCONFDIR "/oneside/";
	char name[100];
	int end = 0;

	strcpy(service, "oneside");
	if (strncmp(conf, folder, sizeof(folder) - 1) != 0)
		return false;
	conf += sizeof(folder) - 1;
	if (strcmp(conf, "oneside.conf") == 0)
		return true;
	if (sscanf(conf, "%99[A-Za-z0-9_.-]/oneside.conf%n", name, &end) != 1 || end == 0 ||
	    conf[end] != '\0')
		return false;
	snprintf(service, ONESIDECTL_SERVICE, "oneside@%s", name);
	return true;
}

/* Beside this program, as in a build directory; else where it is installed. */
static const char *
dataplane(void)
{
	static char path[4200];
	char own[4096];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	if (n > 0) {
		own[n] = '\0';
		snprintf(path, sizeof(path), "%s/oneside-dataplane", dirname(own));
		if (access(path, X_OK) == 0)
			return path;
	}
	return BINDIR "/oneside-dataplane";
}

/* The file of EAL options that belongs to a configuration: beside it, else, of none that a service reads, the
 * service's. */
static FILE *
open_eal_conf(const char *config, bool serves)
{
	char copy[4096], path[4200];
	FILE *file;

	snprintf(copy, sizeof(copy), "%s", config);
	snprintf(path, sizeof(path), "%s/eal.conf", dirname(copy));
	file = fopen(path, "re");
	return file != NULL || serves ? file : fopen(SYSCONFDIR "/oneside/eal.conf", "re");
}

/* Its EAL_OPTIONS, or what the service has without them. */
static void
add_eal_options(struct onesidectl_command *command, FILE *file)
{
	char line[4096] = "", options[4096] = "-l 0,1 --huge-dir=/dev/hugepages/oneside";

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "EAL_OPTIONS=", 12) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		strcpy(options, line + 12);
	}
	if (file != NULL)
		fclose(file);
	for (char *save = NULL, *word = strtok_r(options, " \t\"'", &save); word != NULL;
	     word = strtok_r(NULL, " \t\"'", &save))
		onesidectl_command_add(command, "%s", word);
}

/* All that root may but read others' files: which of them the unit gives depends on its drop-ins. */
static int
keep_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		return -1;
	data[0].permitted &= ~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH);
	for (unsigned int i = 0; i < 2; i++)
		data[i].effective = data[i].inheritable = data[i].permitted;
	if (syscall(SYS_capset, &header, data) != 0)
		return -1;
	for (unsigned int cap = 0; cap < 64; cap++)
		if ((data[cap / 32].permitted >> cap % 32 & 1) != 0 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0)
			return -1;
	return 0;
}

/* Files of keys that root can read may be closed to the service, and those that are its own look foreign to
 * root. */
static void
become_service(void)
{
	const struct passwd *user = getpwnam(USER);

	if (user == NULL)
		onesidectl_fail(
			"user " USER
			": there is none, and the service runs as this user; make it with systemd-sysusers");
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || initgroups(USER, user->pw_gid) != 0 ||
	    setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0 || keep_capabilities() != 0)
		onesidectl_fail("user " USER
				": this process cannot look as this user does: %s; be root of the host",
				strerror(errno));
}

/* As the unit has it, in whose folder EAL's files are. */
static void
set_runtime(const char *instance)
{
	char path[256] = "/run/oneside";

	if (instance != NULL)
		snprintf(path, sizeof(path), "/run/oneside/%s", instance);
	/* Which the service manager makes, when it starts the instance for the first time. */
	setenv("RUNTIME_DIRECTORY", access(path, F_OK) == 0 ? path : "/run/oneside", 1);
}

int
check_config_run(int count, char **words)
{
	struct onesidectl_command command = {.words = 0};
	const char *path = count > 0 ? words[0] : SYSCONFDIR "/oneside/oneside.conf", *real, *instance;
	char service[ONESIDECTL_SERVICE];
	bool serves;

	if (count > 1)
		onesidectl_misused("check %s: one file is enough", words[1]);
	real = realpath(path, NULL);
	serves = onesidectl_service(real != NULL ? real : path, service);
	if (serves && real != NULL)
		path = real; /* its user may not be able to look at this folder */
	instance = strchr(service, '@') != NULL ? strchr(service, '@') + 1 : NULL;
	onesidectl_command_add(&command, "%s", dataplane());
	/* As the unit of an instance has them. */
	if (instance != NULL)
		onesidectl_command_add(&command, "--file-prefix=oneside-%s", instance);
	add_eal_options(&command, open_eal_conf(path, serves));
	onesidectl_command_add(&command, "--");
	if (instance != NULL) {
		onesidectl_command_add(&command, "--socket=/run/oneside/%s/oneside.sock", instance);
		onesidectl_command_add(&command, "--state=/var/lib/oneside-%s", instance);
	}
	onesidectl_command_add(&command, "--config=%s", path);
	onesidectl_command_add(&command, "--precheck");
	if (serves && geteuid() == 0) {
		set_runtime(instance);
		become_service();
	}
	onesidectl_command_start(&command, "install the data plane");
}
