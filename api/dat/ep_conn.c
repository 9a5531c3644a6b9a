/* SPDX-License-Identifier: BSD-3-Clause */
/* Connect, disconnect, reset. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "dat/ep.h"

static uint32_t
max_private(const struct ia *ia)
{
	uint32_t max = one_client_info(ia->client)->limits.max_private_data;

	return max < ONE_PRIVATE_DATA_MAX ? max : ONE_PRIVATE_DATA_MAX;
}

DAT_RETURN
ep_check_private(const struct ia *ia, DAT_COUNT size, const void *data, DAT_RETURN bad_size,
		 DAT_RETURN bad_data)
{
	if (size < 0 || (uint32_t)size > max_private(ia))
		return BECAUSE(
			bad_size,
			"private_data_size = %d: the limits are 0 and %u; send the rest when connected", size,
			max_private(ia));
	return size > 0 && data == NULL
		       ? BECAUSE(bad_data,
				 "private_data = 0: it may not be null with private_data_size %d; give the data, or size 0",
				 size)
		       : DAT_SUCCESS;
}

static __attribute__((cold, noinline)) DAT_RETURN
bad_address(const struct sockaddr_storage *address, const void *host)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(address->ss_family, host, text, sizeof(text));
	return BECAUSE(
		DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
		"remote_ia_address = %s: no single host has this address; give that of the server's IA",
		text);
}

static __attribute__((cold, noinline)) DAT_RETURN
bad_family(int family)
{
	return BECAUSE(
		DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED),
		"remote_ia_address->sa_family = %d: the IA's port has no address of this family; give one of a family that `onesidectl show ports` lists",
		family);
}

/* Checks the remote address and converts it for the message (`out`) and the endpoint (`copy`). */
static DAT_RETURN
take_address(DAT_IA_ADDRESS_PTR address, struct one_qp_connect *out, struct sockaddr_storage *copy)
{
	sa_family_t family;

	if (address == NULL)
		return BAD_ARG(2);
	memcpy(&family, &address->sa_family, sizeof(family));
	if (family != AF_INET && family != AF_INET6)
		return bad_family(family);
	memset(copy, 0, sizeof(*copy));
	out->family = family;
	if (family == AF_INET) {
		struct sockaddr_in sin;

		memcpy(&sin, address, sizeof(sin));
		memcpy(out->addr, &sin.sin_addr, sizeof(sin.sin_addr));
		memcpy(copy, &sin, sizeof(sin));
		if (sin.sin_addr.s_addr == INADDR_ANY || sin.sin_addr.s_addr == INADDR_BROADCAST ||
		    IN_MULTICAST(ntohl(sin.sin_addr.s_addr)))
			return bad_address(copy, &sin.sin_addr);
	} else {
		struct sockaddr_in6 sin6;

		memcpy(&sin6, address, sizeof(sin6));
		memcpy(out->addr, &sin6.sin6_addr, sizeof(sin6.sin6_addr));
		memcpy(copy, &sin6, sizeof(sin6));
		if (IN6_IS_ADDR_UNSPECIFIED(&sin6.sin6_addr) || IN6_IS_ADDR_MULTICAST(&sin6.sin6_addr))
			return bad_address(copy, &sin6.sin6_addr);
	}
	return DAT_SUCCESS;
}

