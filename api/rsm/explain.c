/* SPDX-License-Identifier: BSD-3-Clause */
/* With ONESIDE_DEBUG: reasons that refused calls print (client/explain.h) if no code nearer to the cause
 * noted one. */
#include "rsm/calls.h"

#include <stdio.h>
#include <string.h>

#include "client/explain.h"

#define TEXT_MAX 512

/* For each result: prefixes of the names of the argument at fault, in all calls that return the result,
 * separated by blanks; the reason and the remedy. */
static const struct {
	int result;
	const char *arguments, *text;
} reasons[] = {
	{RSMERR_BAD_CTLR_HNDL, "c",
	 "no live controller; give what rsm_get_controller stored, not yet released"},
	{RSMERR_BAD_SEG_HNDL, "memseg im_memseg barrier",
	 "no live segment of this kind; give what rsm_memseg_export_create or rsm_memseg_import_connect stored"},
	{RSMERR_BAD_LOCALMEM_HNDL, "local_hndl_p handle",
	 "no live handle; give what rsm_create_localmemory_handle stored"},
	{RSMERR_BAD_TOPOLOGY_PTR, "topology_data", "it may not be null; give the address of a pointer"},
	{RSMERR_BAD_BARRIER_PTR, "barrier", "it may not be null; give the address of a rsmapi_barrier_t"},
	{RSMERR_BAD_SGIO, "sg_io", "null, or a list in it is; fill rsm_scat_gath_t, all of it"},
	{RSMERR_BAD_SEGID, "segment_id", "it may not be null; give the address of an id, 0 to be given one"},
	{RSMERR_SEG_ALREADY_PUBLISHED, "memseg",
	 "it is published; rsm_memseg_export_republish changes the access list"},
	{RSMERR_SEG_NOT_PUBLISHED, "segment_id memseg",
	 "nothing is published so on that node; publish first, or try again"},
	{RSMERR_SEG_NOT_PUBLISHED_TO_NODE, "node_id",
	 "the segment's access list has no entry for this node; the exporter adds one by publish or republish"},
	{RSMERR_SEG_ALREADY_MAPPED, "im_memseg", "it is mapped; rsm_memseg_import_unmap first"},
	{RSMERR_SEG_STILL_MAPPED, "im_memseg", "it is mapped; rsm_memseg_import_unmap first"},
	{RSMERR_SEG_NOT_MAPPED, "im_memseg", "it is not mapped; rsm_memseg_import_map first"},
	{RSMERR_NOT_CREATOR, "memseg",
	 "the parent process made it; only that may, or make one in this process"},
	{RSMERR_BAD_ADDR, "vaddr datap local_vaddr",
	 "null, or not memory of this process with the rights that this needs; give what is allocated"},
	{RSMERR_BAD_MEM_ALIGNMENT, "vaddr datap offset",
	 "not aligned; begin at a multiple of the element, or of the page"},
	{RSMERR_BAD_OFFSET, "off", "outside the part that is mapped; stay in it, or map more"},
	{RSMERR_BAD_LENGTH, "size length rep_cnt", "0, or more than there is; stay inside the segment"},
	{RSMERR_BAD_ACL, "access_list",
	 "null with a length, more than 64 entries, or one with a node above 64 or a permission above 0666; mend it"},
	{RSMERR_RESERVED_SEGID, "segment_id", "reserved; publish under 0x400000 to 0x7fffffff, or 0"},
	{RSMERR_SEGID_IN_USE, "segment_id", "another segment of this node has it; choose another, or 0"},
	{RSMERR_BAD_MODE, "mode", "give RSM_BARRIER_MODE_EXPLICIT or RSM_BARRIER_MODE_IMPLICIT"},
	{RSMERR_BAD_PERMS, "perm", "no rights, or more than the connection was granted; connect with more"},
	{RSMERR_PERM_DENIED, "perm im_memseg",
	 "the segment's access list, or the connect, does not grant this; connect with the right, have the exporter grant it"},
	{RSMERR_BARRIER_UNINITIALIZED, "barrier im_memseg",
	 "in implicit mode transfers need a barrier; rsm_memseg_import_init_barrier first"},
	{RSMERR_BARRIER_NOT_OPENED, "barrier", "it is not open; rsm_memseg_import_open_barrier first"},
	{RSMERR_BARRIER_FAILURE, "barrier",
	 "a transfer of the span was lost with the connection; disconnect, connect, repeat it"},
	{RSMERR_CONN_ABORTED, "im_memseg memseg barrier",
	 "the exporter unpublished, ended or is not to be reached; disconnect, and connect again"},
	{RSMERR_REMOTE_NODE_UNREACHABLE, "node_id",
	 "no answer, or no such node; see [peer] in oneside.conf(5) of both nodes, and the network"},
	{RSMERR_CTLR_NOT_PRESENT, "name controller",
	 "no data plane answers, or it has no port of this name; start oneside-dataplane(8), or set ONESIDE_SOCKET"},
	{RSMERR_BAD_LIBRARY_VERSION, "name",
	 "the data plane is of another version; install both of one release"},
	{RSMERR_INSUFFICIENT_MEM, NULL,
	 "no memory, or the quota of it is used up; free some, or raise max_bytes_per_uid in oneside.conf(5)"},
	{RSMERR_INSUFFICIENT_RESOURCES, NULL,
	 "a limit of the data plane or of the process is reached; free segments, or raise it"},
	{RSMERR_POLLFD_IN_USE, "memseg im_memseg",
	 "its poll descriptor is out; rsm_memseg_release_pollfd first"},
	{RSMERR_REBIND_NOT_ALLOWED, "memseg",
	 "it was made without RSM_ALLOW_REBIND; give that to rsm_memseg_export_create"},
	{RSMERR_BAD_APPID, "appid",
	 "the segment id file has no entry of this name; add one to rsm.segmentid"},
	{RSMERR_BAD_CONF, "appid",
	 "the segment id file is missing or malformed; see $RSM_SEGMENTID_FILE or /etc/rsm/rsm.segmentid"},
	{RSMERR_MAP_FAILED, "im_memseg",
	 "the exporter is on another data plane, or its memory cannot be mapped; use put and get"},
};

