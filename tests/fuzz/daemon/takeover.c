/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that takes over from a hostile one: the messages, the descriptors and the records of
 * tests/data/takeover, changed by the input.  Core and timers go on with what is accepted.
 *
 * A process takes over once, and undoes nothing, so each input has a process of its own, which shares its
 * coverage with the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/log.h"
#include "control/daemon/daemon.h"
#include "control/takeover/wire.h"
#include "dataplane/base/record.h"
#include "dataplane/base/record_type.h"
#include "tests/fuzz/base/records.h"
#include "tests/unit/engine/fixture.h"
#include "later.h"

#define RECORDS_MAX 512u
#define FDS_MAX 100u
#define LENGTH_MAX 65536u
#define FILE_MAX (1ull << 40)
#define LISTENING 3u
#define LOOPS 200u /* of the core, for what was accepted */
#define CPU_S 60   /* a process that needs more does not end */

struct one_record {
	struct record_head head;
	uint32_t size; /* bytes of the record, whatever its head says */
	uint8_t *bytes;
};

enum fd_kind { FD_NONE, FD_SOCKET, FD_PROCESS, FD_EVENT, FD_FILE, FD_LISTENING, FD_KINDS };

static struct {
	struct one_record record[RECORDS_MAX];
	uint32_t num;
	size_t cut; /* bytes that are left out at the end */
	enum fd_kind kind[FDS_MAX + 1];
	uint64_t size[FDS_MAX + 1]; /* of files */
	uint32_t fds;
	struct takeover_offer offer;
	struct takeover_message message; /* added to the last one */
} state;

static char directory[] = "/tmp/fuzz-takeover.XXXXXX";
static int listener = -1, peer = -1;

/* ---- coverage ---- */

static uint8_t *counters, *shared;
static size_t counters_size;

void __real___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void __wrap___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop);
void
__wrap___sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop)
{
	counters = start;
	counters_size = (size_t)(stop - start);
	__real___sanitizer_cov_8bit_counters_init(start, stop);
}

/* ---- the records ---- */

static void
add_record(uint32_t at, const struct record_head *head, const uint8_t *bytes, uint32_t size)
{
	struct one_record *record = &state.record[at];

	if (state.num == RECORDS_MAX || at > state.num)
		return;
	memmove(record + 1, record, (state.num - at) * sizeof(*record));
	*record = (struct one_record){*head, size, calloc(1, size + 1)};
	if (record->bytes == NULL)
		abort();
	if (bytes != NULL)
		memcpy(record->bytes, bytes, size);
	state.num++;
}

static void
read_golden(void)
{
	int fd = open(GOLDEN, O_RDONLY | O_CLOEXEC);
	static uint8_t bytes[1 << 20];
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	struct record_in in = {.bytes = bytes, .length = n > 0 ? (size_t)n : 0};
	struct record record;

	while (record_take(&in, &record) > 0)
		add_record(state.num, &record.head, record.bytes, record.head.length);
	if (state.num == 0 || state.num == RECORDS_MAX || in.at != in.length)
		fuzz_fail("no state in " GOLDEN);
	close(fd);
}

/* Returns the index of a record of a type; the number of records: there is none. */
static uint32_t
find_record(struct bytes *input)
{
	uint32_t type = 1 + (uint32_t)record_number(input, 1) % (RECORD_TYPES - 1), count = 0, which;

	for (uint32_t i = 0; i < state.num; i++)
		count += state.record[i].head.type == type;
	which = (uint32_t)record_number(input, 1);
	if (count == 0)
		return state.num;
	which %= count;
	for (uint32_t i = 0; i < state.num; i++)
		if (state.record[i].head.type == type && which-- == 0)
			return i;
	return state.num;
}

extern const struct record_form *const __start_record_forms[] __attribute__((weak));
extern const struct record_form *const __stop_record_forms[] __attribute__((weak));

