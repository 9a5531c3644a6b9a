/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching: the socket, the greeting, the arena. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/internal.h"
#include "copier.h"

/* Limit for each wait for the data plane: for room in its listen queue, and for its answer. */
#define HELLO_TIMEOUT_S 10

void *
one_client_span(const struct one_client *client, uint64_t offset, uint64_t size)
{
	if (offset % ONE_CACHE_LINE != 0 || size > client->info.arena_size ||
	    offset > client->info.arena_size - size)
		return NULL;
	return client->arena + offset;
}

bool
client_cq_ring(const struct one_client *client, uint64_t offset, uint32_t log2, struct one_cq_shm **shm,
	       struct one_cqe **ring)
{
	uint8_t *base;

	if (log2 > ONE_RING_LOG2_MAX)
		return false;
	base = one_client_span(client, offset, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2));
	if (base == NULL)
		return false;
	*shm = (struct one_cq_shm *)(void *)base;
	*ring = (struct one_cqe *)(void *)(base + sizeof(struct one_cq_shm));
	return true;
}

const char *
one_socket_path(const char *path)
{
	if (path == NULL)
		path = secure_getenv(ONE_SOCKET_ENV);
	return path == NULL || path[0] == '\0' ? ONE_SOCKET_DEFAULT : path;
}

/* Limits each single wait on the socket. */
static void
set_timeout(int sock, time_t seconds)
{
	const struct timeval timeout = {.tv_sec = seconds};

	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* limits connect(2), too */
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
}

