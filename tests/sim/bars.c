/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum goodput with loss and congestion. Virtual time is exact, so the figures are the same on every
 * machine and can be asserted. */
#include "sim.h"

#define KIB 1024.0
#define RTT (50 * US)

static const struct link_run plain = {
	.senders = 1,
	.mtu = 4096,
	.selective = true,
	.buffer = 4096 * KIB,
	.mark = 4096 * KIB,
	.rtt = RTT,
	.time = 40 * MS,
};

static void
report(const char *name, const struct link_run *run, const struct link_result *r)
{
	printf("%-10s %-9s %-5s mtu %4u loss %5.3f%%: %6.2f Gb/s, Jain %.3f, least %5.2f; sent again %llu, timeouts %llu, lost %llu, dropped %llu (late %llu), marked %llu, CNPs %llu\n",
	       name,
	       run->unknown     ? "unknown"
	       : run->selective ? "selective"
				: "go-back",
	       run->read ? "READ" : "WRITE", run->mtu, 100 * run->loss, r->goodput, r->jain, r->least,
	       (unsigned long long)r->resent, (unsigned long long)r->timeouts, (unsigned long long)r->lost,
	       (unsigned long long)r->dropped, (unsigned long long)r->late, (unsigned long long)r->marked,
	       (unsigned long long)r->cnps);
	fflush(stdout);
}

static bool
at_least(const char *what, double value, double bar)
{
	if (value >= bar)
		return true;
	printf("%s: %.3f, must be %.3f\n", what, value, bar);
	return false;
}

/* Checks the share of goodput that remains with a peer that has announced nothing, whose window is
 * RC_CWND_OTHER. */
static bool
unknown_peer(uint16_t mtu, double bar)
{
	struct link_run run = plain;
	double announced;
	struct link_result r;

	run.mtu = mtu;
	announced = link_simulate(&run).goodput;
	run.selective = false;
	run.unknown = true;
	for (int lossy = 0; lossy < 2; lossy++) {
		run.loss = lossy ? 0.001 : 0;
		r = link_simulate(&run);
		report("loss", &run, &r);
		if (!lossy &&
		    !at_least("share of the goodput with an announcement", r.goodput / announced, bar))
			return false;
	}
	return true;
}

bool
link_loss(void)
{
	static const uint16_t mtus[] = {4096, 1024};
	static const double losses[] = {0, 0.0001, 0.001, 0.01};
	bool good = true;

	for (int read = 0; read < 2; read++) {
		for (size_t m = 0; m < 2; m++) {
			for (int selective = 1; selective >= 0; selective--) {
				double without = 0;

				for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
					struct link_run run = plain;
					struct link_result r;

					run.read = read;
					run.mtu = mtus[m];
					run.selective = selective;
					run.loss = losses[i];
					r = link_simulate(&run);
					report("loss", &run, &r);
					if (i == 0)
						without = r.goodput;
					else if (selective)
						good &= at_least("share of the goodput without loss",
								 r.goodput / without, 0.9);
				}
			}
		}
	}
	good &= unknown_peer(4096, 0.5);
	good &= unknown_peer(1024, 0.15);
	return good;
}

bool
link_incast(void)
{
	static const uint16_t mtus[] = {4096, 1024};
	bool good = true;

	for (size_t m = 0; m < 2; m++) {
		struct link_run run = plain;
		struct link_result alone, r;

		run.mtu = mtus[m];
		alone = link_simulate(&run);
		run.buffer = 512 * KIB;
		run.mark = 128 * KIB;
		run.time = 100 * MS;
		for (run.senders = 2; run.senders <= 32; run.senders *= 4) {
			r = link_simulate(&run);
			report("incast", &run, &r);
			good &= at_least("share of the bottleneck", r.goodput / alone.goodput, 0.9);
			good &= at_least("fairness", r.jain, 0.95);
		}
	}
	return good;
}
