/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled in front of onesidectl for its target: exits become jumps, and allocations are tracked. */
#ifndef TESTS_FUZZ_ONESIDECTL_H
#define TESTS_FUZZ_ONESIDECTL_H

#include <stddef.h>
#include <stdio.h>

int program_main(int argc, char **argv);
_Noreturn void program_exit(int status);
void program_free(void *at);
void *program_calloc(size_t number, size_t size);
char *program_strdup(const char *text);
FILE *program_memstream(char **text, size_t *len);
int program_fclose(FILE *file);
int program_socket(void);
int program_execvp(void);

#ifdef FUZZ_ONESIDECTL
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define main program_main
#define exit program_exit
#define free program_free
#define calloc program_calloc
#define strdup program_strdup
#define open_memstream program_memstream
#define fclose program_fclose
#define socket(domain, type, protocol) program_socket()
#define execvp(file, words) program_execvp()
#endif

#endif
