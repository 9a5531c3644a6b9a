/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The watcher: one thread per process, which notices the end of attachments.
 *
 * The thread polls the sockets of all attachments for hang-up only (events = 0), so it never takes a reply
 * away from one_call. When an attachment has ended, the thread marks the client dead, wakes every sleeper,
 * and calls `lost`. The order matters: a woken thread sees `dead`. The thread exists while there are
 * attachments.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/explain.h"
#include "client/internal.h"

#define STACK_SIZE (256u * 1024u)
#define SET_STEP 512u
#define LOOK_MS 5000 /* limit until descriptors are checked again, if the poll set is complete */
#define LOOK_SHORT_MS 1000

/* State of one run of the thread, which frees it at its end. */
struct run {
	int wake_fd; /* eventfd: the list has changed, or `stop` */
	dev_t device;
	ino_t inode; /* device and inode identify wake_fd */
	bool stop;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* signalled when `calling` has changed */
	struct one_client *clients;
	struct one_client *calling; /* client whose `lost` is running */
	uint32_t count;
	struct run *run;      /* NULL: no thread */
	_Atomic bool running; /* false as soon as the thread is to stop, which is earlier than its end: see
				 transplant() */
	pthread_t thread;
} watcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static int
open_wake(struct run *run)
{
	struct stat st;

	run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (run->wake_fd < 0)
		return -errno;
	fstat(run->wake_fd, &st);
	run->device = st.st_dev;
	run->inode = st.st_ino;
	return 0;
}

/* Checks wake_fd, since a program that closes unknown descriptors may have opened another file under its
 * number. */
static bool
is_wake(const struct run *run)
{
	struct stat st;

	return fstat(run->wake_fd, &st) == 0 && st.st_dev == run->device && st.st_ino == run->inode;
}

static void
wake_watcher(void)
{
	uint64_t one = 1;
	ssize_t n = is_wake(watcher.run) ? write(watcher.run->wake_fd, &one, sizeof(one)) : 0;

	(void)n; /* a full counter is readable, too */
}

void
client_mark_dead(struct one_client *client)
{
	/* Pairs with the acquire load in one_client_dead, and with itself: one thread prints. */
	if (!atomic_exchange_explicit(&client->dead, true, memory_order_acq_rel))
		one_warn_gone(client->sock);
}

/* Called with the lock held, and returns with it held; `lost` runs without it. */
static void
bury_client(struct one_client *client)
{
	client->watched = false;
	/* Before the program hears of anything that follows. */
	client_mark_dead(client);
	wait_wake_all(client);
	if (client->lost == NULL)
		return;
	watcher.calling = client;
	pthread_mutex_unlock(&watcher.lock);
	client->lost(client->user);
	pthread_mutex_lock(&watcher.lock);
	watcher.calling = NULL;
	pthread_cond_broadcast(&watcher.idle);
}

static struct one_client *
find_by_sock(int sock)
{
	struct one_client *client = watcher.clients;

	while (client != NULL && !(client->watched && client->sock == sock))
		client = client->next;
	return client;
}

/* Grows the poll set to hold all sockets; on lack of memory the set stays as it is. The set has its own
 * pages: poll(2) stores into them, and must not store into a page of the heap while it is being adopted. */
