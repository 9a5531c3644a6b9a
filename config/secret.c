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

/* Room for the text of the longest: two digits a byte, a line's end, and one byte that tells too long ones.
 */
#define TEXT_MAX (2 * CONFIG_SECRET_MAX + 2)

/* Begins a mapping of its own: locks and dumps are of whole pages. */
struct config_secret {
	atomic_uint holders;
	size_t len;
	uint8_t bytes[TEXT_MAX]; /* the file is read to here, and nowhere else */
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
	/* May fail: where the limit on locked memory is used up, the page can be swapped out. */
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
	/* Who holds it already keeps it from being freed meanwhile: no order is needed. */
	if (secret != NULL)
		atomic_fetch_add_explicit(&secret->holders, 1, memory_order_relaxed);
	return secret;
}

void
config_secret_drop(struct config_secret *secret)
{
	/* Pairs with itself: what other holders have read comes before it is wiped by the last. */
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

static int
refuse_open(const char *path, int error, char *why, size_t why_len)
{
	switch (error) {
	case ELOOP:
		return config_refuse(why, why_len, -error,
				     "secret file %s: it is a symbolic link; name the file that it leads to",
				     path);
	case EACCES:
		return config_refuse(
			why, why_len, -error,
			"secret file %s: user %u may not read it; make it that user's: chown %u %s", path,
			(unsigned int)geteuid(), (unsigned int)geteuid(), path);
	case ENOENT:
		return config_refuse(
			why, why_len, -error,
			"secret file %s: there is no such file; make it: (umask 077; openssl rand -hex 32 "
			"> %s)",
			path, path);
	default:
		return config_refuse(why, why_len, -error, "secret file %s: %s; name a file that can be read",
				     path, strerror(error));
	}
}

/* Others must be able neither to read it nor to put in what they know. */
static int
check_file(int fd, const char *path, char *why, size_t why_len)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return refuse_open(path, errno, why, why_len);
	if (!S_ISREG(st.st_mode))
		return config_refuse(why, why_len, -EINVAL,
				     "secret file %s: it is not a regular file; name one that is", path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return config_refuse(why, why_len, -EPERM,
				     "secret file %s: it is user %u's, who can change it; chown %u %s", path,
				     (unsigned int)st.st_uid, (unsigned int)geteuid(), path);
	if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return config_refuse(why, why_len, -EPERM,
				     "secret file %s: mode %04o gives others rights to it; chmod 600 %s",
				     path, (unsigned int)st.st_mode & 07777, path);
	return 0;
}

/* All of it, or one byte more than there is room for. */
static int
read_text(int fd, const char *path, struct config_secret *secret, char *why, size_t why_len)
{
	while (secret->len < TEXT_MAX) {
		ssize_t got = read(fd, &secret->bytes[secret->len], TEXT_MAX - secret->len);

		if (got == 0)
			break;
		if (got < 0 && errno != EINTR)
			return refuse_open(path, errno, why, why_len);
		if (got > 0)
			secret->len += (size_t)got;
	}
	return 0;
}

static int
open_and_read(const char *path, struct config_secret *secret, char *why, size_t why_len)
{
	/* Opening must not wait for the writer of a FIFO. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	int error;

	if (fd < 0)
		return refuse_open(path, errno, why, why_len);
	error = check_file(fd, path, why, why_len);
	if (error == 0)
		error = read_text(fd, path, secret, why, why_len);
	close(fd);
	return error;
}

/* ---- forms ---- */

static int
digit(uint8_t character)
{
	if (character >= '0' && character <= '9')
		return character - '0';
	character |= 0x20;
	return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* In place: a byte lies before its digits.  A line's end may follow. */
static int
decode(const char *path, struct config_secret *secret, char *why, size_t why_len)
{
	size_t digits = secret->len, i;

	if (digits > 0 && secret->bytes[digits - 1] == '\n')
		digits--;
	for (i = 0; i < digits && digit(secret->bytes[i]) >= 0; i++)
		if (i % 2 != 0)
			secret->bytes[i / 2] =
				(uint8_t)(digit(secret->bytes[i - 1]) << 4 | digit(secret->bytes[i]));
	if (i < digits)
		return config_refuse(
			why, why_len, -EINVAL,
			"secret file %s: byte %zu is no hexadecimal digit; write one line of digits "
			"0 to 9 and a to f",
			path, i + 1);
	if (digits % 2 != 0)
		return config_refuse(
			why, why_len, -EINVAL,
			"secret file %s: %zu hexadecimal digits are no whole bytes; write two for each", path,
			digits);
	secret->len = digits / 2;
	explicit_bzero(&secret->bytes[secret->len], TEXT_MAX - secret->len);
	return 0;
}

static int
check_length(const char *path, const struct config_secret *secret, size_t min, size_t max, char *why,
	     size_t why_len)
{
	if (secret->len >= min && secret->len <= max)
		return 0;
	return config_refuse(why, why_len, -EINVAL,
			     "secret file %s: %s%zu bytes are too %s; a secret here has %zu to %zu bytes",
			     path, secret->len > CONFIG_SECRET_MAX ? "more than " : "",
			     secret->len > CONFIG_SECRET_MAX ? (size_t)CONFIG_SECRET_MAX : secret->len,
			     secret->len < min ? "few" : "many", min, max);
}

int
config_secret_read(const char *path, enum config_secret_form form, size_t min, size_t max,
		   struct config_secret **out, char *why, size_t why_len)
{
	struct config_secret *secret;
	int error;

	if (path[0] != '/')
		return config_refuse(
			why, why_len, -EINVAL,
			"secret file %s: this is not an absolute path; write one that begins with /", path);
	secret = secret_new();
	if (secret == NULL)
		return config_refuse(
			why, why_len, -ENOMEM,
			"secret file %s: there is no memory that stays out of core dumps for it; free "
			"memory, or raise vm.max_map_count",
			path);
	error = open_and_read(path, secret, why, why_len);
	if (error == 0 && form == CONFIG_SECRET_HEX)
		error = decode(path, secret, why, why_len);
	if (error == 0)
		error = check_length(path, secret, min, max, why, why_len);
	if (error != 0)
		secret_free(secret);
	else
		*out = secret;
	return error;
}
