/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens IAs by name.  The entries of dat.conf are tried in the file's order: the first entry whose library
 * loads and registers the name is used.  Our own provider needs no entry: "oneside" is the first port of the
 * data plane, "oneside-NAME" the port NAME.  With DAT_OVERRIDE only the entries of its file count. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"
#include "dat/registry/registry.h"

#define OWN_NAME "oneside"

static const DAT_PROVIDER_INFO own = {OWN_NAME, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_TRUE};

/* A provider registered by dat_registry_add_provider. */
struct announced {
	LIST_ENTRY(announced) link;
	DAT_PROVIDER_INFO info;
	const DAT_PROVIDER *provider;
	uint32_t opens;
	uint32_t slot; /* index in registry.tables */
};

#define TABLES 1024u

/* An open IA of a provider library. */
struct foreign_ia {
	LIST_ENTRY(foreign_ia) link;
	DAT_IA_HANDLE handle;
	struct announced *announced;
	struct conf_entry *entry; /* NULL: the program loaded the library itself */
};

static struct {
	pthread_once_t once;
	struct conf_entry *entries;
	bool unreadable; /* DAT_OVERRIDE names a file that cannot be read */
	bool override;
	pthread_mutex_t load_lock; /* held while loading and in init and fini; taken before `lock` */
	pthread_mutex_t lock;      /* guards the lists below */
	LIST_HEAD(, announced) announced;
	LIST_HEAD(, foreign_ia) ias;
	_Atomic uint32_t num_foreign; /* open IAs of provider libraries */
	/* Tables of announced providers.  Every call on a foreign handle reads them without a lock. */
	_Atomic(const DAT_PROVIDER *) tables[TABLES];
	_Atomic uint32_t num_tables; /* all slots in use are below this index */
} registry = {
	.once = PTHREAD_ONCE_INIT, .load_lock = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

static bool
read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	int skipped, first = 0;

	if (file == NULL)
		return false;
	skipped = conf_parse(file, &registry.entries, &first);
	if (skipped > 0 && one_explaining)
		one_warn("%s: ignored %d lines that are not entries of dat.conf(5); the first is line %d",
			 path, skipped, first);
	else if (skipped > 0)
		base_complain("dat.conf", path, "%d malformed lines skipped, the first is line %d", skipped,
			      first);
	fclose(file);
	return true;
}

static void
fork_prepare(void)
{
	pthread_mutex_lock(&registry.lock);
}

static void
fork_parent(void)
{
	pthread_mutex_unlock(&registry.lock);
}

static void
fork_child(void)
{
	fork_parent();
	/* A thread that held load_lock does not exist in the child. */
	pthread_mutex_init(&registry.load_lock, NULL);
}

static void
read_conf(void)
{
	const char *path = secure_getenv("DAT_OVERRIDE");

	pthread_atfork(fork_prepare, fork_parent, fork_child);
	registry.override = path != NULL;
	if (path != NULL) {
		registry.unreadable = !read_file(path);
		if (registry.unreadable)
			base_complain("DAT_OVERRIDE", path, "it cannot be read: %s", strerror(errno));
		return;
	}
	read_file("/etc/dat.conf");
	read_file("/etc/dat/dat.conf");
}

/* True if the name is ours without an entry; sets *port to the port's name. */
static bool
is_own_name(const char *name, const char **port)
{
	size_t len = strlen(OWN_NAME);

	if (registry.override || strncmp(name, OWN_NAME, len) != 0)
		return false;
	*port = name[len] == '-' ? name + len + 1 : "";
	return name[len] == '\0' || (name[len] == '-' && name[len + 1] != '\0');
}

static bool
is_listed(const struct conf_entry *entry)
{
	return entry->info.dapl_version_major == DAT_VERSION_MAJOR;
}

/* True if our own name is to be listed: not with DAT_OVERRIDE, nor if an entry has the name. */
static bool
own_listed(void)
{
	if (registry.override)
		return false;
	for (const struct conf_entry *e = registry.entries; e != NULL; e = e->next) {
		if (is_listed(e) && strcmp(e->info.ia_name, OWN_NAME) == 0)
			return false;
	}
	return true;
}

