/* SPDX-License-Identifier: BSD-3-Clause */
/* IB service IDs of uDAPL connection qualifiers and RSM segments. */
#ifndef CONTROL_SERVICE_H
#define CONTROL_SERVICE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm.h"

/* True in rdma_cm's IP port spaces, where a REQ's private data begins with the IP header. */
static inline bool
service_is_ip(uint64_t service)
{
	return service >> 24 == 0x01;
}

static inline bool
service_is_tcp(uint64_t service)
{
	return service >> 16 == CM_SERVICE_TCP(0) >> 16;
}

/* True in the port space of RSM segments, where only the data plane itself listens and connects. */
static inline bool
service_is_rsm(uint64_t service)
{
	return service >> 32 == CM_SERVICE_RSM(0) >> 32;
}

/* Converts a connection qualifier.  Returns 0, or -EACCES if the qualifier is reserved. */
static inline int
service_from_qual(uint64_t qual, uint64_t *service)
{
	*service = qual <= UINT16_MAX ? CM_SERVICE_TCP(qual) : qual;
	return service_is_rsm(*service) ? -EACCES : 0;
}

static inline uint64_t
service_to_qual(uint64_t service)
{
	return service_is_tcp(service) ? (service & UINT16_MAX) : service;
}

/* Returns the port number, as of a socket; 0 if the service has none. */
static inline uint16_t
service_port(uint64_t service)
{
	return service_is_ip(service) ? (uint16_t)service : 0;
}

#endif
