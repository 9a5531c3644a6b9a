/* SPDX-License-Identifier: BSD-3-Clause */
/* A program fragment that is C and C++: compiled, never run. */
#include <rsmapi.h>

int fragment(char *name);

int
fragment(char *name)
{
	rsmapi_controller_handle_t controller = 0;
	rsmapi_controller_attr_t attr;
	rsm_topology_t *topology = 0;
	rsm_memseg_export_handle_t out = 0;
	rsm_memseg_import_handle_t in = 0;
	rsmapi_access_entry_t list[1];
	rsmapi_barrier_t barrier;
	rsm_localmemory_handle_t memory = 0;
	rsm_scat_gath_t vector;
	rsm_memseg_id_t id = RSM_HPC_ID_BASE;
	rsm_barrier_mode_t mode;
	struct pollfd fd;
	void *address = 0;
	uint64_t word = 0;
	int sum = 0, count;

	sum += rsm_get_interconnect_topology(&topology);
	rsm_free_interconnect_topology(topology);
	sum += rsm_get_controller(name, &controller);
	sum += rsm_get_controller_attr(controller, &attr);
	list[0].ae_node = 1;
	list[0].ae_permission = RSM_PERM_RDWR;
	sum += rsm_memseg_export_create(controller, &out, address, 4096, RSM_ALLOW_REBIND | RSM_LOCK_OPS);
	sum += rsm_memseg_export_publish(out, &id, list, 1);
	sum += rsm_memseg_export_republish(out, list, 1);
	sum += rsm_memseg_export_rebind(out, address, 0, 4096);
	sum += rsm_memseg_import_connect(controller, 1, id, RSM_PERM_RDWR, &in);
	sum += rsm_memseg_import_init_barrier(in, RSM_BAR_DEFAULT, &barrier);
	sum += rsm_memseg_import_open_barrier(&barrier);
	sum += rsm_memseg_import_put64(in, 0, &word, 1);
	sum += rsm_memseg_import_get64(in, 0, &word, 1);
	sum += rsm_memseg_import_order_barrier(&barrier);
	sum += rsm_memseg_import_close_barrier(&barrier);
	sum += rsm_memseg_import_destroy_barrier(&barrier);
	sum += rsm_memseg_import_get_mode(in, &mode);
	sum += rsm_memseg_import_set_mode(in, RSM_BARRIER_MODE_EXPLICIT);
	vector.remote_handle = in;
	vector.flags = RSM_IMPLICIT_SIGPOST | RSM_SIG_POST_NO_ACCUMULATE;
	sum += rsm_memseg_import_putv(&vector);
	sum += rsm_memseg_import_getv(&vector);
	sum += rsm_memseg_import_map(in, &address, RSM_MAP_NONE, RSM_PERM_READ, 0, 4096);
	sum += rsm_memseg_import_unmap(in);
	sum += rsm_create_localmemory_handle(controller, &memory, (caddr_t)address, 4096);
	sum += rsm_free_localmemory_handle(controller, memory);
	sum += rsm_intr_signal_post((void *)in, RSM_SIGPOST_NO_ACCUMULATE);
	sum += rsm_intr_signal_wait((void *)out, -1);
	sum += rsm_memseg_get_pollfd((void *)out, &fd);
	fd.events = POLLRDNORM;
	sum += rsm_intr_signal_wait_pollfd(&fd, 1, 0, &count);
	sum += rsm_memseg_release_pollfd((void *)out);
	sum += rsm_memseg_import_disconnect(in);
	sum += rsm_memseg_export_unpublish(out);
	sum += rsm_memseg_export_destroy(out);
	return sum + rsm_release_controller(controller);
}
