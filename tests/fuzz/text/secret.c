/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of secrets and keys: an accepted secret is the whole contents of the file, within the limits of
 * length. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "config/secret.h"
#include "file.h"

#define FORMS 4u

static int input = -1;

int __wrap_open64(const char *path, int flags, ...);

/* Opens the input, whatever the path. */
int
__wrap_open64(const char *path, int flags, ...)
{
	(void)path, (void)flags;
	return fchmod(input, 0600) == 0 && lseek(input, 0, SEEK_SET) == 0 ? dup(input) : -1;
}

static void
check_hex(const uint8_t *bytes, size_t len, const uint8_t *text, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	if (size - 2 * len > 1 || (size > 2 * len && text[size - 1] != '\n'))
		fuzz_fail("more in the file than its digits");
	for (size_t i = 0; i < 2 * len; i++)
		if (digits[bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] !=
		    (text[i] >= 'A' && text[i] <= 'F' ? text[i] + 'a' - 'A' : text[i]))
			fuzz_fail("not what the digits say");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		enum config_secret_form form;
		size_t min, max;
	} forms[FORMS] = {{CONFIG_SECRET_RAW, 32, CONFIG_SECRET_MAX},
			  {CONFIG_SECRET_HEX, 20, 36},
			  {CONFIG_SECRET_HEX, 1, CONFIG_SECRET_MAX},
			  {CONFIG_SECRET_RAW, 1, 16}};
	uint32_t which = size > 0 ? data[0] % FORMS : 0;
	struct config_secret *secret, *again;
	const uint8_t *bytes;
	char why[512] = "";
	size_t len;

	size -= size > 0;
	input = file_with(++data, size);
	if (config_secret_read("/secret", forms[which].form, forms[which].min, forms[which].max, &secret, why,
			       sizeof(why)) != 0) {
		if (why[0] == '\0')
			fuzz_fail("refused without a word");
		return 0;
	}
	bytes = config_secret_bytes(secret, &len);
	if (len < forms[which].min || len > forms[which].max)
		fuzz_fail("longer or shorter than it may be");
	if (forms[which].form == CONFIG_SECRET_HEX)
		check_hex(bytes, len, data, size);
	else if (len != size || memcmp(bytes, data, len) != 0)
		fuzz_fail("not what the file has");
	if (config_secret_read("/secret", forms[which].form, forms[which].min, forms[which].max, &again, why,
			       sizeof(why)) != 0 ||
	    !config_secret_equal(secret, again))
		fuzz_fail("the same file is another secret");
	config_secret_drop(again);
	config_secret_drop(secret);
	return 0;
}
