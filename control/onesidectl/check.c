/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what a machine lacks for a configuration, by the data plane's --precheck. A service's configuration
 * is checked as the service's user. */
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

#define USER "oneside" /* user of the service */

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

/* Path of the data plane: this program's folder, as in a build directory, else the installed one. */
static const char *
dataplane_path(void)
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

/* Opens the eal.conf next to a configuration. Falls back to the main service's for configurations that no
 * service reads. */
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

/* Adds the file's EAL_OPTIONS, or the unit's defaults. */
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

/* Keeps root's capabilities except those that bypass file permissions: the unit's drop-ins decide which it
 * grants. */
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

/* Key files that root can read may be unreadable to the service, and the service's own files look foreign to
 * root. */
static void
become_service(void)
{
	const struct passwd *user = getpwnam(USER);

	if (user == NULL)
		onesidectl_fail(
			"user " USER
			": no such user, but the service runs as this user; create it with systemd-sysusers");
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || initgroups(USER, user->pw_gid) != 0 ||
	    setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0 || keep_capabilities() != 0)
		onesidectl_fail("user " USER ": cannot switch to this user: %s; run as root of the host",
				strerror(errno));
}

/* Sets RUNTIME_DIRECTORY as the unit does; EAL's files are there. */
static void
set_runtime(const char *instance)
{
	char path[256] = "/run/oneside";

	if (instance != NULL)
		snprintf(path, sizeof(path), "/run/oneside/%s", instance);
	/* The service manager creates the instance's folder at its first start. */
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
		onesidectl_misused("check %s: only one file can be checked; leave it out", words[1]);
	real = realpath(path, NULL);
	serves = onesidectl_service(real != NULL ? real : path, service);
	if (serves && real != NULL)
		path = real; /* the service's user may be unable to resolve a path in this folder */
	instance = strchr(service, '@') != NULL ? strchr(service, '@') + 1 : NULL;
	onesidectl_command_add(&command, "%s", dataplane_path());
	/* Same options as in the instance's unit. */
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