static const struct record_form *
form_of(uint16_t type)
{
	for (const struct record_form *const *form = __start_record_forms; form < __stop_record_forms; form++)
		if ((*form)->type == type)
			return *form;
	return NULL;
}

static uint32_t
field_size(const struct record_field *field)
{
	return field->kind == RECORD_NAME ? 8 : field->size;
}

static const uint64_t special[] = {0,
				   1,
				   2,
				   3,
				   7,
				   8,
				   63,
				   64,
				   255,
				   4095,
				   4096,
				   65535,
				   65536,
				   0xffffff,
				   0x1000000,
				   INT32_MAX,
				   1u << 31,
				   UINT32_MAX,
				   1ull << 32,
				   ONE_ARENA_SIZE,
				   ONE_ARENA_SIZE - 8,
				   ONE_ARENA_SIZE - 64,
				   INT64_MAX - 7,
				   INT64_MAX,
				   1ull << 63,
				   UINT64_MAX - 4095,
				   UINT64_MAX};

static uint64_t
value_of(struct bytes *input)
{
	uint8_t how = (uint8_t)record_number(input, 1);

	return how < 128 ? special[how % (sizeof(special) / sizeof(special[0]))] : record_number(input, 8);
}

/* Changes a field of the record's form, or bytes of a record without one. */
static void
change_field(struct one_record *record, struct bytes *input)
{
	const struct record_form *form = form_of(record->head.type);
	uint32_t which = (uint32_t)record_number(input, 1), at = 0, size = 8;
	uint64_t value, before = 0;

	if (form == NULL || record_size(form) != record->size) {
		size = 1u << which % 4;
		at = which / 4 * size;
		if (at + size > record->size)
			at = 0;
	} else {
		which %= form->num;
		for (uint32_t i = 0; i < which; i++)
			at += field_size(&form->field[i]);
		size = field_size(&form->field[which]);
		if (size > 8) { /* a structure within */
			at += (uint32_t)record_number(input, 2) % (size - 7);
			size = 1u << record_number(input, 1) % 4;
		}
	}
	if (at + size > record->size)
		return;
	memcpy(&before, record->bytes + at, size);
	value = record_number(input, 1) % 2 == 0
			? value_of(input)
			: before + (uint64_t)(int64_t)(int8_t)record_number(input, 1);
	memcpy(record->bytes + at, &value, size);
}

static void
change_head(struct one_record *record, struct bytes *input)
{
	uint8_t which = (uint8_t)record_number(input, 1);
	uint64_t value = value_of(input);

	switch (which % 4) {
	case 0:
		record->head.type = (uint16_t)value;
		break;
	case 1:
		record->head.version = (uint16_t)value;
		break;
	case 2:
		record->head.length = (uint32_t)value;
		break;
	default:
		record->head.id = which < 128 ? record->head.id + (which & 64 ? 1 : -1ull) : value;
	}
}

/* Changes the length of a record, and of its contents. */
static void
change_size(struct one_record *record, struct bytes *input)
{
	uint32_t size = (uint32_t)record_number(input, 2) % LENGTH_MAX;
	uint8_t *bytes = calloc(1, size + 1);

	if (bytes == NULL)
		abort();
	memcpy(bytes, record->bytes, size < record->size ? size : record->size);
	free(record->bytes);
	record->bytes = bytes;
	record->size = record->head.length = size;
}

static void
change_bytes(struct one_record *record, struct bytes *input)
{
	uint32_t at = (uint32_t)record_number(input, 2);

	for (; input->left > 0 && record->size > 0; at++)
		record->bytes[at % record->size] = (uint8_t)record_number(input, 1);
}

/* Inserts a record behind another, of the length that its form has; its fields follow. */
static void
insert_record(uint32_t at, struct bytes *input)
{
	struct record_head head = {.version = 1};
	const struct record_form *form;

	head.type = (uint16_t)(1 + record_number(input, 1) % (RECORD_TYPES - 1));
	head.id = record_number(input, 4);
	form = form_of(head.type);
	head.length = form != NULL ? record_size(form) : (uint32_t)input->left;
	at += at < state.num;
	add_record(at, &head, NULL, head.length);
	record_fill(input, state.record[at].bytes, head.length);
}