static DAT_RETURN
connect_errno(int error, int family)
{
	switch (error) {
	case -EACCES:
		return BECAUSE(
			BAD_ARG(3),
			"remote_conn_qual = not admitted: the data plane's configuration excludes it; give one from 1 to 65535 that it admits");
	case -EAFNOSUPPORT:
		return bad_family(family);
	case -EADDRNOTAVAIL:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		return DAT_ERROR(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
	default:
		return dat_errno(error, DAT_RESOURCE_TEP);
	}
}

uint16_t
ep_set_peer(struct ep *ep, const struct sockaddr_storage *remote, DAT_CONN_QUAL qual, bool active)
{
	static const struct sockaddr_storage none;
	uint16_t number;

	pthread_mutex_lock(&ep->o.ia->lock);
	number = (uint16_t)(one_load_alone(&ep->number) + 1);
	ep->active = active;
	ep->remote = remote != NULL ? *remote : none;
	ep->remote_qual = qual;
	one_store_alone(&ep->closing, false); /* the caller's ep_set_phase publishes both stores */
	one_store_alone(&ep->number, number);
	pthread_mutex_unlock(&ep->o.ia->lock);
	return number;
}

/* Common part of connect and dup_connect after the checks of their arguments. */
static DAT_RETURN
start_connect(struct ep *ep, DAT_IA_ADDRESS_PTR address, DAT_CONN_QUAL qual, DAT_TIMEOUT timeout,
	      DAT_COUNT size, const void *data)
{
	struct one_msg msg = {.type = ONE_MSG_QP_CONNECT};
	struct ia *ia = ep->o.ia;
	struct sockaddr_storage remote;
	DAT_RETURN ret = take_address(address, &msg.qp_connect, &remote);
	int error;

	if (ret != DAT_SUCCESS)
		return ret;
	if (qual == 0)
		return BECAUSE(
			BAD_ARG(3),
			"remote_conn_qual = 0: no PSP can listen on 0; give the qualifier of the server's PSP");
	if (!ep_move(ep, EP_UNCONNECTED, EP_CHANGING))
		return ep_state_error(ep_state(ep));
	msg.qp_connect.param.number = ep_set_peer(ep, &remote, qual, true);
	msg.qp_connect.qp = ep->qp.id;
	msg.qp_connect.service = qual;
	msg.qp_connect.timeout_us = timeout == DAT_TIMEOUT_INFINITE ? UINT64_MAX : timeout;
	msg.qp_connect.private_len = (uint16_t)size;
	if (size > 0)
		memcpy(msg.qp_connect.private_data, data, (size_t)size);
	/* Set the phase first: the event may precede the reply. */
	ep_set_phase(ep, EP_ACTIVE);
	error = one_call(ia->client, &msg, NULL, 0, NULL);
	if (error != 0) {
		ep_set_peer(ep, NULL, 0, false);
		ep_set_phase(ep, EP_UNCONNECTED);
	}
	return connect_errno(error, msg.qp_connect.family);
}

static DAT_RETURN
check_usable(const struct ep *ep, DAT_TIMEOUT timeout, DAT_RETURN bad_timeout)
{
	if (ep->conn_evd == NULL)
		return BECAUSE(
			BAD_HANDLE(EVD_CONN),
			"ep_handle = %p: the EP was created without a connect EVD, which receives the outcome; give dat_ep_create a connect_evd_handle",
			ep->o.handle);
	if (timeout == 0)
		return BECAUSE(
			bad_timeout,
			"timeout = 0: no reply can arrive in 0 us; give microseconds, or DAT_TIMEOUT_INFINITE");
	if (ep->pz == NULL)
		return BAD_STATE(EP_NOTREADY);
	if (ep_phase(ep) != EP_UNCONNECTED)
		return ep_state_error(ep_state(ep));
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address, DAT_CONN_QUAL remote_conn_qual,
		DAT_TIMEOUT timeout, DAT_COUNT private_data_size, const DAT_PVOID private_data,
		DAT_QOS quality_of_service, DAT_CONNECT_FLAGS connect_flags)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_RETURN ret;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	ret = check_usable(ep, timeout, BAD_ARG(4));
	if (ret != DAT_SUCCESS)
		return ret;
	if (((uint32_t)quality_of_service & ~0xfu) != 0)
		return BECAUSE(BAD_ARG(7), "quality_of_service = %#x: unknown bits; give DAT_QOS_BEST_EFFORT",
			       quality_of_service);
	if (((uint32_t)connect_flags & ~(uint32_t)DAT_CONNECT_MULTIPATH_FLAG) != 0)
		return BECAUSE(BAD_ARG(8), "connect_flags = %#x: unknown bits; give DAT_CONNECT_DEFAULT_FLAG",
			       connect_flags);
	if (quality_of_service != DAT_QOS_BEST_EFFORT || connect_flags != DAT_CONNECT_DEFAULT_FLAG)
		return BECAUSE(
			DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE),
			"quality_of_service = %#x, connect_flags = %#x: other qualities and multipathing are unsupported; give DAT_QOS_BEST_EFFORT and DAT_CONNECT_DEFAULT_FLAG",
			quality_of_service, connect_flags);
	ret = ep_check_private(ep->o.ia, private_data_size, private_data, BAD_ARG(5), BAD_ARG(6));
	if (ret != DAT_SUCCESS)
		return ret;
	return start_connect(ep, remote_ia_address, remote_conn_qual, timeout, private_data_size,
			     private_data);
}

