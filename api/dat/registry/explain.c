/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations of refused calls with ONESIDE_DEBUG (client/explain.h).  Handles are checked here for all
 * calls. Other reasons are noted where the call is refused, or follow from the code. */
#include "dat/registry/registry.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 512

/* Subtypes of DAT_INVALID_HANDLE, with the handle's type, the argument's name, and the call that creates such
 * handles.  The first entry of a type has the noun for all handles of the type. */
static const struct kind {
	DAT_UINT32 subtype;
	DAT_HANDLE_TYPE type;
	const char *argument, *noun, *maker;
} kinds[] = {
	{DAT_INVALID_HANDLE_IA, DAT_HANDLE_TYPE_IA, "ia_handle", "an IA", "dat_ia_open"},
	{DAT_INVALID_HANDLE_EP, DAT_HANDLE_TYPE_EP, "ep_handle", "an EP", "dat_ep_create"},
	{DAT_INVALID_HANDLE_LMR, DAT_HANDLE_TYPE_LMR, "lmr_handle", "an LMR", "dat_lmr_create"},
	{DAT_INVALID_HANDLE_RMR, DAT_HANDLE_TYPE_RMR, "rmr_handle", "an RMR", "dat_rmr_create"},
	{DAT_INVALID_HANDLE_PZ, DAT_HANDLE_TYPE_PZ, "pz_handle", "a PZ", "dat_pz_create"},
	{DAT_INVALID_HANDLE_PSP, DAT_HANDLE_TYPE_PSP, "psp_handle", "a PSP", "dat_psp_create"},
	{DAT_INVALID_HANDLE_RSP, DAT_HANDLE_TYPE_RSP, "rsp_handle", "an RSP", "dat_rsp_create"},
	{DAT_INVALID_HANDLE_CR, DAT_HANDLE_TYPE_CR, "cr_handle", "a connection request",
	 "DAT_CONNECTION_REQUEST_EVENT"},
	{DAT_INVALID_HANDLE_CNO, DAT_HANDLE_TYPE_CNO, "cno_handle", "a CNO", "dat_cno_create"},
	{DAT_INVALID_HANDLE_EVD_REQUEST, DAT_HANDLE_TYPE_EVD, "evd_handle", "an EVD", "dat_evd_create"},
	{DAT_INVALID_HANDLE_EVD_CR, DAT_HANDLE_TYPE_EVD, "evd_handle", "an EVD with DAT_EVD_CR_FLAG",
	 "dat_evd_create"},
	{DAT_INVALID_HANDLE_EVD_REQUEST, DAT_HANDLE_TYPE_EVD, "request_evd_handle",
	 "an EVD with DAT_EVD_DTO_FLAG", "dat_evd_create"},
	{DAT_INVALID_HANDLE_EVD_RECV, DAT_HANDLE_TYPE_EVD, "recv_evd_handle", "an EVD with DAT_EVD_DTO_FLAG",
	 "dat_evd_create"},
	{DAT_INVALID_HANDLE_EVD_CONN, DAT_HANDLE_TYPE_EVD, "connect_evd_handle",
	 "an EVD with DAT_EVD_CONNECTION_FLAG", "dat_evd_create"},
	{DAT_INVALID_HANDLE_EVD_ASYNC, DAT_HANDLE_TYPE_EVD, "async_evd_handle",
	 "an EVD with DAT_EVD_ASYNC_FLAG", "dat_evd_create"},
	{DAT_INVALID_HANDLE_SRQ, DAT_HANDLE_TYPE_SRQ, "srq_handle", "an SRQ", "dat_srq_create"},
};

/* Reasons of other refusals.  An entry of type and subtype takes precedence over an entry of the type alone.
 */
