/* SPDX-License-Identifier: BSD-3-Clause */
/* Which implementation of the ICRC is used. */
#include "icrc.h"

#include <stddef.h>
#include <string.h>

#include "icrc_impl.h"

const struct icrc_impl *const icrc_impls[] = {
#if defined(__x86_64__)
	&icrc_vpclmul512, &icrc_vpclmul256,
	&icrc_clmul,
#elif defined(__aarch64__)
	&icrc_clmul,
#endif
	&icrc_shift,      NULL,
};

const struct icrc_impl *icrc = &icrc_shift;

void
icrc_init(uint32_t max_bits)
{
	const struct icrc_impl *const *impl = icrc_impls;

	icrc_shift_init();
	icrc_fold_init();
	while ((max_bits != 0 && (*impl)->bits > max_bits) || !(*impl)->available())
		impl++;
	icrc = *impl;
}

bool
icrc_use(const char *name)
{
	for (const struct icrc_impl *const *impl = icrc_impls; *impl != NULL; impl++) {
		if (strcmp((*impl)->name, name) == 0 && (*impl)->available()) {
			icrc = *impl;
			return true;
		}
	}
	return false;
}
