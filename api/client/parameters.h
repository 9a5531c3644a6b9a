/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets a call's parameters be listed once: a list of up to 12, each written (TYPE) NAME, yields the
 * parameters of a prototype or the arguments of another call. */
#ifndef CLIENT_PARAMETERS_H
#define CLIENT_PARAMETERS_H

#define ONE_EACH_1(m, a) m(a)
#define ONE_EACH_2(m, a, ...) m(a), ONE_EACH_1(m, __VA_ARGS__)
#define ONE_EACH_3(m, a, ...) m(a), ONE_EACH_2(m, __VA_ARGS__)
#define ONE_EACH_4(m, a, ...) m(a), ONE_EACH_3(m, __VA_ARGS__)
#define ONE_EACH_5(m, a, ...) m(a), ONE_EACH_4(m, __VA_ARGS__)
#define ONE_EACH_6(m, a, ...) m(a), ONE_EACH_5(m, __VA_ARGS__)
#define ONE_EACH_7(m, a, ...) m(a), ONE_EACH_6(m, __VA_ARGS__)
#define ONE_EACH_8(m, a, ...) m(a), ONE_EACH_7(m, __VA_ARGS__)
#define ONE_EACH_9(m, a, ...) m(a), ONE_EACH_8(m, __VA_ARGS__)
#define ONE_EACH_10(m, a, ...) m(a), ONE_EACH_9(m, __VA_ARGS__)
#define ONE_EACH_11(m, a, ...) m(a), ONE_EACH_10(m, __VA_ARGS__)
#define ONE_EACH_12(m, a, ...) m(a), ONE_EACH_11(m, __VA_ARGS__)
#define ONE_EACH_COUNT(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define ONE_EACH_CAT(a, b) a##b
#define ONE_EACH_OF(n) ONE_EACH_CAT(ONE_EACH_, n)
/* m(a), m(b), ... */
#define ONE_EACH(m, ...) \
	ONE_EACH_OF(ONE_EACH_COUNT(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0))(m, __VA_ARGS__)

#define ONE_TYPE(...) __VA_ARGS__
#define ONE_NO_TYPE(...)
#define ONE_PARAMETER(parameter) ONE_TYPE parameter
#define ONE_NAME(parameter) ONE_NO_TYPE parameter
#define ONE_PARAMETERS(...) ONE_EACH(ONE_PARAMETER, __VA_ARGS__)
#define ONE_NAMES(...) ONE_EACH(ONE_NAME, __VA_ARGS__)

#endif