static const struct {
	DAT_UINT32 code;
	const char *text;
} reasons[] = {
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_UNCONNECTED,
	 "state = UNCONNECTED: this needs a connection; connect or accept, and wait for DAT_CONNECTION_EVENT_ESTABLISHED"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_ACTCONNPENDING,
	 "state = ACTIVE_CONNECTION_PENDING: the connect has not been answered; wait for its event on the connect EVD"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_PASSCONNPENDING,
	 "state = PASSIVE_CONNECTION_PENDING: a request waits for an answer; call dat_cr_accept or dat_cr_reject"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_TENTCONNPENDING,
	 "state = TENTATIVE_CONNECTION_PENDING: a request waits for an answer; call dat_cr_accept or dat_cr_reject"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_COMPLPENDING,
	 "state = COMPLETION_PENDING: the accept is not complete; wait for DAT_CONNECTION_EVENT_ESTABLISHED"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_CONNECTED,
	 "state = CONNECTED: the endpoint has a connection; dat_ep_disconnect and dat_ep_reset first, or use another"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_DISCONNECTED,
	 "state = DISCONNECTED: the connection has ended; take what is in the EVDs, then dat_ep_reset or dat_ep_free"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_DISCPENDING,
	 "state = DISCONNECT_PENDING: the connection is ending; wait for DAT_CONNECTION_EVENT_DISCONNECTED"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_RESERVED,
	 "state = RESERVED: the endpoint belongs to an RSP; dat_rsp_free first, or use another"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EP_NOTREADY,
	 "state = UNCONFIGURED: the endpoint has no PZ; give one to dat_ep_create or by dat_ep_modify"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_CNO_IN_USE,
	 "state = in use: EVDs refer to the CNO, or a thread waits on it; free those first"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_CNO_DEAD,
	 "state = dead: the CNO, or its IA, ended during the wait; do not use it any more"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_UNWAITABLE,
	 "state = unwaitable: dat_evd_set_unwaitable was called; call dat_evd_clear_unwaitable"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_IN_USE,
	 "state = in use: endpoints or service points refer to the EVD; free those first"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_WAITER,
	 "state = waited on: another thread is in dat_evd_wait; one thread may use an EVD at a time"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_CONFIG_NOTIFY,
	 "state = unsignalled: endpoints of the EVD suppress notifications, which requires threshold 1; wait for one event, or create the endpoints with other completion flags"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_EVD_CONFIG_SOLICITED,
	 "state = solicited: endpoints of the EVD notify of solicited completions only, which requires threshold 1; wait for one event, or create the endpoints with other completion flags"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_IA_IN_USE,
	 "state = in use: objects of the IA are left; free them, or close with DAT_CLOSE_ABRUPT_FLAG"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_LMR_IN_USE,
	 "state = in use: an RMR is bound to the LMR; unbind it (dat_rmr_bind of length 0) or free it"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_PZ_IN_USE,
	 "state = in use: endpoints, LMRs, RMRs or SRQs refer to the PZ; free those first"},
	{DAT_INVALID_STATE | DAT_INVALID_STATE_SRQ_IN_USE,
	 "state = in use: endpoints take their receives from the SRQ; free those first"},
	{DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_MEMORY, "memory = 0: no memory left; free some"},
	{DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_CREDITS,
	 "queue = full: the limit of outstanding requests is reached; dequeue completions before posting more, or create the queue with larger max_request_dtos or max_recv_dtos"},
	{DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_TEVD,
	 "queue length or EVDs = too many: the data plane allows no more; see max_evds and max_evd_qlen of dat_ia_query, and max_cq_entries in oneside.conf(5)"},
	{DAT_INSUFFICIENT_RESOURCES | DAT_RESOURCE_MEMORY_REGION,
	 "memory = too much: the data plane allows no more; see max_mr_bytes and max_bytes_per_uid in oneside.conf(5)"},
	{DAT_CONN_QUAL_IN_USE,
	 "conn_qual = in use: another service point listens on it; choose another, or call dat_psp_create_any"},
	{DAT_CONN_QUAL_UNAVAILABLE,
	 "conn_qual = none left: service points listen on all; free service points"},
	{DAT_MODEL_NOT_SUPPORTED,
	 "request = unsupported: this implementation does not have it; see udapl(7)"},
	{DAT_INVALID_ADDRESS | DAT_INVALID_ADDRESS_UNREACHABLE,
	 "remote_ia_address = unreachable: no route leads there from the port of this IA; see [route] in oneside.conf(5)"},
	{DAT_PROTECTION_VIOLATION,
	 "pz_handle = different: region, window and endpoint belong to different protection zones; create them in one"},
	{DAT_LENGTH_ERROR,
	 "length = unfit: local and remote lengths do not match, or exceed the endpoint's max_rdma_size; correct them"},
	{DAT_QUEUE_FULL, "evd = full: no room for the event; create a longer EVD, or dequeue events"},
	{DAT_PROVIDER_ALREADY_REGISTERED, "ia_name = registered: the name has a provider; remove that first"},
	{DAT_PROVIDER_IN_USE, "ia_name = in use: IAs of this provider are open; close them first"},
	{DAT_NOT_IMPLEMENTED,
	 "function = unsupported: the provider of this handle lacks it; use another provider"},
};

static const char *
reason_of(DAT_RETURN ret)
{
	const char *text = NULL;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].code == (ret & (DAT_TYPE_MASK | DAT_SUBTYPE_MASK)))
			return reasons[i].text;
		if (reasons[i].code == DAT_GET_TYPE(ret))
			text = reasons[i].text;
	}
	return text;
}

static const struct one_argument *
find_argument(const struct one_argument *arguments, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(arguments[i].name, name) == 0)
			return &arguments[i];
	}
	return NULL;
}

static const char *
noun_of(uint32_t type)
{
	size_t i = 0;

	while ((uint32_t)kinds[i].type != type)
		i++;
	return kinds[i].noun;
}

