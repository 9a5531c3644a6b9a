/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminal for `top`: single keys are read without Enter, and the settings are restored at the end. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

#define MS 1000

static struct termios before;
static bool open;

static void
restore_terminal(void)
{
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void
on_end(int number)
{
	restore_terminal();
	signal(number, SIG_DFL);
	raise(number);
}

void
top_screen_open(void)
{
	struct termios keys;

	if (onesidectl_options.json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) ||
	    tcgetattr(STDIN_FILENO, &before) != 0)
		return;
	keys = before;
	keys.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	signal(SIGINT, on_end);
	signal(SIGTERM, on_end);
	atexit(restore_terminal);
	open = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
}

size_t
top_screen_rows(void)
{
	struct winsize size;

	if (!open || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
		return SIZE_MAX;
	return size.ws_row;
}

static long
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * MS + now.tv_nsec / 1000000;
}

bool
top_screen_wait(unsigned int seconds)
{
	struct pollfd keys = {.fd = open ? STDIN_FILENO : -1, .events = POLLIN};
	long end = now_ms() + (long)seconds * MS, left;
	char key;

	while ((left = end - now_ms()) > 0) {
		if (poll(&keys, 1, (int)left) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q')
			return false;
	}
	return true;
}
