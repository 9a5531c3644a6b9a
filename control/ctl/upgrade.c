/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces this process by another version, which it starts itself. If that one takes over, this process
 * ends, and the caller's connection with it; else the caller gets the reason. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "control/ctl/internal.h"
#include "control/takeover/launch.h"

static struct {
	bool runs;
	bool reloads;              /* if the new process does not take over */
	struct ctl_caller *caller; /* NULL: disconnected */
	int ended_fd;              /* an eventfd */
	struct watch watch;
} upgrade = {.ended_fd = -1};

static const char *
reloads_text(bool reloads)
{
	return reloads ? ", and reads its configuration again" : "";
}

static void
ended_ready(struct watch *watch, uint32_t events)
{
	char why[LAUNCH_WHY];
	eventfd_t value;

	if (eventfd_read(upgrade.ended_fd, &value) != 0)
		return;
	takeover_launch_join(why);
	upgrade.runs = false;
	if (upgrade.reloads)
		ctl_hangup();
	if (upgrade.caller != NULL)
		ctl_refuse(upgrade.caller, "upgrade: the data plane that serves goes on%s: %s",
			   reloads_text(upgrade.reloads), why);
	upgrade.caller = NULL;
}

/* True if a program that this process starts can do more than other programs of this user. */
static bool
has_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &header, data) != 0 || (data[0].permitted | data[1].permitted) != 0;
}

/* Reason to refuse, or NULL. */
static const char *
refusal_reason(const struct ctl_caller *caller, const struct ctl_request *request)
{
	uid_t uid = caller->cred.uid;

	if (uid != 0 && uid != geteuid())
		return "only root or the data plane's own user may upgrade it";
	if (uid != 0 && (request->given & CTL_M_BINARY) != 0 && has_capabilities())
		return "only root may name a file, which would get the data plane's capabilities; leave it out";
	if (upgrade.runs)
		return "another one is under way; try again, or end its new process";
	return NULL;
}

void
ctl_upgrade(struct ctl_caller *caller, const struct ctl_request *request)
{
	const char *reason, *binary = (request->given & CTL_M_BINARY) != 0 ? request->binary : NULL;
	char why[LAUNCH_WHY];

	if (request->reload && !takeover_is_replaced()) {
		ctl_reload(caller, &(const struct ctl_request){.command = CTL_RELOAD});
		return;
	}
	reason = refusal_reason(caller, request);
	if (reason == NULL && takeover_launch(binary, upgrade.ended_fd, why, sizeof(why)) != 0)
		reason = why;
	if (reason != NULL) {
		if (request->reload)
			ctl_hangup();
		ctl_refuse(caller, "upgrade: the data plane that serves goes on%s: %s",
			   reloads_text(request->reload), reason);
		return;
	}
	ctl_reload_note_take_over();
	upgrade.runs = true;
	upgrade.reloads = request->reload;
	upgrade.caller = caller;
}

void
ctl_upgrade_forget(const struct ctl_caller *caller)
{
	if (upgrade.caller == caller)
		upgrade.caller = NULL;
}

bool
ctl_upgrade_runs(void)
{
	return upgrade.runs;
}

int
ctl_upgrade_open(void)
{
	upgrade.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	upgrade.watch.ready = ended_ready;
	return upgrade.ended_fd < 0 ? -errno : control_watch(upgrade.ended_fd, &upgrade.watch, EPOLLIN);
}

void
ctl_upgrade_close(void)
{
	/* The thread that waits for the process ends with this one. */
	if (upgrade.runs)
		takeover_launch_end();
	else if (upgrade.ended_fd >= 0)
		close(upgrade.ended_fd);
	upgrade.ended_fd = -1;
}