static const struct one_argument *
find_argument(const struct one_argument *arguments, size_t count, const char *beginnings)
{
	size_t len;

	for (; beginnings != NULL && *beginnings != '\0'; beginnings += len + strspn(beginnings + len, " ")) {
		len = strcspn(beginnings, " ");
		for (size_t i = 0; i < count; i++) {
			if (strncmp(arguments[i].name, beginnings, len) == 0)
				return &arguments[i];
		}
	}
	return &arguments[0];
}

/* Prints a char pointer as text only if the argument is a name: caddr_t is a char pointer, too. */
static void
argument_text(const struct one_argument *argument, char *text, size_t size)
{
	struct one_argument shown = *argument;

	if (strcmp(shown.name, "name") != 0 && strcmp(shown.name, "appid") != 0 &&
	    shown.kind == ONE_ARGUMENT_TEXT)
		shown.kind = ONE_ARGUMENT_BITS;
	one_argument_text(&shown, text, size);
}

static void
explain(const char *function, int result, const struct one_argument *arguments, size_t count, char *text,
	size_t size)
{
	const char *cause = one_noted_cause();
	char value[128];

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].result != result)
			continue;
		argument_text(find_argument(arguments, count, reasons[i].arguments), value, sizeof(value));
		if (reasons[i].arguments == NULL && cause != NULL)
			snprintf(text, size, "%s, %s", value, cause);
		else
			snprintf(text, size, "%s: %s", value, reasons[i].text);
		return;
	}
	argument_text(&arguments[0], value, sizeof(value));
	snprintf(text, size, "%s: it cannot be done now; see %s(3RSM)", value, function);
}

static __attribute__((noinline)) int
tell(const char *function, int result, const struct one_argument *arguments, size_t count)
{
	char text[TEXT_MAX];

	if (result == RSM_SUCCESS || result == RSMERR_TIMEOUT || result == RSMERR_INTERRUPTED) {
		one_explain_nothing();
		return result;
	}
	if (one_noted((uint32_t)result) != NULL)
		snprintf(text, sizeof(text), "%s", one_noted((uint32_t)result));
	else
		explain(function, result, arguments, count, text, sizeof(text));
	one_explain(function, text, rsm_strerror(result));
	return result;
}

#define DEFINE(name, ...)                                                                               \
	int rsm_refused_##name(int result, ONE_PARAMETERS(__VA_ARGS__))                                 \
	{                                                                                               \
		const struct one_argument values[] = {ONE_ARGUMENTS(ONE_NAMES(__VA_ARGS__))};           \
                                                                                                        \
		return one_explaining                                                                   \
			       ? tell("rsm_" #name, result, values, sizeof(values) / sizeof(values[0])) \
			       : result;                                                                \
	}
RSM_CALLS(DEFINE, DEFINE)