DAT_RETURN
dapl_ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle, DAT_TIMEOUT timeout,
		    DAT_COUNT private_data_size, const DAT_PVOID private_data, DAT_QOS quality_of_service)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	struct ep *dup = handle_object(ep_dup_handle, DAT_HANDLE_TYPE_EP);
	struct sockaddr_storage remote;
	DAT_CONN_QUAL qual;
	DAT_RETURN ret;

	if (ep == NULL || dup == NULL || dup->o.ia != ep->o.ia)
		return BAD_HANDLE(EP);
	ret = check_usable(ep, timeout, BAD_ARG(3));
	if (ret != DAT_SUCCESS)
		return ret;
	if (ep_state(dup) != DAT_EP_STATE_CONNECTED)
		return ep_state_error(ep_state(dup));
	if (((uint32_t)quality_of_service & ~0xfu) != 0)
		return BAD_ARG(6);
	if (quality_of_service != DAT_QOS_BEST_EFFORT)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	ret = ep_check_private(ep->o.ia, private_data_size, private_data, BAD_ARG(4), BAD_ARG(5));
	if (ret != DAT_SUCCESS)
		return ret;
	pthread_mutex_lock(&ep->o.ia->lock);
	remote = dup->remote;
	qual = dup->active ? dup->remote_qual : 0;
	pthread_mutex_unlock(&ep->o.ia->lock);
	/* Only the connecting side knows a qualifier to connect to. */
	if (qual == 0)
		return BECAUSE(
			BAD_ARG(2),
			"ep_dup_handle = %p: the EP accepted its connection, so it has no qualifier to connect to; give an EP that called dat_ep_connect",
			ep_dup_handle);
	return start_connect(ep, (DAT_IA_ADDRESS_PTR)&remote, qual, timeout, private_data_size, private_data);
}

DAT_RETURN
dapl_ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS disconnect_flags)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	struct one_msg msg = {.type = ONE_MSG_QP_DISCONNECT};
	bool graceful = disconnect_flags == DAT_CLOSE_GRACEFUL_FLAG;
	DAT_EP_STATE state;
	int error;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (disconnect_flags != DAT_CLOSE_ABRUPT_FLAG && !graceful)
		return BECAUSE(
			BAD_ARG(2),
			"disconnect_flags = %#x: give DAT_CLOSE_ABRUPT_FLAG or DAT_CLOSE_GRACEFUL_FLAG",
			disconnect_flags);
	state = ep_state(ep);
	switch (state) {
	case DAT_EP_STATE_DISCONNECTED:
		return DAT_SUCCESS;
	case DAT_EP_STATE_DISCONNECT_PENDING:
		if (graceful)
			return DAT_SUCCESS;
		break;
	case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
	case DAT_EP_STATE_COMPLETION_PENDING:
		graceful = false;
		break;
	case DAT_EP_STATE_CONNECTED:
		break;
	default:
		return ep_state_error(state);
	}
	/* No requests are posted from here on.  The lock makes a post that has passed the check finish before
	 * the message. */
	lock_take(&ep->send_lock);
	one_store_alone(&ep->closing, true);
	lock_drop(&ep->send_lock);
	msg.qp_disconnect.qp = ep->qp.id;
	msg.qp_disconnect.graceful = graceful;
	error = one_call(ep->o.ia->client, &msg, NULL, 0, NULL);
	/* Success: the connection ended at the same time, or with the data plane. */
	if (error == -ENOTCONN || ia_lost(ep->o.ia))
		error = 0;
	return dat_errno(error, DAT_NO_SUBTYPE);
}

DAT_RETURN
dapl_ep_reset(DAT_EP_HANDLE ep_handle)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_EP_STATE state;
	uint32_t phase;
	int error;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	state = ep_state(ep);
	if (state == DAT_EP_STATE_UNCONNECTED)
		return DAT_SUCCESS;
	phase = ep_phase(ep);
	if (state != DAT_EP_STATE_DISCONNECTED || !ep_move(ep, (enum ep_phase)phase, EP_CHANGING))
		return ep_state_error(ep_state(ep));
	lock_take(&ep->send_lock);
	lock_take(&ep->recv_lock);
	error = one_qp_reset(&ep->qp);
	lock_drop(&ep->recv_lock);
	lock_drop(&ep->send_lock);
	if (error == 0)
		ep_set_peer(ep, NULL, 0, false);
	ep_set_phase(ep, error == 0 ? (uint32_t)EP_UNCONNECTED : phase);
	return dat_errno(error, DAT_RESOURCE_TEP);
}