static struct pollfd *
grow_set(struct pollfd *set, uint32_t *room, uint32_t need)
{
	struct pollfd *more;

	if (need <= *room)
		return set;
	need = (2 * need + SET_STEP - 1) / SET_STEP * SET_STEP;
	more = mmap(NULL, need * sizeof(*set), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (more == MAP_FAILED)
		return set;
	if (set != NULL)
		munmap(set, *room * sizeof(*set));
	*room = need;
	return more;
}

static void *
watch_sockets(void *arg)
{
	struct run *run = arg;
	struct pollfd *set = NULL;
	uint32_t room = 0;

	pthread_mutex_lock(&watcher.lock);
	while (!run->stop) {
		uint32_t n = 0;

		set = grow_set(set, &room, watcher.count + 1);
		if (room == 0) {
			/* no memory at all: try again a little later */
			pthread_mutex_unlock(&watcher.lock);
			usleep(100000);
			pthread_mutex_lock(&watcher.lock);
			continue;
		}
		set[n++] = (struct pollfd){.fd = run->wake_fd, .events = POLLIN};
		for (struct one_client *c = watcher.clients; c != NULL && n < room; c = c->next) {
			if (c->watched)
				set[n++] = (struct pollfd){.fd = c->sock, .events = 0};
		}
		pthread_mutex_unlock(&watcher.lock);
		/* The limit lets a poll set cut short by lack of memory recover, and a program that closed
		 * foreign descriptors be noticed. */
		poll(set, n, n < room ? LOOK_MS : LOOK_SHORT_MS);
		pthread_mutex_lock(&watcher.lock);
		if (!is_wake(run) && open_wake(run) == 0)
			set[0].revents = 0;
		if ((set[0].revents & POLLIN) != 0) {
			uint64_t value;
			ssize_t got = read(run->wake_fd, &value, sizeof(value));

			(void)got;
			/* The list has changed, and descriptors may have been reused: poll again. */
			continue;
		}
		for (uint32_t i = 1; i < n && !run->stop; i++) {
			struct one_client *client;

			if ((set[i].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0)
				continue;
			client = find_by_sock(set[i].fd);
			if (client != NULL)
				bury_client(client);
		}
	}
	pthread_mutex_unlock(&watcher.lock);
	if (is_wake(run))
		close(run->wake_fd);
	free(run);
	if (set != NULL)
		munmap(set, room * sizeof(*set));
	return NULL;
}

/* Creates a thread with all signals blocked: no signal handler of the application runs on it. */
static int
create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(thread, attr, run, argument);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

int
client_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
	pthread_attr_t attr;
	int error;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	error = create_thread(thread, &attr, run, argument);
	if (error == EINVAL) /* large static TLS needs a larger stack */
		error = create_thread(thread, NULL, run, argument);
	pthread_attr_destroy(&attr);
	return -error;
}

int
client_thread_apart(pthread_t *thread, size_t size, void *(*run)(void *), void *argument, void **stack)
{
	pthread_attr_t attr;
	int error;

	*stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*stack == MAP_FAILED)
		return -ENOMEM;
	pthread_attr_init(&attr);
	error = pthread_attr_setstack(&attr, *stack, size);
	if (error == 0)
		error = create_thread(thread, &attr, run, argument);
	pthread_attr_destroy(&attr);
	if (error != 0)
		munmap(*stack, size);
	return -error;
}

/* Called with the lock held. */
static int
start_watcher(void)
{
	struct run *run = calloc(1, sizeof(*run));
	int error;

	if (run == NULL)
		return -ENOMEM;
	error = open_wake(run);
	if (error != 0) {
		free(run);
		return error;
	}
	error = client_thread(&watcher.thread, watch_sockets, run);
	if (error != 0) {
		close(run->wake_fd);
		free(run);
		return error;
	}
	watcher.run = run;
	one_store_alone(&watcher.running, true);
	return 0;
}

int
watcher_add(struct one_client *client)
{
	int error = 0;

	pthread_mutex_lock(&watcher.lock);
	if (watcher.run == NULL)
		error = start_watcher();
	if (error == 0) {
		client->watched = true;
		client->next = watcher.clients;
		watcher.clients = client;
		watcher.count++;
		wake_watcher();
	}
	pthread_mutex_unlock(&watcher.lock);
	return error;
}

void
watcher_remove(struct one_client *client)
{
	struct one_client **at = &watcher.clients;
	bool self, join = false;
	pthread_t thread;

	pthread_mutex_lock(&watcher.lock);
	thread = watcher.thread;
	self = watcher.run != NULL && pthread_equal(pthread_self(), thread);
	while (watcher.calling == client && !self)
		pthread_cond_wait(&watcher.idle, &watcher.lock);
	while (*at != NULL && *at != client)
		at = &(*at)->next;
	if (*at == client) {
		*at = client->next;
		watcher.count--;
		wake_watcher();
	}
	client->watched = false;
	if (watcher.run != NULL && watcher.count == 0) {
		watcher.run->stop = true;
		watcher.run = NULL;
		one_store_alone(&watcher.running, false);
		join = !self;
		if (self) /* `lost` detaches the last client: no other thread joins */
			pthread_detach(thread);
	}
	pthread_mutex_unlock(&watcher.lock);
	if (join)
		pthread_join(thread, NULL);
}

bool
watcher_running(void)
{
	return one_load_alone(&watcher.running);
}

void
watcher_fork_prepare(void)
{
	pthread_mutex_lock(&watcher.lock);
}

void
watcher_fork_parent(void)
{
	pthread_mutex_unlock(&watcher.lock);
}

void
watcher_fork_child(void)
{
	/* Neither the thread nor waiters on the lock exist in the child. */
	pthread_mutex_init(&watcher.lock, NULL);
	pthread_cond_init(&watcher.idle, NULL);
	for (struct one_client *c = watcher.clients; c != NULL; c = c->next)
		client_disown(c);
	if (watcher.run != NULL)
		close(watcher.run->wake_fd);
	watcher.clients = NULL;
	watcher.calling = NULL;
	watcher.count = 0;
	watcher.run = NULL;
	one_store_alone(&watcher.running, false);
}
