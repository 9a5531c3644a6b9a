/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE 0644
#define FOLDER_MODE 0755

/* File being replaced: written next to its final name, then renamed or linked. */
struct new_file {
	const char *path;
	char temporary[SETUP_FILE_MAX + 16], old[SETUP_FILE_MAX + 16];
	bool made, backed_up; /* `temporary` exists; `old` exists */
};

/* Reports errno. */
static bool
write_refusal(char why[SETUP_WHY], const char *path)
{
	return setup_refuse(why, "file %s: %s; run as root, or give another path by --output FILE", path,
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
			"--output %.80s: not a file's name; write, for example, /etc/oneside/oneside.conf",
			conf);
	strcpy(files->conf, conf);
	strcpy(copy, conf);
	snprintf(files->eal, sizeof(files->eal), "%s/eal.conf", dirname(copy));
	return strcmp(basename(strcpy(copy, conf)), "eal.conf") != 0 ||
	       setup_refuse(why, "--output %.80s: the name of EAL's options file; choose another", conf);
}

const char *
setup_files_there(const struct setup_files *files)
{
	struct stat st;

	return lstat(files->conf, &st) == 0 ? files->conf : lstat(files->eal, &st) == 0 ? files->eal : NULL;
}

/* ---- one file: steps return false with errno ---- */

static bool
make_temporary(struct new_file *file, const struct setup_plan *plan,
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

/* The old file stays in place until the new one replaces it. */
static bool
save_old(struct new_file *file)
{
	struct stat st;

	if (lstat(file->path, &st) != 0)
		return errno == ENOENT;
	errno = EEXIST;
	file->backed_up = S_ISREG(st.st_mode) && (unlink(file->old) == 0 || errno == ENOENT) &&
			  link(file->path, file->old) == 0;
	return file->backed_up;
}

/* Writes the file next to its final name. */
static bool
prepare_file(struct new_file *file, const struct setup_plan *plan,
	     void (*text)(const struct setup_plan *plan, FILE *out), bool replace, char why[SETUP_WHY])
{
	return (make_temporary(file, plan, text) && (!replace || save_old(file))) ||
	       write_refusal(why, file->path);
}

/* Without `replace`, fails if the file exists. */
static bool
place_file(struct new_file *file, bool replace, char why[SETUP_WHY])
{
	if ((replace ? rename(file->temporary, file->path) : link(file->temporary, file->path)) != 0)
		return write_refusal(why, file->path);
	file->made = !replace;
	return true;
}

/* Restores the state before place_file(). */
static void
restore_old(const struct new_file *file)
{
	if (file->backed_up)
		rename(file->old, file->path);
	else
		unlink(file->path);
}

static void
remove_temporary(const struct new_file *file)
{
	if (file->made)
		unlink(file->temporary);
}

/* ---- both files ---- */

static bool
write_both(const struct setup_files *files, const struct setup_plan *plan, bool replace, char why[SETUP_WHY])
{
	struct new_file eal = {.path = files->eal}, conf = {.path = files->conf};
	bool done = prepare_file(&eal, plan, setup_text_eal, replace, why) &&
		    prepare_file(&conf, plan, setup_text_conf, replace, why) &&
		    place_file(&eal, replace, why);

	if (done && !place_file(&conf, replace, why)) {
		restore_old(&eal);
		done = false;
	}
	remove_temporary(&eal);
	remove_temporary(&conf);
	return done;
}

/* An instance has its own folder, which the service's user must be able to enter. The folder's parent must
 * exist. */
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
			"file %s: exists; give --replace, which saves the old file as %s.old, or give another path by --output FILE",
			there, there);
	made = mkdir(folder, FOLDER_MODE) == 0;
	if (made ? chmod(folder, FOLDER_MODE) == 0 : errno == EEXIST) /* independent of the umask */
		done = write_both(files, plan, replace, why);
	else
		done = write_refusal(why, files->conf);
	if (!done && made)
		rmdir(folder);
	return done;
}