static void
remove_record(uint32_t at)
{
	free(state.record[at].bytes);
	state.num--;
	memmove(&state.record[at], &state.record[at + 1], (state.num - at) * sizeof(state.record[0]));
}

static void
copy_record(uint32_t from, uint32_t to)
{
	const struct one_record copy = state.record[from];

	if (to < state.num)
		add_record(to + 1, &copy.head, copy.bytes, copy.size);
}

static void
swap_records(uint32_t from, uint32_t to)
{
	struct one_record one = state.record[from];

	if (to == state.num)
		return;
	state.record[from] = state.record[to];
	state.record[to] = one;
}

static void
change(struct bytes *input)
{
	uint8_t what = (uint8_t)record_number(input, 1) % 16;
	uint32_t at = find_record(input), number;
	struct one_record *record = &state.record[at];

	if (what == 10) {
		state.cut = (size_t)record_number(input, 2);
	} else if (what == 11) {
		number = (uint32_t)record_number(input, 1) % FDS_MAX;
		state.kind[number + 1] = (enum fd_kind)(record_number(input, 1) % FD_KINDS);
	} else if (what == 12) {
		((uint8_t *)&state.offer)[record_number(input, 2) % sizeof(state.offer)] ^=
			(uint8_t)value_of(input);
	} else if (what == 13) {
		((uint8_t *)&state.message)[record_number(input, 1) % 12] ^= (uint8_t)value_of(input);
	} else if (what == 9) {
		insert_record(at, input);
	} else if (at == state.num) {
		return;
	} else if (what == 8) {
		remove_record(at);
	} else if (what == 7) {
		copy_record(at, find_record(input));
	} else if (what == 6) {
		swap_records(at, find_record(input));
	} else if (what == 5) {
		change_size(record, input);
	} else if (what == 4) {
		change_bytes(record, input);
	} else if (what == 3) {
		change_head(record, input);
	} else {
		change_field(record, input);
	}
}

/* ---- descriptors ---- */

static void
note_fd(uint64_t number, enum fd_kind kind, uint64_t size)
{
	if (number == 0 || number > FDS_MAX)
		return;
	if (number > state.fds)
		state.fds = (uint32_t)number;
	state.kind[number] = kind;
	if (size <= FILE_MAX && size > state.size[number])
		state.size[number] = size;
}

static uint64_t
word(const struct one_record *record, uint32_t index)
{
	uint64_t value = 0;

	if (8 * index + 8 <= record->size)
		memcpy(&value, record->bytes + 8 * index, 8);
	return value;
}

/* Each descriptor is of the kind that the first records want, before they are changed. */
static void
note_fds(void)
{
	uint64_t size = 0; /* of the region */

	for (uint32_t i = 1; i <= LISTENING; i++)
		note_fd(i, FD_LISTENING, 0);
	for (uint32_t i = 0; i < state.num; i++) {
		const struct one_record *record = &state.record[i];

		if (record->head.type == RECORD_CLIENT_FDS) {
			note_fd(word(record, 0), FD_SOCKET, 0);
			note_fd(word(record, 1), FD_PROCESS, 0);
			note_fd(word(record, 2), FD_EVENT, 0);
		} else if (record->head.type == RECORD_CHANNEL) {
			note_fd(word(record, 0), FD_SOCKET, 0);
		} else if (record->head.type == RECORD_REGION) {
			size = word(record, 0);
		} else if (record->head.type == RECORD_REGION_PLACE) {
			note_fd(word(record, 2), FD_FILE, size);
		} else if (record->head.type == RECORD_PIECE) {
			note_fd(word(record, 3), FD_FILE, word(record, 1) + word(record, 2));
		}
	}
}

