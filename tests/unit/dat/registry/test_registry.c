/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry as programs use it. A process reads its configuration once, so the argument selects one
 * configuration for each run. */
#include <dlfcn.h>
#include <unistd.h>

#include "../../said.h"
#include "fixture.h"

#include <dat/dat_registry.h>
#include <dat/udat_redirection.h>

#include "dat/calls.h"

static const char *foreign; /* path of the provider library */

static DAT_RETURN
open_as(const char *name, uint32_t major, uint32_t minor, DAT_BOOLEAN safe, DAT_COUNT qlen, DAT_IA_HANDLE *ia)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;

	return dat_ia_openv((char *)(uintptr_t)name, qlen, &evd, ia, major, minor, safe);
}

static DAT_RETURN
open_name(const char *name, DAT_IA_HANDLE *ia)
{
	return open_as(name, 1, 2, DAT_FALSE, 8, ia);
}

#define NOT_FOUND(why) ERROR(DAT_PROVIDER_NOT_FOUND, DAT_##why)

static void
listing(void **state)
{
	DAT_PROVIDER_INFO info[8], *list[8];
	int file, before = said_begin(&file);
	DAT_COUNT n = -1;

	for (int i = 0; i < 8; i++)
		list[i] = &info[i];
	assert_ok(dat_registry_list_providers(8, &n, list));
	/* Lines for u2.0, malformed lines and nondefault lines are skipped; malformed ones are reported. */
	assert_non_null(strstr(said_end(before, file), ": 1 malformed lines skipped, the first is line 4\n"));
	assert_int_equal(n, 5);
	assert_string_equal(info[0].ia_name, "foreign");
	assert_int_equal(info[0].dapl_version_major, 1);
	assert_int_equal(info[0].dapl_version_minor, 2);
	assert_int_equal(info[0].is_thread_safe, DAT_TRUE);
	assert_string_equal(info[4].ia_name, "OpenIB-cma");
	assert_int_equal(info[4].is_thread_safe, DAT_FALSE);
	/* A list that is too short is filled completely. */
	assert_ok(dat_registry_list_providers(2, &n, list));
	assert_int_equal(n, 2);
	assert_ret(dat_registry_list_providers(0, &n, list), BAD_ARG(1));
	assert_int_equal(n, 5);
	assert_ret(dat_registry_list_providers(-1, &n, list), BAD_ARG(1));
	assert_ret(dat_registry_list_providers(8, NULL, list), BAD_ARG(2));
	n = 0;
	assert_ret(dat_registry_list_providers(8, &n, NULL), BAD_ARG(3));
	assert_int_equal(n, 5);
	list[1] = NULL;
	assert_ret(dat_registry_list_providers(8, &n, list), BAD_ARG(3));
	assert_ok(dat_registry_list_providers(1, &n, list));
}