static int
connect_socket(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock;

	path = one_socket_path(path);
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	set_timeout(sock, HELLO_TIMEOUT_S);
	while (connect(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int error = errno;

		if (error == EINTR)
			continue;
		close(sock);
		return error == EAGAIN ? -ETIMEDOUT : -error;
	}
	return sock;
}

static int
exchange_hello(struct one_client *client, const struct one_attach *args)
{
	struct one_msg msg = {.type = ONE_MSG_HELLO, .seq = 0};
	struct one_reply reply;
	uint32_t num_fds = 2;
	int fds[2];
	int error;

	msg.hello.magic = ONE_MSG_MAGIC;
	msg.hello.version = ONE_ABI_VERSION;
	msg.hello.kind = args->kind;
	if (args->port != NULL) {
		if (strlen(args->port) >= sizeof(msg.hello.port))
			return -ENODEV;
		memcpy(msg.hello.port, args->port, strlen(args->port));
	}
	memcpy(msg.hello.program, program_invocation_short_name,
	       strnlen(program_invocation_short_name, sizeof(msg.hello.program) - 1));
	error = call_exchange(client->sock, &msg, &reply, fds, &num_fds);
	if (error != 0)
		return error;
	if (num_fds > 0)
		client->arena_fd = fds[0];
	if (num_fds > 1)
		client->wake_fd = fds[1];
	if (reply.error != 0)
		return reply.error < 0 ? reply.error : -EPROTO;
	if (num_fds != 2 || reply.welcome.version != ONE_ABI_VERSION)
		return -EPROTO;
	client->info = reply.welcome;
	client->info.port[ONE_PORT_NAME - 1] = '\0';
	set_timeout(client->sock, ONE_SILENCE_S);
	return 0;
}

static int
map_arena(struct one_client *client)
{
	uint64_t size = client->info.arena_size;
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	struct stat st;
	void *arena;
	int seals;

	if (size < sizeof(struct one_arena) || size % (uint64_t)sysconf(_SC_PAGESIZE) != 0 ||
	    size > ONE_ARENA_SIZE)
		return -EPROTO;
	if (fstat(client->arena_fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < size)
		return -EPROTO;
	/* If the file could shrink, loads of this process could fault. */
	seals = fcntl(client->arena_fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		return -EPROTO;
	arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, client->arena_fd, 0);
	if (arena == MAP_FAILED)
		return -errno;
	client->arena = arena;
	client->header = arena;
	if (client->header->magic != ONE_ARENA_MAGIC || client->header->version != ONE_ABI_VERSION ||
	    client->header->size != size)
		return -EPROTO;
	client->doorbells = one_client_span(client, client->header->doorbells, sizeof(struct one_doorbells));
	client->channels =
		one_client_span(client, client->header->channels, ONE_CHANNELS * sizeof(struct one_channel));
	client->keys = one_client_span(client, client->header->keys, sizeof(struct one_keys));
	if (client->doorbells == NULL || client->channels == NULL || client->keys == NULL)
		return -EPROTO;
	if (!client_cq_ring(client, client->info.async_cq_offset, client->info.async_cq_log2, &shm, &ring) ||
	    one_client_span(client, client->info.async_cq_bundle, sizeof(struct one_cq_bundle)) == NULL)
		return -EPROTO;
	return 0;
}

/* Unmaps and closes; does not free `client`. */
static void
release_resources(struct one_client *client)
{
	if (client->arena != NULL)
		munmap(client->arena, client->info.arena_size);
	if (client->arena_fd >= 0)
		close(client->arena_fd);
	if (client->wake_fd >= 0)
		close(client->wake_fd);
	if (client->sock >= 0)
		close(client->sock);
}

static void
destroy_client(struct one_client *client)
{
	release_resources(client);
	/* After fork the condition variable of a child may count waiting threads of the parent: destroying it
	 * would block. */
	if (!client_foreign(client))
		pthread_cond_destroy(&client->call_room);
	pthread_mutex_destroy(&client->call_lock);
	pthread_mutex_destroy(&client->channel_lock);
	free(client);
}

int
client_attach(const struct one_attach *args, struct one_client **out)
{
	struct one_client *client;
	int error;

	client = calloc(1, sizeof(*client));
	if (client == NULL)
		return -ENOMEM;
	client->arena_fd = -1;
	client->wake_fd = -1;
	client->lost = args->lost;
	client->user = args->user;
	client->restarts = args->restarts;
	client->channel_used[0] = 1; /* channel 0 is never allocated */
	pthread_mutex_init(&client->call_lock, NULL);
	pthread_cond_init(&client->call_room, NULL);
	pthread_mutex_init(&client->channel_lock, NULL);

	client->sock = connect_socket(args->socket);
	error = client->sock < 0 ? client->sock : exchange_hello(client, args);
	if (error == 0)
		error = map_arena(client);
	if (error == 0) {
		*out = client; /* `lost` may run before this function returns */
		error = watcher_add(client);
	}
	if (error != 0)
		destroy_client(client);
	return error;
}

void
client_detach(struct one_client *client)
{
	if (!client_foreign(client))
		watcher_remove(client);
	destroy_client(client);
}

void
client_disown(struct one_client *client)
{
	/* From now on stores of this child to the rings go to private pages. Descriptors are closed, so that
	 * the data plane notices the parent's death even while children live. */
	if (mmap(client->arena, client->info.arena_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, client->arena_fd, 0) == MAP_FAILED)
		munmap(client->arena, client->info.arena_size);
	close(client->arena_fd);
	close(client->wake_fd);
	close(client->sock);
	client->arena_fd = -1;
	client->wake_fd = -1;
	client->sock = -1;
	client->uses = NULL;
	if (client->copier != NULL)
		copier_forget(client->copier);
	client->copier = NULL;
	one_store_alone(&client->foreign, true);
}

const struct one_welcome *
one_client_info(const struct one_client *client)
{
	return &client->info;
}

bool
one_client_dead(const struct one_client *client)
{
	/* Acquire pairs with the watcher's release store: the caller sees the watcher's earlier stores,
	 * too. */
	return atomic_load_explicit(&client->dead, memory_order_acquire) ||
	       atomic_load_explicit(&client->header->fault, memory_order_relaxed) != 0;
}