/* Other ends stay open. */
static int
open_one(enum fd_kind kind, uint64_t size)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	static uint32_t names;
	int pair[2], fd;

	switch (kind) {
	case FD_PROCESS:
		return (int)syscall(SYS_pidfd_open, getpid(), 0);
	case FD_EVENT:
		return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	case FD_FILE:
		fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, (off_t)size) != 0 ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
			fuzz_fail("no file in memory");
		return fd;
	case FD_LISTENING:
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		/* Without a name in a directory, which the new process would remove. */
		snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s.%d.%u", directory,
			 (int)getpid(), names++);
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1) != 0)
			fuzz_fail("no listening socket");
		return fd;
	default:
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
			fuzz_fail("no sockets");
		return pair[0];
	}
}

/* ---- the old process ---- */

static int
state_file(void)
{
	int fd = memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct record_out out = {.bytes = NULL};
	size_t length;

	for (uint32_t i = 0; i < state.num; i++) {
		const struct one_record *record = &state.record[i];
		uint8_t *at = record_append(&out, record->head.type, record->head.version, record->head.id,
					    record->size);

		memcpy(at - 12, &record->head.length, sizeof(record->head.length));
		memcpy(at, record->bytes, record->size);
	}
	length = out.length > state.cut ? out.length - state.cut : out.length;
	if (write(fd, out.bytes, length) != (ssize_t)length ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
		fuzz_fail("no file for the state");
	record_out_free(&out);
	return fd;
}

static void
send_all(int to)
{
	static const char text[] = "{\"done\":\"the take-over may begin\"}";
	struct takeover_message last = {.magic = TAKEOVER_MAGIC, .kind = TAKEOVER_STATE, .count = state.fds};
	int fd[FDS_MAX], file = state_file();

	for (uint32_t i = 0; i < state.fds; i++)
		fd[i] = open_one(state.kind[i + 1], state.size[i + 1]);
	takeover_send(to, text, sizeof(text) - 1, NULL, 0, UINT64_MAX);
	takeover_send(to, &state.offer, sizeof(state.offer), NULL, 0, UINT64_MAX);
	takeover_say(to, TAKEOVER_BATCH, state.fds, fd, state.fds, UINT64_MAX);
	last.magic ^= state.message.magic;
	last.kind ^= state.message.kind;
	last.count ^= state.message.count;
	takeover_send(to, &last, sizeof(last), &file, 1, UINT64_MAX);
	for (uint32_t i = 0; i < state.fds; i++)
		close(fd[i]);
	close(file);
}

/* The new process connects: all answers wait before it looks. */
int __real_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	int done = __real_connect(fd, address, len);

	if (done == 0 && peer < 0) {
		peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		send_all(peer);
		shutdown(peer, SHUT_WR); /* and nothing else comes */
	}
	return done;
}

/* ---- the new process ---- */

static void
turn_core(void)
{
	for (uint32_t i = 0; i < LOOPS; i++)
		loop_iterate(engine.core[0], fixture_tsc());
}

/* The data plane goes on with what was accepted, until the timers of connections have expired. */
static void
go_on(void)
{
	turn_core();
	later();
	turn_core();
}

static int
take_over(char *why, size_t why_len)
{
	const struct ctl_source source = {.config = &fixture_config, .version = "0"};
	int error = takeover_connect(&fixture_config, why, why_len);

	if (error == 1)
		error = takeover_compare(&fixture_config, why, why_len);
	if (error == 0)
		error = takeover_receive(false, why, why_len);
	if (error <= 0)
		return -1;
	close(listener); /* its name is that of the control socket */
	unlink(fixture_config.ctl);
	if (daemon_init(&source, why, why_len) != 0)
		fuzz_fail(why);
	if (takeover_build(&fixture_config, why, why_len) != 0)
		return -1;
	go_on();
	return 0;
}

/* ---- the target ---- */

