/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Path MTUs of destinations to which routers have reported that a frame of ours was too long (RFC 1191, RFC
 * 8201), or to which a long packet was lost at each retry while the peer answered a DREQ: switches drop long
 * frames without a report.  An open connection keeps the path MTU that its ends agreed on; new connections
 * get a smaller one.
 *
 * A report counts only if it quotes a frame of an open connection, with its UDP source port.  So an attacker
 * who knows the two addresses has to guess 14 bits, and gains only smaller packets to one destination for
 * PMTU_NS.  A program whose peer ignores its long packets gains no more.
 */
#include <string.h>

#include "control/path/path.h"

#define PMTU_ENTRIES 256u
#define PMTU_NS (600 * NS_PER_S) /* then a larger path MTU is tried (RFC 1191, 6.3) */
#define PMTU_LEAST 256u
#define PMTU_ETHERNET 1500u
#define PMTU_ALWAYS 1280u

struct pmtu {
	struct wire_addr dst;
	uint64_t until;
	uint16_t port, mtu;
	uint32_t passes; /* largest packet in bytes, as reported */
};

static struct pmtu pmtu[PMTU_ENTRIES];
static uint32_t pmtu_next; /* index for the next new destination */
uint64_t path_mtu_reports;

static struct pmtu *
pmtu_find(const struct path_port *port, const struct wire_addr *dst)
{
	for (uint32_t i = 0; i < PMTU_ENTRIES; i++)
		if (pmtu[i].until > control.now && pmtu[i].port == port->index &&
		    wire_addr_equal(&pmtu[i].dst, dst))
			return &pmtu[i];
	return NULL;
}

/* Returns the largest path MTU whose packets have at most `mtu` bytes. */
static uint16_t
largest_within(uint32_t mtu)
{
	uint16_t largest = PMTU_LEAST;

	while (largest < 4096 && largest * 2 + ENGINE_PATH_OVERHEAD <= mtu)
		largest *= 2;
	return largest;
}

uint16_t
path_mtu_to(const struct path_port *port, const struct wire_addr *dst)
{
	const struct engine_port_info *info = port->info;
	const struct pmtu *known = pmtu_find(port, dst);
	uint16_t mtu = info->path_mtu;

	/* The MTU of the kernel's interface may have been reduced since the start. */
	if (info->interface_mtu != 0 && info->interface_mtu < info->mtu &&
	    largest_within(info->interface_mtu) < mtu)
		mtu = largest_within(info->interface_mtu);
	return known != NULL && known->mtu < mtu ? known->mtu : mtu;
}

uint16_t
path_link_mtu_to(const struct path_port *port, const struct wire_addr *dst)
{
	const struct engine_port_info *info = port->info;
	const struct pmtu *known = pmtu_find(port, dst);
	uint32_t mtu = info->mtu, overhead = engine_link_overhead();

	if (port->config->path_mtu != 0)
		return path_mtu_to(port, dst);
	if (info->interface_mtu != 0 && info->interface_mtu < mtu)
		mtu = info->interface_mtu;
	if (known != NULL && known->passes < mtu)
		mtu = known->passes;
	if (mtu < PMTU_LEAST + overhead)
		return PMTU_LEAST;
	mtu = (mtu - overhead) / CM_MTU_UNIT;
	return (uint16_t)((mtu < UINT8_MAX ? mtu : UINT8_MAX) * CM_MTU_UNIT);
}

/* Limits packets to `dst` to `mtu` bytes.  Returns NULL if no smaller path MTU results. */
static const struct pmtu *
limit_packets(const struct path_port *port, const struct wire_addr *dst, uint32_t mtu)
{
	uint16_t largest = largest_within(mtu);
	struct pmtu *known = pmtu_find(port, dst);
	bool news = known == NULL || largest < known->mtu;

	if (known == NULL)
		known = &pmtu[pmtu_next++ % PMTU_ENTRIES];
	/* A larger MTU does not raise an earlier value that is still valid. */
	*known = (struct pmtu){.dst = *dst,
			       .until = control.now + PMTU_NS,
			       .port = (uint16_t)port->index,
			       .mtu = news ? largest : known->mtu,
			       .passes = news || mtu < known->passes ? mtu : known->passes};
	return news ? known : NULL;
}

static void
report_path(const struct path_port *port, const struct pmtu *known, uint32_t mtu, const char *sign)
{
	log_of_others(
		warning,
		"event=path_mtu port=%s peer=%s mtu=%u text=\"%s larger packets: open connections break, new ones have a path MTU of %u\" remedy=\"raise the MTU of the path to %u, or set path_mtu = %u for the port\"\n",
		port->info->name, addr_text(&known->dst), mtu, sign, known->mtu, port->info->mtu, known->mtu);
}

void
path_too_big(uint16_t index, const struct wire_addr *dst, uint16_t udp_src_port, uint32_t mtu)
{
	struct path_port *port = &path_port[index];
	const struct pmtu *limited;

	if (index >= path_num_ports || mtu >= port->info->mtu || !path_sends(port, dst, udp_src_port))
		return;
	path_mtu_reports++;
	limited = limit_packets(port, dst, mtu);
	if (limited != NULL)
		report_path(port, limited, mtu, "a router on the path drops");
}

/* Each IPv6 link carries PMTU_ALWAYS bytes (RFC 8200), so a smaller packet was lost for another reason. */
void
path_loses(const struct path_port *port, const struct wire_addr *dst, uint32_t payload)
{
	uint32_t packet = payload + engine_link_overhead();
	uint32_t mtu = packet > PMTU_ETHERNET ? PMTU_ETHERNET : PMTU_ALWAYS;
	const struct pmtu *limited;

	if (packet <= PMTU_ALWAYS)
		return;
	path_mtu_reports++;
	limited = limit_packets(port, dst, mtu);
	if (limited != NULL)
		report_path(port, limited, mtu,
			    "short messages are answered and long ones are not, so the path seems to drop");
}

void
path_mtus_forget(void)
{
	memset(pmtu, 0, sizeof(pmtu));
	pmtu_next = 0;
}