/* True if an offer meets the wish.  Else raises *best to the subtype of the mismatch: subtypes later in the
 * enumeration are better matches. */
static bool
meets_wish(const DAT_PROVIDER_INFO *offer, const DAT_PROVIDER_INFO *wanted, DAT_RETURN_SUBTYPE *best)
{
	DAT_RETURN_SUBTYPE how = DAT_THREAD_SAFETY_NOT_FOUND;

	if (strcmp(offer->ia_name, wanted->ia_name) != 0)
		how = DAT_NAME_NOT_REGISTERED;
	else if (offer->dapl_version_major != wanted->dapl_version_major)
		how = DAT_MAJOR_NOT_FOUND;
	else if (offer->dapl_version_minor < wanted->dapl_version_minor)
		how = DAT_MINOR_NOT_FOUND;
	else if (wanted->is_thread_safe == DAT_FALSE || offer->is_thread_safe != DAT_FALSE)
		return true;
	*best = how > *best ? how : *best;
	return false;
}

/* registry.lock held. */
static struct announced *
find_announced(const char *name)
{
	struct announced *a;

	LIST_FOREACH(a, &registry.announced, link)
		if (strcmp(a->info.ia_name, name) == 0)
			break;
	return a;
}

const DAT_PROVIDER *
registry_foreign(DAT_HANDLE handle)
{
	const DAT_PROVIDER *table;
	uint32_t n;

	/* Do not dereference the handle unless a provider library is in use.  Pairs with the release add in
	 * open_foreign and the release subtraction in close_any: the library's tables are registered. */
	if (atomic_load_explicit(&registry.num_foreign, memory_order_acquire) == 0 ||
	    (uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) != 0)
		return NULL;
	table = *(DAT_PROVIDER *const *)handle;
	/* Pairs with the release store in take_slot. */
	n = atomic_load_explicit(&registry.num_tables, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++) {
		if (one_load_alone(&registry.tables[i]) == table && table != NULL)
			return table;
	}
	return NULL;
}

/* registry.lock held. */
static bool
take_slot(struct announced *a)
{
	uint32_t n = one_load_locked(&registry.num_tables);

	for (a->slot = 0; a->slot < n; a->slot++) {
		if (one_load_locked(&registry.tables[a->slot]) == NULL)
			break;
	}
	if (a->slot == TABLES)
		return false;
	one_store_alone(&registry.tables[a->slot], a->provider); /* relaxed: readers only compare it */
	/* Pairs with the acquire load in registry_foreign. */
	if (a->slot == n)
		atomic_store_explicit(&registry.num_tables, n + 1, memory_order_release);
	return true;
}

static DAT_RETURN
add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *provider_info)
{
	struct announced *a, *other;

	if (provider == NULL)
		return BAD_ARG(1);
	if (provider_info == NULL || provider_info->ia_name[0] == '\0' ||
	    memchr(provider_info->ia_name, '\0', sizeof(provider_info->ia_name)) == NULL)
		return BAD_ARG(2);
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	a->info = *provider_info;
	a->provider = provider;
	pthread_mutex_lock(&registry.lock);
	LIST_FOREACH(other, &registry.announced, link) {
		if (strcmp(other->info.ia_name, a->info.ia_name) == 0 &&
		    other->info.dapl_version_major == a->info.dapl_version_major &&
		    other->info.dapl_version_minor == a->info.dapl_version_minor &&
		    other->info.is_thread_safe == a->info.is_thread_safe) {
			pthread_mutex_unlock(&registry.lock);
			free(a);
			return DAT_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE);
		}
	}
	if (!take_slot(a)) {
		pthread_mutex_unlock(&registry.lock);
		free(a);
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	}
	LIST_INSERT_HEAD(&registry.announced, a, link);
	pthread_mutex_unlock(&registry.lock);
	return DAT_SUCCESS;
}

