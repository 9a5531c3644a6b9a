/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases of uDAPL 2.0 that the programs of dapl2-utils do not cover: private data with a refusal, and error
 * codes where 2.0 has other arguments.
 *
 *   net-dat2-cases SERVER-IA CLIENT-IA
 */
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dat2/udat.h>
#include <dat2/dat_ib_extensions.h>

#define SERVICE 45249
#define WAIT_US 20000000u

static const char refusal[] = "not today"; /* sent with its terminating zero */

static void
require(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "dat2: %s\n", what);
		exit(1);
	}
}
#define REQUIRE(condition) require(condition, #condition)

struct end {
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVD_HANDLE async, cr, conn, dto;
	DAT_IA_ATTR attr;
};

static void
open_end(struct end *end, char *name)
{
	memset(end, 0, sizeof(*end));
	REQUIRE(dat_ia_open(name, 8, &end->async, &end->ia) == DAT_SUCCESS);
	REQUIRE(dat_ia_query(end->ia, NULL, DAT_IA_FIELD_ALL, &end->attr, 0, NULL) == DAT_SUCCESS);
	REQUIRE(dat_pz_create(end->ia, &end->pz) == DAT_SUCCESS);
	REQUIRE(dat_evd_create(end->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &end->cr) == DAT_SUCCESS);
	REQUIRE(dat_evd_create(end->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &end->conn) ==
		DAT_SUCCESS);
	REQUIRE(dat_evd_create(end->ia, 16, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &end->dto) == DAT_SUCCESS);
}

/* Writes the address to `out`, then refuses twice: with private data, and without. */
static void
serve(int out, char *name)
{
	struct sockaddr_storage address = {0};
	DAT_PSP_HANDLE psp;
	struct end end;

	open_end(&end, name);
	REQUIRE(dat_psp_create(end.ia, SERVICE, end.cr, DAT_PSP_CONSUMER_FLAG, &psp) == DAT_SUCCESS);
	memcpy(&address, end.attr.ia_address_ptr, sizeof(struct sockaddr_in));
	REQUIRE(write(out, &address, sizeof(address)) == sizeof(address));
	for (int round = 0; round < 2; round++) {
		DAT_CR_HANDLE cr;
		DAT_EVENT event;
		DAT_COUNT more;

		REQUIRE(dat_evd_wait(end.cr, WAIT_US, 1, &event, &more) == DAT_SUCCESS);
		REQUIRE(event.event_number == DAT_CONNECTION_REQUEST_EVENT);
		REQUIRE(event.event_data.cr_arrival_event_data.truncate_flag == DAT_FALSE);
		cr = event.event_data.cr_arrival_event_data.cr_handle;
		REQUIRE(dat_cr_reject(cr, 1 << 20, (DAT_PVOID)(uintptr_t)refusal) ==
			(DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2));
		REQUIRE(dat_cr_reject(cr, 1, NULL) ==
			(DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG3));
		REQUIRE(dat_cr_reject(cr, round == 0 ? sizeof(refusal) : 0, (DAT_PVOID)(uintptr_t)refusal) ==
			DAT_SUCCESS);
	}
	REQUIRE(dat_psp_free(psp) == DAT_SUCCESS);
	REQUIRE(dat_ia_close(end.ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
}

static void
be_refused(struct end *end, struct sockaddr *address, int expected)
{
	DAT_CONNECTION_EVENT_DATA *data;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;
	DAT_COUNT more;

	REQUIRE(dat_ep_create(end->ia, end->pz, end->dto, end->dto, end->conn, NULL, &ep) == DAT_SUCCESS);
	REQUIRE(dat_ep_connect(ep, address, SERVICE, WAIT_US, 0, NULL, DAT_QOS_BEST_EFFORT,
			       DAT_CONNECT_DEFAULT_FLAG) == DAT_SUCCESS);
	REQUIRE(dat_evd_wait(end->conn, WAIT_US, 1, &event, &more) == DAT_SUCCESS);
	REQUIRE(event.event_number == DAT_CONNECTION_EVENT_PEER_REJECTED);
	data = &event.event_data.connect_event_data;
	REQUIRE(data->ep_handle == ep);
	REQUIRE(data->private_data_size == expected);
	REQUIRE(expected == 0 || memcmp(data->private_data, refusal, sizeof(refusal)) == 0);
	REQUIRE(dat_ep_free(ep) == DAT_SUCCESS);
}

/* Returns NULL if the provider does not list the attribute. */
static const char *
attribute(const DAT_PROVIDER_ATTR *provider, const char *name)
{
	for (int i = 0; i < provider->num_provider_specific_attr; i++) {
		if (strcmp(provider->provider_specific_attr[i].name, name) == 0)
			return provider->provider_specific_attr[i].value;
	}
	return NULL;
}

static void
check_arguments(struct end *end)
{
	static const DAT_NAMED_ATTR listed[] = {{"DAT_IB_RDMA_READ", "TRUE"},
						{"DAT_IB_CONNECTIVITY_MODE", "DIRECT"},
						{DAT_IB_ATTR_IMMED_DATA, "TRUE"},
						{DAT_IB_ATTR_FETCH_AND_ADD, "TRUE"}};
	static char page[4096];
	DAT_REGION_DESCRIPTION region = {.for_va = page};
	const DAT_EP_ATTR datagrams = {.service_type = (DAT_SERVICE_TYPE)DAT_IB_SERVICE_TYPE_UD,
				       .max_recv_dtos = 1,
				       .max_request_dtos = 1,
				       .max_recv_iov = 1,
				       .max_request_iov = 1};
	DAT_PROVIDER_ATTR provider;
	DAT_LMR_HANDLE lmr;
	DAT_EP_HANDLE ep;

	REQUIRE(dat_lmr_create(end->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(page), end->pz,
			       DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB, &lmr, NULL, NULL, NULL,
			       NULL) == (DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED));
	REQUIRE(dat_lmr_create(end->ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof(page), end->pz,
			       DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, NULL, NULL, NULL, NULL,
			       NULL) == (DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG8));
	REQUIRE(dat_ep_create(end->ia, end->pz, end->dto, end->dto, end->conn, &datagrams, &ep) ==
		(DAT_CLASS_ERROR | DAT_MODEL_NOT_SUPPORTED));
	REQUIRE(dat_ia_query(end->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &provider) == DAT_SUCCESS);
	REQUIRE(attribute(&provider, DAT_IB_ATTR_UD) == NULL);
	/* Programs choose by these attributes; dtest chooses its phases. */
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
		const char *value = attribute(&provider, listed[i].name);

		REQUIRE(value != NULL && strcmp(value, listed[i].value) == 0);
	}
	REQUIRE(dat_evd_dequeue(end->dto, NULL) ==
		(DAT_CLASS_ERROR | DAT_INVALID_PARAMETER | DAT_INVALID_ARG2));
}

int
main(int argc, char **argv)
{
	struct sockaddr_storage address;
	struct end end;
	int fd[2], status;
	pid_t server;

	if (argc != 3 || pipe(fd) < 0)
		return 2;
	server = fork();
	if (server == 0) {
		serve(fd[1], argv[1]);
		return 0;
	}
	close(fd[1]);
	REQUIRE(read(fd[0], &address, sizeof(address)) == sizeof(address));
	open_end(&end, argv[2]);
	be_refused(&end, (struct sockaddr *)&address, sizeof(refusal));
	be_refused(&end, (struct sockaddr *)&address, 0);
	check_arguments(&end);
	REQUIRE(dat_ia_close(end.ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS);
	REQUIRE(waitpid(server, &status, 0) == server && status == 0);
	return 0;
}
