/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ONESIDE_DEBUG=1: messages of refused calls of the uDAPL 2.0 provider.
 *
 *   test_dat2_tell PROVIDER-LIBRARY
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "tests/unit/unit.h"
#include <dat2/udat.h>
#include <dat2/udat_redirection.h>
#include <dat2/dat_registry.h>

#include "../mock/mock.h"
#include "../said.h"

static struct mock *mock;
static const DAT_PROVIDER *provider;
static const char *library;
static char ia_name[] = "oneside-test";

/* Replaces the registry's function, because the dynamic linker searches the program first. */
DAT_RETURN
dat_registry_add_provider(const DAT_PROVIDER *given, const DAT_PROVIDER_INFO *info)
{
	provider = given;
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_remove_provider(const DAT_PROVIDER *given, const DAT_PROVIDER_INFO *info)
{
	return DAT_SUCCESS;
}

static int
setup(void **state)
{
	DAT_PROVIDER_INFO info = {.dapl_version_major = 2, .is_thread_safe = DAT_TRUE};
	void (*init)(const DAT_PROVIDER_INFO *info, const char *instance_data);
	void *handle = dlopen(library, RTLD_NOW);

	mock = mock_start();
	memcpy(info.ia_name, ia_name, sizeof(ia_name));
	if (handle == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	*(void **)&init = dlsym(handle, "dat_provider_init");
	if (init != NULL)
		init(&info, "");
	return provider != NULL ? 0 : -1;
}

static DAT_IA_HANDLE
open_ia(DAT_PZ_HANDLE *pz)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;

	assert_int_equal(provider->ia_open_func(ia_name, 8, &async, &ia), DAT_SUCCESS);
	assert_int_equal(provider->pz_create_func(ia, pz), DAT_SUCCESS);
	return ia;
}

#define CODE(type, subtype) (DAT_CLASS_ERROR | (type) | (subtype))

static void
calls_that_are_alike(void **state)
{
	DAT_PZ_HANDLE pz, other;
	DAT_IA_HANDLE ia = open_ia(&pz);

	assert_says(provider->pz_create_func(ia, NULL), CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2),
		    "dat_pz_create: pz_handle = 0: it may not be null; give an address",
		    "(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2)");
	assert_says(provider->ep_free_func(pz), CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP),
		    "dat_ep_free: ep_handle = 0x", "it is a PZ, not an EP; give what dat_ep_create made",
		    "(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP)");
	mock_refuse(mock, ONE_MSG_PZ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 17, 1);
	assert_says(provider->pz_create_func(ia, &other),
		    CODE(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN),
		    "dat_pz_create: ", "the data plane's limit = 17: it is reached; ", "oneside.conf(5)");
	assert_silent(provider->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

static DAT_RETURN
extended(DAT_HANDLE handle, int op, ...)
{
	DAT_RETURN ret;
	va_list args;

	va_start(args, op);
	ret = provider->handle_extendedop_func(handle, (DAT_EXTENDED_OP)op, args);
	va_end(args);
	return ret;
}

/* Calls whose arguments have other positions or types than in uDAPL 1.2. */
static void
calls_that_differ(void **state)
{
	DAT_REGION_DESCRIPTION desc = {.for_va = NULL};
	DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
	DAT_PZ_HANDLE pz;
	DAT_IA_HANDLE ia = open_ia(&pz);
	DAT_RMR_HANDLE rmr;
	DAT_EVENT event;
	DAT_EVD_HANDLE evd;

	assert_says(provider->lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, desc, 4096, pz, DAT_MEM_PRIV_ALL_FLAG,
					      (DAT_VA_TYPE)7, &lmr, NULL, NULL, NULL, NULL),
		    CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7),
		    "dat_lmr_create: va_type = 0x7: ", "see dat_lmr_create(3DAT)",
		    "(DAT_INVALID_PARAMETER, DAT_INVALID_ARG7)");
	assert_says(provider->lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, desc, 4096, pz, DAT_MEM_PRIV_ALL_FLAG,
					      DAT_VA_TYPE_VA, NULL, NULL, NULL, NULL, NULL),
		    CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8),
		    "dat_lmr_create: lmr_handle = 0: ", "; give an address",
		    "(DAT_INVALID_PARAMETER, DAT_INVALID_ARG8)");
	assert_int_equal(provider->rmr_create_func(pz, &rmr), DAT_SUCCESS);
	assert_says(provider->rmr_bind_func(rmr, DAT_HANDLE_NULL, NULL, DAT_MEM_PRIV_ALL_FLAG, (DAT_VA_TYPE)7,
					    DAT_HANDLE_NULL, (DAT_RMR_COOKIE){.as_64 = 0},
					    DAT_COMPLETION_DEFAULT_FLAG, NULL),
		    CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG5), "dat_rmr_bind: va_type = 0x7: ");
	assert_says(provider->ep_post_send_func(pz, 0, NULL, (DAT_DTO_COOKIE){.as_64 = 0},
						DAT_COMPLETION_DEFAULT_FLAG),
		    CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP), "dat_ep_post_send: ep_handle = 0x",
		    "it is a PZ, not an EP; ");
	assert_says(extended(DAT_HANDLE_NULL, 99), CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1),
		    "dat_handle_extendedop: dat_handle = 0: ");
	assert_says(provider->cno_fd_create_func(ia, NULL, NULL), CODE(DAT_MODEL_NOT_SUPPORTED, 0),
		    "dat_cno_fd_create: ia = 0x", "unsupported: ", "see udapl(7)",
		    "(DAT_MODEL_NOT_SUPPORTED");
	assert_says(provider->evd_create_func(ia, -1, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
		    CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2), "dat_evd_create: evd_min_qlen = -1: ");
	assert_int_equal(provider->evd_create_func(ia, 4, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd),
			 DAT_SUCCESS);
	assert_silent(provider->evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
	assert_silent(provider->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

static void
opening(void **state)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	char other[] = "ib0";
	DAT_IA_HANDLE ia;

	assert_says(provider->ia_open_func(other, 8, &async, &ia),
		    CODE(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
		    "dat_ia_open: ia_name_ptr = \"ib0\": ", "; ",
		    "(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)");
}

/* Without ONESIDE_DEBUG refused calls print nothing. */
static void
not_asked(void **state)
{
	DAT_PZ_HANDLE pz;
	DAT_IA_HANDLE ia = open_ia(&pz);

	assert_silent(provider->pz_create_func(ia, NULL), CODE(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
	assert_silent(provider->ep_free_func(pz), CODE(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
	assert_silent(provider->ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest asked[] = {
		cmocka_unit_test(calls_that_are_alike),
		cmocka_unit_test(calls_that_differ),
		cmocka_unit_test(opening),
	};
	const struct CMUnitTest unasked[] = {cmocka_unit_test(not_asked)};

	if (argc != 2)
		return 2;
	library = argv[1];
	return getenv("ONESIDE_DEBUG") != NULL ? cmocka_run_group_tests(asked, setup, NULL)
					       : cmocka_run_group_tests(unasked, setup, NULL);
}