/* Explains why a handle that was passed is not of this kind. */
static void
judge_handle(const struct kind *kind, const struct one_argument *argument, char *text, size_t size)
{
	DAT_HANDLE handle = (DAT_HANDLE)(uintptr_t)one_argument_bits(argument);
	uint32_t found = handle_kind(handle);
	char value[64];

	one_argument_text(argument, value, sizeof(value));
	if (handle == DAT_HANDLE_NULL)
		snprintf(text, size, "%s: it is DAT_HANDLE_NULL; give %s, as %s made it", value, kind->noun,
			 kind->maker);
	else if (handle_slot(handle) == NULL)
		snprintf(text, size, "%s: this was never a handle; give %s, as %s made it", value, kind->noun,
			 kind->maker);
	else if (found == 0)
		snprintf(
			text, size,
			"%s: it was freed, or the parent created it before fork(); give a live handle of this process",
			value);
	else if (found != (uint32_t)kind->type + 1)
		snprintf(text, size, "%s: it is %s, not %s; give what %s made", value, noun_of(found - 1),
			 kind->noun, kind->maker);
	else
		snprintf(text, size,
			 "%s: it belongs to another IA, or was not made for this use; give %s of the same IA",
			 value, kind->noun);
}

static void
bad_handle(DAT_RETURN ret, const struct one_argument *arguments, size_t count, char *text, size_t size)
{
	static const struct kind any = {0, DAT_HANDLE_TYPE_IA, "dat_handle", "a handle", "dat_*_create"};
	const struct kind *kind = &any;
	const struct one_argument *argument = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && argument == NULL; i++) {
		if (kinds[i].subtype == DAT_GET_SUBTYPE(ret)) {
			kind = &kinds[i];
			argument = find_argument(arguments, count, kind->argument);
		}
	}
	judge_handle(kind, argument != NULL ? argument : &arguments[0], text, size);
}

static void
bad_argument(const char *function, DAT_RETURN ret, const struct one_argument *arguments, size_t count,
	     char *text, size_t size)
{
	size_t i = DAT_GET_SUBTYPE(ret) - DAT_INVALID_ARG1;
	char value[128];

	if (i >= count)
		i = 0;
	one_argument_text(&arguments[i], value, sizeof(value));
	if (arguments[i].size == sizeof(void *) && one_argument_bits(&arguments[i]) == 0)
		snprintf(text, size, "%s: it may not be null; give an address", value);
	else
		snprintf(text, size, "%s: not a value that this call takes; see %s(3DAT)", value, function);
}

/* Explains a refusal that has no noted reason.  A reason that names no argument is preceded by the call's
 * first argument. */
static void
explain_refusal(const char *function, DAT_RETURN ret, const struct one_argument *arguments, size_t count,
		char *text, size_t size)
{
	const char *reason = NULL, *cause = one_noted_cause();
	char object[128];

	switch (DAT_GET_TYPE(ret)) {
	case DAT_INVALID_HANDLE:
		bad_handle(ret, arguments, count, text, size);
		return;
	case DAT_INVALID_PARAMETER:
		bad_argument(function, ret, arguments, count, text, size);
		return;
	case DAT_INVALID_STATE:
		reason = reason_of(ret);
		break;
	default:
		reason = cause != NULL ? cause : reason_of(ret);
	}
	one_argument_text(&arguments[0], object, sizeof(object));
	if (reason == NULL)
		snprintf(text, size, "%s: it cannot be done now; see %s(3DAT)", object, function);
	else if (strncmp(reason, arguments[0].name, strlen(arguments[0].name)) == 0)
		snprintf(text, size, "%s", reason);
	else
		snprintf(text, size, "%s, %s", object, reason);
}

static bool
is_refusal(DAT_RETURN ret)
{
	return (ret & DAT_CLASS_ERROR) != 0 && DAT_GET_TYPE(ret) != DAT_ABORT &&
	       DAT_GET_TYPE(ret) != DAT_INTERRUPTED_CALL;
}

DAT_RETURN
explain_return(const char *function, DAT_RETURN ret, const struct one_argument *arguments, size_t count)
{
	const char *major = "", *minor = "";
	char text[TEXT_MAX], code[96];

	if (!one_explaining)
		return ret;
	if (!is_refusal(ret)) {
		one_explain_nothing();
		return ret;
	}
	if (one_noted(DAT_GET_TYPE(ret)) != NULL)
		snprintf(text, sizeof(text), "%s", one_noted(DAT_GET_TYPE(ret)));
	else
		explain_refusal(function, ret, arguments, count, text, sizeof(text));
	dat_strerror(ret, &major, &minor);
	snprintf(code, sizeof(code), minor[0] != '\0' ? "%s, %s" : "%s", major, minor);
	one_explain(function, text, code);
	return ret;
}