DAT_RETURN
dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *provider_info)
{
	DAT_RETURN ret = add_provider(provider, provider_info);

	return EXPLAIN_RETURN("dat_registry_add_provider", ret, ONE_ARGUMENTS(provider, provider_info));
}

static DAT_RETURN
remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *provider_info)
{
	DAT_RETURN ret = DAT_SUCCESS;
	struct announced *a;

	if (provider == NULL)
		return BAD_ARG(1);
	if (provider_info == NULL ||
	    memchr(provider_info->ia_name, '\0', sizeof(provider_info->ia_name)) == NULL)
		return BAD_ARG(2);
	pthread_mutex_lock(&registry.lock);
	LIST_FOREACH(a, &registry.announced, link)
		if (a->provider == provider && strcmp(a->info.ia_name, provider_info->ia_name) == 0)
			break;
	if (a == NULL) {
		ret = BAD_ARG(2);
	} else if (a->opens > 0) {
		ret = DAT_ERROR(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE);
	} else {
		LIST_REMOVE(a, link);
		one_store_alone(&registry.tables[a->slot], NULL);
		free(a);
	}
	pthread_mutex_unlock(&registry.lock);
	return ret;
}

DAT_RETURN
dat_registry_remove_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *provider_info)
{
	DAT_RETURN ret = remove_provider(provider, provider_info);

	return EXPLAIN_RETURN("dat_registry_remove_provider", ret, ONE_ARGUMENTS(provider, provider_info));
}

DAT_RETURN
dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *entries_returned,
			    DAT_PROVIDER_INFO *(dat_provider_list[]))
{
	DAT_COUNT total, filled = 0;

	pthread_once(&registry.once, read_conf);
	if (entries_returned == NULL)
		return BAD_ARG(2);
	if (registry.unreadable)
		return DAT_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE);
	total = own_listed();
	for (const struct conf_entry *e = registry.entries; e != NULL; e = e->next)
		total += is_listed(e);
	*entries_returned = total;
	if (max_to_return <= 0)
		return BAD_ARG(1);
	if (dat_provider_list == NULL)
		return BAD_ARG(3);
	for (DAT_COUNT i = 0; i < max_to_return && i < total; i++) {
		if (dat_provider_list[i] == NULL)
			return BAD_ARG(3);
	}
	for (const struct conf_entry *e = registry.entries; e != NULL && filled < max_to_return;
	     e = e->next) {
		if (is_listed(e))
			*dat_provider_list[filled++] = e->info;
	}
	if (own_listed() && filled < max_to_return)
		*dat_provider_list[filled++] = own;
	*entries_returned = filled;
	return DAT_SUCCESS;
}

/* Calls the library's fini function and unloads it.  load_lock held. */
static void
unload_library(struct conf_entry *entry)
{
	DAT_PROVIDER_FINI_FUNC fini;
	void *symbol = dlsym(entry->dl, DAT_PROVIDER_FINI_FUNC_STR);

	memcpy(&fini, &symbol, sizeof(fini));
	if (fini != NULL)
		fini(&entry->info);
	dlclose(entry->dl);
	entry->dl = NULL;
}

/* Loads the entry's library and returns the provider that it registers, or NULL.  load_lock held. */
static struct announced *
load_library(struct conf_entry *entry)
{
	struct announced *found;
	DAT_PROVIDER_INIT_FUNC init;
	void *symbol;

	if (entry->dl == NULL) {
		entry->dl = dlopen(entry->library, RTLD_NOW | RTLD_LOCAL);
		if (entry->dl == NULL) {
			base_complain("ia_name_ptr", entry->info.ia_name, "%s", dlerror());
			return NULL;
		}
		symbol = dlsym(entry->dl, DAT_PROVIDER_INIT_FUNC_STR);
		memcpy(&init, &symbol, sizeof(init));
		if (init == NULL) {
			base_complain("ia_name_ptr", entry->info.ia_name,
				      "%s has no " DAT_PROVIDER_INIT_FUNC_STR, entry->library);
			dlclose(entry->dl);
			entry->dl = NULL;
			return NULL;
		}
		init(&entry->info, entry->params);
	}
	pthread_mutex_lock(&registry.lock);
	found = find_announced(entry->info.ia_name);
	pthread_mutex_unlock(&registry.lock);
	if (found == NULL) {
		base_complain("ia_name_ptr", entry->info.ia_name, "%s did not register this name",
			      entry->library);
		if (entry->opens == 0)
			unload_library(entry);
	}
	return found;
}

