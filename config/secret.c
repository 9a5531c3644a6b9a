/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/internal.h"
#include "config/secret.h"

/* Room for the longest secret as text: two digits per byte, a newline, and one byte to detect longer
 * files. */
#define TEXT_MAX (2 * CONFIG_SECRET_MAX + 2)

/* Starts its own mapping, since mlock() and MADV_DONTDUMP act on whole pages. */
struct config_secret {
	atomic_uint holders;
	size_t len;
	uint8_t bytes[TEXT_MAX]; /* the only buffer that holds the file's contents */
};

static struct config_secret *
secret_new(void)
{
	struct config_secret *secret =
		mmap(NULL, sizeof(*secret), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (secret == MAP_FAILED)
		return NULL;
	if (madvise(secret, sizeof(*secret), MADV_DONTDUMP) != 0) {
		munmap(secret, sizeof(*secret));
		return NULL;
	}
	/* May fail: beyond RLIMIT_MEMLOCK the page can be swapped out. */
	mlock(secret, sizeof(*secret));
	atomic_init(&secret->holders, 1);
	return secret;
}

static void
secret_free(struct config_secret *secret)
{
	explicit_bzero(secret, sizeof(*secret));
	munmap(secret, sizeof(*secret));
}

struct config_secret *
config_secret_hold(struct config_secret *secret)
{
	/* The caller's reference keeps the secret alive: relaxed is enough. */
	if (secret != NULL)
		atomic_fetch_add_explicit(&secret->holders, 1, memory_order_relaxed);
	return secret;
}

void
config_secret_drop(struct config_secret *secret)
{
	/* Pairs with itself: all holders' reads precede the wipe by the last. */
	if (secret != NULL && atomic_fetch_sub_explicit(&secret->holders, 1, memory_order_acq_rel) == 1)
		secret_free(secret);
}

const uint8_t *
config_secret_bytes(const struct config_secret *secret, size_t *len)
{
	*len = secret->len;
	return secret->bytes;
}

bool
config_secret_equal(const struct config_secret *a, const struct config_secret *b)
{
	uint8_t differ = 0;

	if (a == b || a == NULL || b == NULL)
		return a == b;
	if (a->len != b->len)
		return false;
	for (size_t i = 0; i < a->len; i++)
		differ |= a->bytes[i] ^ b->bytes[i];
	return differ == 0;
}

/* ---- files ---- */

struct secret_file {
	const char *path;
	struct config_secret *secret;
	char *why;
	size_t why_len;
};

#define REFUSE(file, error, format, ...)                                              \
	config_refuse((file)->why, (file)->why_len, error, "secret file %s: " format, \
		      (file)->path __VA_OPT__(, ) __VA_ARGS__)

static int
refuse_open(const struct secret_file *file, int error)
{
	switch (error) {
	case ELOOP:
		return REFUSE(file, -error, "it is a symbolic link; name the file that it leads to");
	case EACCES:
		return REFUSE(file, -error, "user %u may not read it; make it that user's: chown %u %s",
			      (unsigned int)geteuid(), (unsigned int)geteuid(), file->path);
	case ENOENT:
		return REFUSE(file, -error,
			      "there is no such file; make it: (umask 077; openssl rand -hex 32 > %s)",
			      file->path);
	default:
		return REFUSE(file, -error, "%s; name a file that can be read", strerror(error));
	}
}

/* Others must be able neither to read the file nor to plant a secret they know. */
static int
check_file(const struct secret_file *file, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refuse_open(file, errno);
	if (!S_ISREG(st.st_mode))
		return REFUSE(file, -EINVAL, "it is not a regular file; name one that is");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return REFUSE(file, -EPERM, "it is user %u's, who can change it; chown %u %s",
			      (unsigned int)st.st_uid, (unsigned int)geteuid(), file->path);
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return REFUSE(file, -EPERM, "mode %04o gives others rights to it; chmod 600 %s",
			      (unsigned int)st.st_mode & 07777, file->path);
	return 0;
}

/* Reads the whole file, or up to one byte more than the longest secret. */
static int
read_text(const struct secret_file *file, int fd)
{
	struct config_secret *secret = file->secret;

	while (secret->len < TEXT_MAX) {
		ssize_t got = read(fd, &secret->bytes[secret->len], TEXT_MAX - secret->len);

		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			return refuse_open(file, errno);
		if (got > 0)
			secret->len += (size_t)got;
	}
	return 0;
}

static int
open_and_read(const struct secret_file *file)
{
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int error;

	if (fd < 0)
		return refuse_open(file, errno);
	error = check_file(file, fd);
	if (error == 0)
		error = read_text(file, fd);
	close(fd);
	return error;
}

/* ---- forms ---- */

static int
hex_digit(uint8_t character)
{
	if (character >= '0' && character <= '9')
		return character - '0';
	character |= 0x20;
	return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* Decodes in place: each byte is stored before its digits. A newline may follow. */
static int
decode_hex(const struct secret_file *file)
{
	struct config_secret *secret = file->secret;
	size_t digits = secret->len, i;

	if (digits > 0 && secret->bytes[digits - 1] == '\n')
		digits--;
	for (i = 0; i < digits && hex_digit(secret->bytes[i]) >= 0; i++)
		if (i % 2 != 0)
			secret->bytes[i / 2] =
				(uint8_t)(hex_digit(secret->bytes[i - 1]) << 4 | hex_digit(secret->bytes[i]));
	if (i < digits)
		return REFUSE(file, -EINVAL,
			      "byte %zu is no hexadecimal digit; write one line of digits 0 to 9 and a to f",
			      i + 1);
	if (digits % 2 != 0)
		return REFUSE(file, -EINVAL, "%zu hexadecimal digits are no whole bytes; write two for each",
			      digits);
	secret->len = digits / 2;
	explicit_bzero(&secret->bytes[secret->len], TEXT_MAX - secret->len);
	return 0;
}

int
config_secret_read(const char *path, enum config_secret_form form, size_t min, size_t max,
		   struct config_secret **out, char *why, size_t why_len)
{
	struct secret_file file = {.path = path, .why = why, .why_len = why_len};
	size_t len;
	int error;

	if (path[0] != '/')
		return REFUSE(&file, -EINVAL, "this is not an absolute path; write one that begins with /");
	file.secret = secret_new();
	if (file.secret == NULL)
		return REFUSE(
			&file, -ENOMEM,
			"there is no memory that stays out of core dumps for it; free memory, or raise vm.max_map_count");
	error = open_and_read(&file);
	if (error == 0 && form == CONFIG_SECRET_HEX)
		error = decode_hex(&file);
	len = file.secret->len;
	if (error == 0 && (len < min || len > max))
		error = REFUSE(&file, -EINVAL, "%s%zu bytes are too %s; a secret here has %zu to %zu bytes",
			       len > CONFIG_SECRET_MAX ? "more than " : "",
			       len > CONFIG_SECRET_MAX ? (size_t)CONFIG_SECRET_MAX : len,
			       len < min ? "few" : "many", min, max);
	if (error != 0)
		secret_free(file.secret);
	else
		*out = file.secret;
	return error;
}
