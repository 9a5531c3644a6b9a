/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls and copies for code that runs while pages of this process are write-protected: such code uses
 * no errno (thread-local memory), allocates nothing, takes no lock, and stores only to the stack. Return
 * values are the kernel's: -errno for an error. */
#ifndef CLIENT_RAW_H
#define CLIENT_RAW_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct raw_dirent { /* of getdents64 */
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

static inline long
raw_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
	long result = syscall(number, a, b, c, d, e, f);

	return result == -1 ? -errno : result;
#endif
}

static inline long
raw_syscall(long number, long a, long b, long c, long d, long e)
{
	return raw_syscall6(number, a, b, c, d, e, 0);
}

static inline void
raw_copy(void *dst, const void *src, size_t len)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
#else
	volatile unsigned long *to = dst;
	const volatile unsigned long *from = src;

	for (size_t i = 0; i < len / sizeof(long); i++) /* `len` is a multiple of the page size */
		to[i] = from[i];
#endif
}

#endif
