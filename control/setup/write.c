/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/write.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0644
#define FOLDER_MODE 0755

/* A file under way: it is made beside its place, and then put there. */
struct new_file {
	const char *path;
	char temporary[SETUP_FILE_MAX + 16], old[SETUP_FILE_MAX + 16];
	bool made, kept; /* the temporary one, the one that was there */
};

static int
refuse(char *why, size_t why_len, const char *path, int error)
{
	return config_refuse(why, why_len, -error,
			     "file %s: %s; be root, or write to another place by --output FILE", path,
			     strerror(error));
}

int
setup_files_name(struct setup_files *files, const char *conf, char *why, size_t why_len)
{
	char copy[SETUP_FILE_MAX];

	if (*conf == '\0' || conf[strlen(conf) - 1] == '/' ||
	    strlen(conf) + sizeof("/eal.conf") > SETUP_FILE_MAX)
		return config_refuse(
			why, why_len, -EINVAL,
			"--output %.80s: this is no name of a file; write as in /etc/oneside/oneside.conf",
			conf);
	strcpy(files->conf, conf);
	strcpy(copy, conf);
	snprintf(files->eal, sizeof(files->eal), "%s/eal.conf", dirname(copy));
	if (strcmp(basename(strcpy(copy, conf)), "eal.conf") == 0)
		return config_refuse(why, why_len, -EINVAL,
				     "--output %.80s: EAL's options have this name; choose another", conf);
	return 0;
}

const char *
setup_files_there(const struct setup_files *files)
{
	struct stat st;

	return lstat(files->conf, &st) == 0 ? files->conf : lstat(files->eal, &st) == 0 ? files->eal : NULL;
}

/* ---- one file ---- */

static int
make(struct new_file *file, const struct setup_plan *plan,
     void (*text)(const struct setup_plan *plan, FILE *out))
{
	int fd, error;
	FILE *out;

	snprintf(file->temporary, sizeof(file->temporary), "%s.XXXXXX", file->path);
	snprintf(file->old, sizeof(file->old), "%s.old", file->path);
	fd = mkostemp(file->temporary, O_CLOEXEC);
	if (fd < 0)
		return errno;
	file->made = true;
	out = fdopen(fd, "w");
	if (out == NULL) {
		error = errno;
		close(fd);
		return error;
	}
	text(plan, out);
	error = fflush(out) != 0 || fchmod(fd, MODE) != 0 || fsync(fd) != 0 ? errno : 0;
	return fclose(out) != 0 && error == 0 ? errno : error;
}

/* What is there stays there until another takes its place. */
static int
keep(struct new_file *file)
{
	struct stat st;

	if (lstat(file->path, &st) != 0)
		return errno == ENOENT ? 0 : errno;
	if (!S_ISREG(st.st_mode))
		return EEXIST;
	if ((unlink(file->old) != 0 && errno != ENOENT) || link(file->path, file->old) != 0)
		return errno;
	file->kept = true;
	return 0;
}

/* Without `replace` only where nothing is. */
static int
place(struct new_file *file, bool replace)
{
	if (replace ? rename(file->temporary, file->path) != 0 : link(file->temporary, file->path) != 0)
		return errno;
	if (replace)
		file->made = false;
	return 0;
}

/* As it was before place(). */
static void
undo(const struct new_file *file)
{
	if (file->kept)
		rename(file->old, file->path);
	else
		unlink(file->path);
}

static void
forget(const struct new_file *file)
{
	if (file->made)
		unlink(file->temporary);
}

/* ---- both ---- */

/* An instance has a folder of its own, which the service's user has to get into; its parent must be there. */
static int
make_folder(const char *path, char folder[SETUP_FILE_MAX], bool *made)
{
	char copy[SETUP_FILE_MAX];

	strcpy(copy, path);
	strcpy(folder, dirname(copy));
	*made = mkdir(folder, FOLDER_MODE) == 0;
	if (!*made)
		return errno == EEXIST ? 0 : errno;
	return chmod(folder, FOLDER_MODE) != 0 ? errno : 0; /* whatever the umask */
}

static int
place_both(struct new_file *eal, struct new_file *conf, bool replace, char *why, size_t why_len)
{
	int error = place(eal, replace);

	if (error != 0)
		return refuse(why, why_len, eal->path, error);
	error = place(conf, replace);
	if (error == 0)
		return 0;
	undo(eal);
	return refuse(why, why_len, conf->path, error);
}

static int
write_both(const struct setup_files *files, const struct setup_plan *plan, bool replace, char *why,
	   size_t why_len)
{
	struct new_file eal = {.path = files->eal}, conf = {.path = files->conf};
	int error = make(&eal, plan, setup_text_eal);

	if (error == 0 && replace)
		error = keep(&eal);
	if (error != 0) {
		error = refuse(why, why_len, files->eal, error);
		forget(&eal);
		return error;
	}
	error = make(&conf, plan, setup_text_conf);
	if (error == 0 && replace)
		error = keep(&conf);
	error = error != 0 ? refuse(why, why_len, files->conf, error)
			   : place_both(&eal, &conf, replace, why, why_len);
	forget(&eal);
	forget(&conf);
	return error;
}

int
setup_files_write(const struct setup_files *files, const struct setup_plan *plan, bool replace, char *why,
		  size_t why_len)
{
	const char *there = setup_files_there(files);
	char folder[SETUP_FILE_MAX];
	bool made;
	int error;

	if (there != NULL && !replace)
		return config_refuse(
			why, why_len, -EEXIST,
			"file %s: it is there already; say --replace, which keeps it as %s.old, or "
			"write to another place by --output FILE",
			there, there);
	error = make_folder(files->conf, folder, &made);
	error = error != 0 ? refuse(why, why_len, files->conf, error)
			   : write_both(files, plan, replace, why, why_len);
	if (error != 0 && made)
		rmdir(folder);
	return error;
}
