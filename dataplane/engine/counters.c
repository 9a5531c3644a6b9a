/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>

#include "dataplane/engine/counters.h"

#define AT(field) ((uint32_t)offsetof(struct engine_stats, field))
#define CORE(name, field, unit, help)                            \
	{                                                        \
		name, help, COUNTER_CORE, unit, AT(field), false \
	}
#define DROP(name, field)                                                  \
	{                                                                  \
		name, NULL, COUNTER_DROP, COUNTER_EVENTS, AT(field), false \
	}
#define STRAY(name, field)                                                \
	{                                                                 \
		name, NULL, COUNTER_DROP, COUNTER_EVENTS, AT(field), true \
	}
#define RC(name, event)                                                             \
	{                                                                           \
		name, NULL, COUNTER_TRANSPORT, COUNTER_EVENTS, AT(rc[event]), false \
	}
#define STRAY_RC(name, event)                                                      \
	{                                                                          \
		name, NULL, COUNTER_TRANSPORT, COUNTER_EVENTS, AT(rc[event]), true \
	}

const struct counter counters[] = {
	CORE("loops", loops, COUNTER_EVENTS, "Turns of the loop."),
	CORE("busy_loops", busy_loops, COUNTER_EVENTS, "Turns of the loop that found something to do."),
	CORE("busy", busy_cycles, COUNTER_CYCLES, "Time in turns of the loop that found something to do."),
	CORE("idle", idle_cycles, COUNTER_CYCLES, "Time in turns of the loop that found nothing to do."),
	CORE("sleeps", sleeps, COUNTER_EVENTS, "Times that it went to sleep (idle = sleep)."),
	CORE("gaps", gaps, COUNTER_EVENTS,
	     "Times that it was off its processor for more than 4 ms against its will."),
	CORE("gaps", gaps_ns, COUNTER_NS, "Time off its processor, beyond 4 ms each time."),
	CORE("work", work, COUNTER_EVENTS, "Work requests taken off rings."),
	CORE("completions", completions, COUNTER_EVENTS, "Entries stored in completion rings."),
	CORE("wakes", wakes, COUNTER_EVENTS, "Sleeping threads of applications woken."),
	CORE("local_ops", local_ops, COUNTER_EVENTS,
	     "Work requests carried out between queue pairs of this core."),
	CORE("local", local_bytes, COUNTER_BYTES, "Payload copied between queue pairs of this core."),
	CORE("rx_packets", rx_packets, COUNTER_EVENTS, "Frames received."),
	CORE("rx", rx_bytes, COUNTER_BYTES, "Bytes of frames received."),
	CORE("rx_chained", rx_chained, COUNTER_EVENTS, "Frames that came in several buffers."),
	CORE("tx_packets", tx_packets, COUNTER_EVENTS, "Frames sent."),
	CORE("tx", tx_bytes, COUNTER_BYTES, "Bytes of frames sent."),
	CORE("handed_over", handed_over, COUNTER_EVENTS,
	     "Frames given to the core that owns the queue pair."),
	CORE("moves", moves, COUNTER_EVENTS, "Queue pairs that came from another core."),
	CORE("tx_handed_over", tx_handed_over, COUNTER_EVENTS,
	     "Frames given to the first core, which has the queue of the port."),
	CORE("datagrams_sent", ud_sent, COUNTER_EVENTS, "Datagrams of UD queue pairs sent."),
	CORE("datagrams_received", ud_received, COUNTER_EVENTS, "Datagrams of UD queue pairs received."),
	CORE("esp_received", esp_received, COUNTER_EVENTS, "Packets of ESP received, authentic and new."),
	CORE("esp_sent", esp_sent, COUNTER_EVENTS, "Packets of ESP sent."),
	CORE("backpressure", backpressure, COUNTER_EVENTS, "Frames that had to wait for a port."),
	CORE("held", held, COUNTER_EVENTS, "Times that a user had to wait since it was above a ceiling."),
	DROP("short", drop[WIRE_DROP_SHORT]),
	DROP("vlan", drop[WIRE_DROP_VLAN]),
	DROP("ip", drop[WIRE_DROP_IP]),
	DROP("udp", drop[WIRE_DROP_UDP]),
	DROP("address", drop[WIRE_DROP_ADDRESS]),
	DROP("opcode", drop[WIRE_DROP_OPCODE]),
	DROP("length", drop[WIRE_DROP_LENGTH]),
	DROP("version", drop[WIRE_DROP_VERSION]),
	DROP("pkey", drop[WIRE_DROP_PKEY]),
	DROP("qpn", drop[WIRE_DROP_QPN]),
	DROP("icrc", drop[WIRE_DROP_ICRC]),
	STRAY("datagram_opcode", ud_drop[ENGINE_UD_OPCODE]),
	STRAY("datagram_address", ud_drop[ENGINE_UD_ADDRESS]),
	STRAY("datagram_qkey", ud_drop[ENGINE_UD_QKEY]),
	DROP("datagram_no_receive", ud_drop[ENGINE_UD_NO_RECEIVE]),
	DROP("datagram_length", ud_drop[ENGINE_UD_LENGTH]),
	DROP("datagram_busy", ud_drop[ENGINE_UD_BUSY]),
	DROP("esp_plain", esp_drop[ENGINE_ESP_PLAIN]),
	DROP("esp_length", esp_drop[ENGINE_ESP_LENGTH]),
	DROP("esp_spi", esp_drop[ENGINE_ESP_SPI]),
	DROP("esp_address", esp_drop[ENGINE_ESP_ADDRESS]),
	DROP("esp_replay", esp_drop[ENGINE_ESP_REPLAY]),
	DROP("esp_icv", esp_drop[ENGINE_ESP_ICV]),
	DROP("esp_limit", esp_drop[ENGINE_ESP_LIMIT]),
	DROP("esp_no_association", esp_drop[ENGINE_ESP_NO_SA]),
	STRAY("no_queue_pair", drop_no_qp),
	DROP("no_buffer", drop_no_mbuf),
	DROP("inbound_ring_full", drop_inbound),
	DROP("control_ring_full", drop_control),
	DROP("longer_than_buffer", drop_segments),
	DROP("transmit_ring_full", drop_tx_ring),
	DROP("completion_ring_full", cq_overflow),
	RC("retransmitted", RC_COUNT_RETRANSMIT),
	RC("timeouts", RC_COUNT_TIMEOUT),
	RC("nak_sequence_sent", RC_COUNT_NAK_SEQ_SENT),
	RC("nak_sequence_received", RC_COUNT_NAK_SEQ_RECEIVED),
	RC("nak_implied", RC_COUNT_NAK_IMPLIED),
	RC("rnr_sent", RC_COUNT_RNR_SENT),
	RC("rnr_received", RC_COUNT_RNR_RECEIVED),
	RC("nak_invalid_sent", RC_COUNT_NAK_INVALID_SENT),
	RC("nak_access_sent", RC_COUNT_NAK_ACCESS_SENT),
	RC("nak_operation_sent", RC_COUNT_NAK_OPERATION_SENT),
	RC("nak_fatal_received", RC_COUNT_NAK_FATAL_RECEIVED),
	RC("ack_sent", RC_COUNT_ACK_SENT),
	RC("duplicates", RC_COUNT_DUPLICATE),
	RC("out_of_sequence", RC_COUNT_OUT_OF_SEQUENCE),
	RC("retry_exceeded", RC_COUNT_RETRY_EXCEEDED),
	RC("rnr_exceeded", RC_COUNT_RNR_EXCEEDED),
	RC("cnp_sent", RC_COUNT_CNP_SENT),
	RC("cnp_received", RC_COUNT_CNP_RECEIVED),
	STRAY_RC("drop_state", RC_COUNT_DROP_STATE),
	STRAY_RC("drop_address", RC_COUNT_DROP_ADDRESS),
	STRAY_RC("drop_opcode", RC_COUNT_DROP_OPCODE),
	STRAY_RC("drop_response", RC_COUNT_DROP_RESPONSE),
	STRAY_RC("drop_replay", RC_COUNT_DROP_REPLAY),
	RC("drop_bounced", RC_COUNT_DROP_BOUNCED),
	RC("held", RC_COUNT_HELD),
	RC("bad_response", RC_COUNT_BAD_RESPONSE),
	RC("packed_sent", RC_COUNT_PACKED_SENT),
	RC("drop_packed", RC_COUNT_DROP_PACKED),
	RC("recognized", RC_COUNT_RECOGNIZED),
	{NULL, NULL, COUNTER_CORE, COUNTER_EVENTS, 0, false},
};

const char *const counters_operation[ENGINE_OPERATIONS] = {
	[ENGINE_OPERATION_SEND] = "send",         [ENGINE_OPERATION_WRITE] = "write",
	[ENGINE_OPERATION_READ] = "read",         [ENGINE_OPERATION_ATOMIC] = "atomic",
	[ENGINE_OPERATION_DATAGRAM] = "datagram",
};