static void
not_found(void **state)
{
	DAT_IA_HANDLE ia;

	assert_ret(open_name("nobody", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	/* with DAT_OVERRIDE the file alone decides */
	assert_ret(open_name("oneside", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(open_as("foreign", 2, 0, DAT_FALSE, 8, &ia), NOT_FOUND(MAJOR_NOT_FOUND));
	assert_ret(open_as("foreign", 1, 3, DAT_FALSE, 8, &ia), NOT_FOUND(MINOR_NOT_FOUND));
	assert_ret(open_as("unsafe", 1, 2, DAT_TRUE, 8, &ia), NOT_FOUND(THREAD_SAFETY_NOT_FOUND));
	/* A library that is missing, and one that registers nothing. */
	assert_ret(open_name("missing", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(open_name("refused", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(open_name("next", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
}

static void
bad_arguments(void **state)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	char name[300];

	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	assert_ret(dat_ia_open(NULL, 8, &evd, &ia), BAD_ARG(1));
	assert_ret(dat_ia_open(name, 8, &evd, &ia), BAD_ARG(1));
	name[255] = '\0';
	assert_ret(dat_ia_open(name, 8, &evd, &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(dat_ia_open(name, 8, NULL, &ia), BAD_ARG(3));
	assert_ret(dat_ia_open(name, 8, &evd, NULL), BAD_HANDLE(IA));
	assert_ret(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
}

/* Each call of the provider table is exported, under the version that programs are linked with. */
static void
exported(void **state)
{
#define NAME(name, handle, version2, ...) "dat_" #name,
	static const char *const names[] = {DAT_CALLS(NAME, NAME, DAT_OF)};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		/* udat.h defines dat_ia_open() as a macro. */
		const char *name = strcmp(names[i], "dat_ia_open") == 0 ? "dat_ia_openv" : names[i];

		if (dlvsym(RTLD_DEFAULT, name, "DAT_1.2") == NULL)
			fail_msg("%s is not exported as DAT_1.2", name);
	}
}

/* Checks the only symbol of OFED's libdat.so.1 that no header declares. */
static void
expect_ia_handle(DAT_IA_HANDLE ia, DAT_HANDLE other)
{
	DAT_RETURN(*get)
	(DAT_IA_HANDLE, DAT_IA_HANDLE *) = (DAT_RETURN(*)(DAT_IA_HANDLE, DAT_IA_HANDLE *))dlvsym(
		RTLD_DEFAULT, "dats_get_ia_handle", "DAT_1.2");
	DAT_IA_HANDLE got = DAT_HANDLE_NULL;

	assert_non_null(get);
	assert_ok(get(ia, &got));
	assert_ptr_equal(got, ia);
	got = DAT_HANDLE_NULL;
	assert_ret(get(other, &got), BAD_HANDLE(IA));
	assert_null(got);
}

/* A provider is loaded at the first open, and unloaded after the last close; calls go through its table. */
static void
foreign_provider(void **state)
{
	void *own = dlopen(foreign, RTLD_NOW); /* keeps the counters after the provider is unloaded */
	DAT_IA_HANDLE a, b, c;
	DAT_HANDLE_TYPE type;
	DAT_EVENT event;
	int *inits, *finis;
	char *params;

	assert_non_null(own);
	inits = dlsym(own, "foreign_inits");
	finis = dlsym(own, "foreign_finis");
	params = dlsym(own, "foreign_params");
	assert_int_equal(*inits, *finis); /* of earlier tests */
	*inits = *finis = 0;
	assert_ret(open_as("foreign", 1, 2, DAT_TRUE, 13, &a), ERROR(DAT_INSUFFICIENT_RESOURCES, 0));
	assert_int_equal(*inits, 1);
	assert_int_equal(*finis, 1);
	assert_ok(open_as("foreign", 1, 1, DAT_TRUE, 8, &a));
	assert_ok(open_name("foreign", &b));
	assert_int_equal(*inits, 2);
	assert_string_equal(params, "some params");
	assert_ok(dat_get_handle_type(a, &type));
	assert_int_equal(type, DAT_HANDLE_TYPE_IA);
	expect_ia_handle(a, DAT_HANDLE_NULL);
	/* neither a handle of that provider nor one of oneside's */
	assert_ret(dat_evd_dequeue(params - (uintptr_t)params % 8, &event), BAD_HANDLE(EVD_REQUEST));
	/* A second name of a library is a separate registration. */
	assert_ok(open_name("unsafe", &c));
	assert_int_equal(*inits, 3);
	assert_ret(dat_ia_close(a, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	assert_ok(dat_ia_close(a, DAT_CLOSE_ABRUPT_FLAG));
	assert_ret(dat_ia_close(a, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	assert_int_equal(*finis, 1);
	assert_ok(dat_ia_close(b, DAT_CLOSE_ABRUPT_FLAG));
	assert_int_equal(*finis, 2);
	assert_ok(dat_ia_close(c, DAT_CLOSE_ABRUPT_FLAG));
	assert_int_equal(*finis, 3);
	assert_ret(dat_get_handle_type(c, &type), ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	dlclose(own);
}

static DAT_RETURN
open_nothing(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia)
{
	static const DAT_PROVIDER *self;
	extern const DAT_PROVIDER by_hand;

	self = &by_hand;
	*ia = &self;
	return DAT_SUCCESS;
}

static DAT_RETURN
close_nothing(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS flags)
{
	return DAT_SUCCESS;
}

extern const DAT_PROVIDER by_hand;
const DAT_PROVIDER by_hand = {.ia_open_func = open_nothing, .ia_close_func = close_nothing};

/* A program may register a provider by itself. */
static void
dynamic(void **state)
{
	DAT_PROVIDER_INFO info = {.ia_name = "by hand", .dapl_version_major = 1, .dapl_version_minor = 2};
	DAT_PROVIDER_INFO none = {.ia_name = ""};
	DAT_IA_HANDLE ia;

	assert_ret(dat_registry_add_provider(NULL, &info), BAD_ARG(1));
	assert_ret(dat_registry_add_provider(&by_hand, NULL), BAD_ARG(2));
	assert_ret(dat_registry_add_provider(&by_hand, &none), BAD_ARG(2));
	memset(none.ia_name, 'x', sizeof(none.ia_name));
	assert_ret(dat_registry_add_provider(&by_hand, &none), BAD_ARG(2));
	assert_ret(dat_registry_remove_provider(&by_hand, &none), BAD_ARG(2));
	assert_ret(dat_registry_remove_provider(&by_hand, &info), BAD_ARG(2));
	assert_ret(dat_registry_remove_provider(NULL, &info), BAD_ARG(1));
	assert_ok(dat_registry_add_provider(&by_hand, &info));
	assert_ret(dat_registry_add_provider(&by_hand, &info), ERROR(DAT_PROVIDER_ALREADY_REGISTERED, 0));
	assert_ret(open_as("by hand", 1, 2, DAT_TRUE, 8, &ia), NOT_FOUND(THREAD_SAFETY_NOT_FOUND));
	assert_ok(open_name("by hand", &ia));
	assert_ret(dat_registry_remove_provider(&by_hand, &info), ERROR(DAT_PROVIDER_IN_USE, 0));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	assert_ok(dat_registry_remove_provider(&by_hand, &info));
	assert_ret(open_name("by hand", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
}

/* Entries of oneside: the fifth field names this library. */
static void
own_provider(void **state)
{
	struct mock *mock = mock_start();
	DAT_PROVIDER_ATTR attr;
	struct one_msg hello;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_IA_ATTR ia_attr;

	strcpy(mock_welcome(mock)->port, "p7");
	assert_ok(open_name("OpenIB-cma", &ia));
	assert_true(mock_last(mock, ONE_MSG_HELLO, &hello));
	assert_string_equal(hello.hello.port, "p7");
	assert_ok(dat_ia_query(ia, NULL, DAT_IA_ALL, &ia_attr, DAT_PROVIDER_FIELD_ALL, &attr));
	assert_string_equal(ia_attr.adapter_name, "OpenIB-cma");
	assert_ok(dat_pz_create(ia, &pz));
	expect_ia_handle(ia, pz);
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	/* nonthreadsafe in the file, but thread-safe */
	assert_ok(open_as("OpenIB-cma", 1, 2, DAT_TRUE, 8, &ia));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	mock_stop(mock);
}

static void
unreadable(void **state)
{
	DAT_PROVIDER_INFO info, *list[1] = {&info};
	DAT_IA_HANDLE ia;
	DAT_COUNT n;

	assert_ret(dat_registry_list_providers(1, &n, list), ERROR(DAT_INTERNAL_ERROR, 0));
	assert_ret(open_name("oneside", &ia), ERROR(DAT_INVALID_STATE, 0));
}

/* Without DAT_OVERRIDE, oneside's name and those of ports always exist. */
static void
without_file(void **state)
{
	DAT_PROVIDER_INFO info[64], *list[64];
	struct mock *mock = mock_start();
	struct one_msg hello;
	bool found = false;
	DAT_IA_HANDLE ia;
	DAT_COUNT n;

	for (int i = 0; i < 64; i++)
		list[i] = &info[i];
	assert_ok(dat_registry_list_providers(64, &n, list));
	for (DAT_COUNT i = 0; i < n; i++)
		found |= strcmp(info[i].ia_name, "oneside") == 0;
	assert_true(found);
	assert_ok(open_name("oneside", &ia));
	assert_true(mock_last(mock, ONE_MSG_HELLO, &hello));
	assert_string_equal(hello.hello.port, "");
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	assert_ret(open_name("oneside-west", &ia), NOT_FOUND(NAME_NOT_REGISTERED)); /* no such port */
	strcpy(mock_welcome(mock)->port, "east");
	assert_ok(open_as("oneside-east", 1, 0, DAT_TRUE, 8, &ia));
	assert_true(mock_last(mock, ONE_MSG_HELLO, &hello));
	assert_string_equal(hello.hello.port, "east");
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
	assert_ret(open_name("oneside-", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(open_name("onesided", &ia), NOT_FOUND(NAME_NOT_REGISTERED));
	assert_ret(open_as("oneside", 1, 3, DAT_FALSE, 8, &ia), NOT_FOUND(MINOR_NOT_FOUND));
	assert_ret(open_as("oneside", 2, 0, DAT_FALSE, 8, &ia), NOT_FOUND(MAJOR_NOT_FOUND));
	mock_stop(mock);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest with_file[] = {
		cmocka_unit_test(listing),       cmocka_unit_test(not_found),
		cmocka_unit_test(bad_arguments), cmocka_unit_test(foreign_provider),
		cmocka_unit_test(dynamic),       cmocka_unit_test(own_provider),
	};
	const struct CMUnitTest no_file[] = {cmocka_unit_test(unreadable)};
	const struct CMUnitTest builtin[] = {cmocka_unit_test(exported), cmocka_unit_test(without_file)};
	char path[] = "/tmp/oneside-dat-conf-XXXXXX";
	FILE *file;
	int failed, fd;

	if (argc > 1 && strcmp(argv[1], "unreadable") == 0) {
		setenv("DAT_OVERRIDE", "/nonexistent/dat.conf", 1);
		return cmocka_run_group_tests(no_file, NULL, NULL);
	}
	if (argc > 1 && strcmp(argv[1], "builtin") == 0) {
		unsetenv("DAT_OVERRIDE");
		return cmocka_run_group_tests(builtin, NULL, NULL);
	}
	foreign = argv[1];
	fd = mkstemp(path);
	file = fdopen(fd, "w");
	fprintf(file,
		"# test\n"
		"foreign u1.2 threadsafe default %s x.1.2 \"some params\" \"\"\n"
		"unsafe u1.2 nonthreadsafe default %s x.1.2 \"\" \"\"\n"
		"malformed u1.2\n"
		"missing u1.2 nonthreadsafe default /nonexistent/lib.so x.1.2 \"\" \"\"\n"
		"next u2.0 nonthreadsafe nondefault %s x.1.2 \"\" \"\"\n"
		"later u2.0 nonthreadsafe default %s x.1.2 \"\" \"\"\n"
		"refused u1.2 nonthreadsafe default %s x.1.2 refuse \"\"\n"
		"OpenIB-cma u1.2 nonthreadsafe default libdat.so.1 oneside.1.0 port=p7 \"\"\n",
		foreign, foreign, foreign, foreign, foreign);
	fclose(file);
	setenv("DAT_OVERRIDE", path, 1);
	setenv("DAT_DBG_TYPE", "1", 1);
	failed = cmocka_run_group_tests(with_file, NULL, NULL);
	unlink(path);
	return failed;
}