static void
configure(struct config *config)
{
	struct config_port port = config->port[0];

	config_defaults(config);
	config->node = 1;
	config->num_ports = 1;
	config->port[0] = port;
	config->port[0].rnr_retry = 6;
	config->port[0].ack_timeout = 18;
	config->work_pool = 1024;
	config->mbufs = 2048;
	config->idle = ONE_IDLE_SPIN;
	config->num_peers = 1;
	config->peer[0] = (struct config_peer){.node = 2, .addr = {AF_INET, 24, {192, 0, 2, 2}}};
	config->max_bytes_per_uid = 64 << 20;
	snprintf(config->socket, sizeof(config->socket), "%s/one.sock", directory);
	snprintf(config->ctl, sizeof(config->ctl), "%s/ctl", directory);
	config->socket_mode = 0600;
}

static void
listen_again(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memcpy(address.sun_path, fixture_config.ctl, strlen(fixture_config.ctl) + 1);
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(listener, 4) != 0)
		fuzz_fail("no control socket");
}

static void
make_offer(void)
{
	const struct engine_port_info *info = engine_port(0);

	state.offer = (struct takeover_offer){.magic = TAKEOVER_MAGIC,
					      .kind = TAKEOVER_OFFER,
					      .version = TAKEOVER_VERSION,
					      .node = fixture_config.node,
					      .num_ports = 1};
	memcpy(state.offer.port[0].name, info->name, sizeof(info->name));
	state.offer.port[0].mtu = info->mtu;
	state.offer.port[0].path_mtu = info->path_mtu;
	state.offer.port[0].num_addrs = info->num_addrs;
	memcpy(state.offer.port[0].addr, info->addr, info->num_addrs * sizeof(info->addr[0]));
}

static void
remove_directory(void)
{
	rmdir(directory);
}

static void
begin(void)
{
	static bool begun;

	if (begun)
		return;
	begun = true;
	if (mkdtemp(directory) == NULL)
		fuzz_fail("no directory in /tmp");
	atexit(remove_directory);
	fixture_prepare = configure;
	fixture_start(1, ONE_IDLE_SPIN);
	rte_log_set_global_level(RTE_LOG_EMERG);
	fuzz_random_begin();
	read_golden();
	note_fds();
	make_offer();
	shared = mmap(NULL, counters_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fuzz_fail("no memory for counters");
}

/* The first input, without changes, has to be accepted. */
static void __attribute__((noreturn)) run_input(struct bytes input)
{
	const struct rlimit limit = {CPU_S, CPU_S};
	bool changed = false;
	struct bytes record;
	char why[512] = "";

	signal(SIGPIPE, SIG_IGN); /* as in the program */
	/* libFuzzer's handlers would end this process with a status that looks like a finding. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CPU, &limit);
	while (record_next(&input, &record)) {
		change(&record);
		changed = true;
	}
	if (take_over(why, sizeof(why)) != 0 && !changed)
		fuzz_fail(why);
	if (getenv("FUZZ_WHY") != NULL)
		fprintf(stderr, "%s\n", why);
	memcpy(shared, counters, counters_size);
	_exit(0);
}

static bool
was_interrupted(int status)
{
	return WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM);
}

/* Waits for the process that takes over.  If somebody interrupts it, this one is interrupted, too. */
static void
wait_for(pid_t pid)
{
	char why[100];
	int status;

	while (waitpid(pid, &status, 0) < 0) /* libFuzzer's timer interrupts it */
		if (errno != EINTR)
			fuzz_fail("the process is lost");
	if (was_interrupted(status))
		raise(WTERMSIG(status)); /* libFuzzer ends */
	snprintf(why, sizeof(why), "the process that takes over ends with wait status %#x",
		 (unsigned int)status);
	if (status != 0)
		fuzz_fail(why);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	pid_t pid;

	begin();
	listen_again();
	pid = fork();
	if (pid == 0)
		run_input((struct bytes){data, size});
	if (pid < 0)
		fuzz_fail("no process");
	wait_for(pid);
	memcpy(counters, shared, counters_size);
	close(listener);
	unlink(fixture_config.ctl);
	unlink(fixture_config.socket);
	return 0;
}
