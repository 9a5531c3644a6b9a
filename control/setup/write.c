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

/* As errno says. */
static bool
refuse(char why[SETUP_WHY], const char *path)
{
	return setup_refuse(why, "file %s: %s; be root, or write to another place by --output FILE", path,
			    strerror(errno));
}

bool
setup_files_name(struct setup_files *files, const char *conf, char why[SETUP_WHY])
{
	char copy[SETUP_FILE_MAX];

	if (*conf == '\0' || conf[strlen(conf) - 1] == '/' ||
	    strlen(conf) + sizeof("/eal.conf") > SETUP_FILE_MAX)
		return setup_refuse(
			why,
			"--output %.80s: this is no name of a file; write as in /etc/oneside/oneside.conf",
			conf);
	strcpy(files->conf, conf);
	strcpy(copy, conf);
	snprintf(files->eal, sizeof(files->eal), "%s/eal.conf", dirname(copy));
	return strcmp(basename(strcpy(copy, conf)), "eal.conf") != 0 ||
	       setup_refuse(why, "--output %.80s: EAL's options have this name; choose another", conf);
}

const char *
setup_files_there(const struct setup_files *files)
{
	struct stat st;

	return lstat(files->conf, &st) == 0 ? files->conf : lstat(files->eal, &st) == 0 ? files->eal : NULL;
}

/* ---- one file; each step is done, or errno says why not ---- */

static bool
make(struct new_file *file, const struct setup_plan *plan,
     void (*text)(const struct setup_plan *plan, FILE *out))
{
	bool written;
	FILE *out;
	int fd;

	snprintf(file->temporary, sizeof(file->temporary), "%s.XXXXXX", file->path);
	snprintf(file->old, sizeof(file->old), "%s.old", file->path);
	fd = mkostemp(file->temporary, O_CLOEXEC);
	if (fd < 0)
		return false;
	file->made = true;
	out = fdopen(fd, "w");
	if (out == NULL) {
		close(fd);
		return false;
	}
	text(plan, out);
	written = fflush(out) == 0 && fchmod(fd, MODE) == 0 && fsync(fd) == 0;
	return fclose(out) == 0 && written;
}

/* What is there stays there until another takes its place. */
static bool
keep(struct new_file *file)
{
	struct stat st;

	if (lstat(file->path, &st) != 0)
		return errno == ENOENT;
	errno = EEXIST;
	file->kept = S_ISREG(st.st_mode) && (unlink(file->old) == 0 || errno == ENOENT) &&
		     link(file->path, file->old) == 0;
	return file->kept;
}

/* Beside its place. */
static bool
prepare(struct new_file *file, const struct setup_plan *plan,
	void (*text)(const struct setup_plan *plan, FILE *out), bool replace, char why[SETUP_WHY])
{
	return (make(file, plan, text) && (!replace || keep(file))) || refuse(why, file->path);
}

/* Without `replace` only where nothing is. */
static bool
place(struct new_file *file, bool replace, char why[SETUP_WHY])
{
	if ((replace ? rename(file->temporary, file->path) : link(file->temporary, file->path)) != 0)
		return refuse(why, file->path);
	file->made = !replace;
	return true;
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

static bool
write_both(const struct setup_files *files, const struct setup_plan *plan, bool replace, char why[SETUP_WHY])
{
	struct new_file eal = {.path = files->eal}, conf = {.path = files->conf};
	bool done = prepare(&eal, plan, setup_text_eal, replace, why) &&
		    prepare(&conf, plan, setup_text_conf, replace, why) && place(&eal, replace, why);

	if (done && !place(&conf, replace, why)) {
		undo(&eal);
		done = false;
	}
	forget(&eal);
	forget(&conf);
	return done;
}

/* An instance has a folder of its own, which the service's user has to get into; its parent must be there. */
bool
setup_files_write(const struct setup_files *files, const struct setup_plan *plan, bool replace,
		  char why[SETUP_WHY])
{
	const char *there = setup_files_there(files);
	char copy[SETUP_FILE_MAX], *folder = dirname(strcpy(copy, files->conf));
	bool made, done;

	if (there != NULL && !replace)
		return setup_refuse(
			why,
			"file %s: it is there already; say --replace, which keeps it as %s.old, or write to another place by --output FILE",
			there, there);
	made = mkdir(folder, FOLDER_MODE) == 0;
	if (made ? chmod(folder, FOLDER_MODE) == 0 : errno == EEXIST) /* whatever the umask */
		done = write_both(files, plan, replace, why);
	else
		done = refuse(why, files->conf);
	if (!done && made)
		rmdir(folder);
	return done;
}