/* load_lock held. */
static DAT_RETURN
open_foreign(struct announced *a, struct conf_entry *entry, const DAT_NAME_PTR name, DAT_COUNT qlen,
	     DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle)
{
	struct foreign_ia *ia = calloc(1, sizeof(*ia));
	DAT_RETURN ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

	if (ia != NULL)
		ret = a->provider->ia_open_func(name, qlen, async_evd, ia_handle);
	if (ret != DAT_SUCCESS) {
		free(ia);
		if (entry != NULL && entry->opens == 0)
			unload_library(entry);
		return ret;
	}
	ia->handle = *ia_handle;
	ia->announced = a;
	ia->entry = entry;
	pthread_mutex_lock(&registry.lock);
	a->opens++;
	if (entry != NULL)
		entry->opens++;
	LIST_INSERT_HEAD(&registry.ias, ia, link);
	pthread_mutex_unlock(&registry.lock);
	/* Pairs with the acquire load in registry_foreign. */
	atomic_fetch_add_explicit(&registry.num_foreign, 1, memory_order_release);
	return DAT_SUCCESS;
}

static void
complain_not_found(const DAT_PROVIDER_INFO *wanted, DAT_RETURN_SUBTYPE how)
{
	const char *where =
		registry.override ? "the file of DAT_OVERRIDE" : "/etc/dat.conf, /etc/dat/dat.conf";

	switch (how) {
	case DAT_MAJOR_NOT_FOUND:
	case DAT_MINOR_NOT_FOUND:
		base_complain("ia_name_ptr", wanted->ia_name, "found, but not for uDAPL %u.%u (in %s)",
			      wanted->dapl_version_major, wanted->dapl_version_minor, where);
		break;
	case DAT_THREAD_SAFETY_NOT_FOUND:
		base_complain("ia_name_ptr", wanted->ia_name,
			      "found, but not thread-safe, as the program requires (in %s)", where);
		break;
	default:
		base_complain("ia_name_ptr", wanted->ia_name,
			      "no interface adapter has this name; the names are in %s%s", where,
			      registry.override ? "" : ", besides " OWN_NAME " and " OWN_NAME "-PORT");
	}
}

