/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include <getopt.h>

static _Noreturn void
usage(void)
{
	fprintf(stderr,
		"usage: sim [--seed N] [--count N] [--loss P] [--repeat HOW] [--stops HOW] [--moves | --takeovers] [-v] | "
		"--link WHAT | --bench\n"
		"  --seed N   first seed (1)\n"
		"  --count N  how many seeds from there (100)\n"
		"  --loss P   highest rate of loss in the runs, 0..0.5 (0.3)\n"
		"  --repeat HOW  between oneside ends: mixed (as drawn), selective, go-back\n"
		"  --stops HOW   hosts on a perfect network: none stops, pause, vanish\n"
		"  --moves    queue pairs move between two cores of their host\n"
		"  --takeovers  another process takes over a host's queue pairs\n"
		"  -v         print every frame and completion\n"
		"  --link WHAT   goodput over a modelled switch: loss, incast\n"
		"  --bench    ns per small operation instead\n");
	exit(2);
}

static void
summarize(const struct totals *t)
{
	static const char *const names[] = {
		[RC_COUNT_RETRANSMIT] = "sent again",
		[RC_COUNT_TIMEOUT] = "timeouts",
		[RC_COUNT_NAK_SEQ_SENT] = "sequence NAKs",
		[RC_COUNT_NAK_IMPLIED] = "implied NAKs",
		[RC_COUNT_RNR_SENT] = "RNR NAKs",
		[RC_COUNT_DUPLICATE] = "duplicates",
		[RC_COUNT_HELD] = "held",
		[RC_COUNT_PACKED_SENT] = "packed sent",
		[RC_COUNT_DROP_PACKED] = "dropped, packed",
		[RC_COUNT_RECOGNIZED] = "recognized",
		[RC_COUNT_RETRY_EXCEEDED] = "retries exceeded",
	};

	printf("%llu runs, %llu work requests, %llu frames (%llu lost, %llu duplicated, %llu corrupted, %llu of them caught), %llu s of virtual time\n",
	       (unsigned long long)t->runs, (unsigned long long)t->work, (unsigned long long)t->frames,
	       (unsigned long long)t->lost, (unsigned long long)t->duplicated,
	       (unsigned long long)t->corrupted, (unsigned long long)t->caught,
	       (unsigned long long)t->virtual_ms / 1000);
	printf("%llu runs with a broken connection, %llu gave up on a dead peer, %llu on a living one, "
	       "%llu moves, %llu take-overs, %llu of them rolled back;",
	       (unsigned long long)t->failures, (unsigned long long)(t->gave_up - t->unprovoked),
	       (unsigned long long)t->unprovoked, (unsigned long long)t->moves,
	       (unsigned long long)t->takeovers, (unsigned long long)t->rollbacks);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i] != NULL)
			printf(" %s %llu", names[i], (unsigned long long)t->counter[i]);
	putchar('\n');
}

static enum repeat
repeat_from(const char *name)
{
	for (enum repeat i = REPEAT_MIXED; i <= REPEAT_GO_BACK; i++)
		if (strcmp(name, repeat_names[i]) == 0)
			return i;
	usage();
}

static enum stops
stops_from(const char *name)
{
	for (enum stops i = STOPS_NONE; i <= STOPS_VANISH; i++)
		if (strcmp(name, stops_names[i]) == 0)
			return i;
	usage();
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
		{"seed", required_argument, NULL, 's'},  {"count", required_argument, NULL, 'c'},
		{"loss", required_argument, NULL, 'l'},  {"repeat", required_argument, NULL, 'r'},
		{"stops", required_argument, NULL, 't'}, {"link", required_argument, NULL, 'k'},
		{"bench", no_argument, NULL, 'b'},       {"moves", no_argument, NULL, 'm'},
		{"takeovers", no_argument, NULL, 'o'},   {NULL, 0, NULL, 0},
	};
	struct options options = {.loss = 0.3};
	struct totals totals = {0};
	uint64_t seed = 1, count = 100;
	int option;

	while ((option = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			count = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			options.loss = strtod(optarg, NULL);
			break;
		case 'r':
			options.repeat = repeat_from(optarg);
			break;
		case 't':
			options.stops = stops_from(optarg);
			break;
		case 'k':
			wire_init();
			if (strcmp(optarg, "loss") == 0)
				return link_loss() ? 0 : 1;
			if (strcmp(optarg, "incast") == 0)
				return link_incast() ? 0 : 1;
			usage();
		case 'b':
			wire_init();
			bench_run();
			return 0;
		case 'm':
			options.moves = true;
			break;
		case 'o':
			options.takeovers = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || (options.moves && options.takeovers) ||
	    !(options.loss >= 0 && options.loss <= 0.5))
		usage();
	wire_init();
	for (uint64_t i = 0; i < count; i++)
		sim_run(seed + i, &options, &totals);
	summarize(&totals);
	/* With much loss, giving up on a living peer is allowed, but must be rare. */
	if (totals.unprovoked * 20 > totals.runs + 20) {
		fprintf(stderr, "sim: too many connections were given up\n");
		return 1;
	}
	return 0;
}