static DAT_RETURN
open_named(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd, DAT_IA_HANDLE *ia_handle,
	   DAT_PROVIDER_INFO wanted)
{
	DAT_RETURN_SUBTYPE best = DAT_NAME_NOT_REGISTERED;
	DAT_RETURN ret = DAT_ERROR(DAT_PROVIDER_NOT_FOUND, 0);
	char params[DAT_NAME_MAX_LENGTH + sizeof("port=")];
	DAT_PROVIDER_INFO info;
	struct announced *a;
	const char *port;

	if (name == NULL || strnlen(name, DAT_NAME_MAX_LENGTH) == DAT_NAME_MAX_LENGTH)
		return BAD_ARG(1);
	if (async_evd == NULL)
		return BAD_ARG(3);
	if (ia_handle == NULL)
		return BAD_HANDLE(IA);
	pthread_once(&registry.once, read_conf);
	if (registry.unreadable)
		return BECAUSE(DAT_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE),
			       "DAT_OVERRIDE = %s: it cannot be read; name a readable file, or unset it",
			       getenv("DAT_OVERRIDE"));

	memcpy(wanted.ia_name, name, strlen(name));
	for (struct conf_entry *e = registry.entries; e != NULL; e = e->next) {
		info = e->info;
		/* Our provider is thread-safe, whatever the entry says. */
		if (conf_is_ours(e))
			info.is_thread_safe = DAT_TRUE;
		if (!meets_wish(&info, &wanted, &best))
			continue;
		if (conf_is_ours(e))
			return ia_open(name, e->params, oneside_table(), qlen, async_evd, ia_handle);
		pthread_mutex_lock(&registry.load_lock);
		a = load_library(e);
		if (a != NULL)
			ret = open_foreign(a, e, name, qlen, async_evd, ia_handle);
		pthread_mutex_unlock(&registry.load_lock);
		if (a != NULL)
			return ret;
	}
	info = own;
	memcpy(info.ia_name, wanted.ia_name, sizeof(info.ia_name));
	if (is_own_name(name, &port) && meets_wish(&info, &wanted, &best)) {
		snprintf(params, sizeof(params), "%s%s", port[0] != '\0' ? "port=" : "", port);
		return ia_open(name, params, oneside_table(), qlen, async_evd, ia_handle);
	}
	/* The program may have loaded a provider library itself. */
	pthread_mutex_lock(&registry.load_lock);
	pthread_mutex_lock(&registry.lock);
	a = find_announced(name);
	if (a != NULL && !meets_wish(&a->info, &wanted, &best))
		a = NULL;
	pthread_mutex_unlock(&registry.lock);
	if (a != NULL) {
		ret = open_foreign(a, NULL, name, qlen, async_evd, ia_handle);
	} else {
		complain_not_found(&wanted, best);
		ret = DAT_ERROR(DAT_PROVIDER_NOT_FOUND, best);
	}
	pthread_mutex_unlock(&registry.load_lock);
	return ret;
}

DAT_RETURN
dat_ia_openv(const DAT_NAME_PTR ia_name_ptr, DAT_COUNT async_evd_min_qlen, DAT_EVD_HANDLE *async_evd_handle,
	     DAT_IA_HANDLE *ia_handle, DAT_UINT32 dat_version_major, DAT_UINT32 dat_version_minor,
	     DAT_BOOLEAN thread_safety)
{
	const DAT_PROVIDER_INFO wanted = {.dapl_version_major = dat_version_major,
					  .dapl_version_minor = dat_version_minor,
					  .is_thread_safe = thread_safety};
	DAT_RETURN ret = open_named(ia_name_ptr, async_evd_min_qlen, async_evd_handle, ia_handle, wanted);

	return EXPLAIN_RETURN("dat_ia_open", ret,
			      ONE_ARGUMENTS(ia_name_ptr, async_evd_min_qlen, async_evd_handle, ia_handle));
}

static DAT_RETURN
close_any(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS ia_flags)
{
	struct foreign_ia *ia;
	DAT_RETURN ret;

	if (handle_slot(ia_handle) != NULL)
		return dapl_ia_close(ia_handle, ia_flags);
	pthread_mutex_lock(&registry.load_lock);
	pthread_mutex_lock(&registry.lock);
	LIST_FOREACH(ia, &registry.ias, link)
		if (ia->handle == ia_handle)
			break;
	pthread_mutex_unlock(&registry.lock);
	if (ia == NULL || ia_handle == DAT_HANDLE_NULL) {
		pthread_mutex_unlock(&registry.load_lock);
		return BAD_HANDLE(IA);
	}
	ret = ia->announced->provider->ia_close_func(ia_handle, ia_flags);
	if (ret == DAT_SUCCESS) {
		pthread_mutex_lock(&registry.lock);
		LIST_REMOVE(ia, link);
		ia->announced->opens--;
		pthread_mutex_unlock(&registry.lock);
		/* Pairs with the acquire load in registry_foreign. */
		atomic_fetch_sub_explicit(&registry.num_foreign, 1, memory_order_release);
		if (ia->entry != NULL && --ia->entry->opens == 0)
			unload_library(ia->entry);
		free(ia);
	}
	pthread_mutex_unlock(&registry.load_lock);
	return ret;
}

DAT_RETURN
dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS ia_flags)
{
	return refused_ia_close(close_any(ia_handle, ia_flags), ia_handle, ia_flags);
}
