#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests two queue pairs of device p0, connected out of band: one stops in SQD and resumes, the other revokes access flags."""

import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

LOOKS = 2000  # number of polls for a completion that must not come
REMOTE = e.IBV_ACCESS_REMOTE_WRITE


def need(good, what):
    if not good:
        sys.exit("sqd.py: " + what)


def connect(qp, peer, gid):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = REMOTE
    attr.dest_qp_num = peer.qp_num
    attr.path_mtu = e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer = 12
    attr.timeout, attr.retry_cnt, attr.rnr_retry = 14, 7, 7
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=0), is_global=1, port_num=1)
    qp.to_rts(attr)


def await_completion(cq):
    n = 0
    while n == 0:
        n, wcs = cq.poll(1)
    return wcs[0]


def main():
    context = Context(name="p0")
    pd, cq = PD(context), CQ(context, 10)
    memory = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | REMOTE)
    init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4), sq_sig_all=1)
    first, second = QP(pd, init), QP(pd, init)
    gid = context.query_gid(1, 0)
    connect(first, second, gid)
    connect(second, first, gid)

    def write(wr_id):
        wr = SendWR(wr_id, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(memory.buf, 8, memory.lkey)],
                    send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_rdma(memory.rkey, memory.buf + 2048)
        first.post_send(wr)

    stop = QPAttr(qp_state=e.IBV_QPS_SQD, cur_qp_state=e.IBV_QPS_RTS)
    stop.en_sqd_async_notify = 1
    first.modify(stop, e.IBV_QP_STATE | e.IBV_QP_EN_SQD_ASYNC_NOTIFY)
    event = context.get_async_event()
    need(event.event_type == e.IBV_EVENT_SQ_DRAINED, f"event {event.event_type} instead of SQ_DRAINED")
    event.ack()
    attr, _ = first.query(e.IBV_QP_STATE)
    need(attr.qp_state == e.IBV_QPS_SQD and attr.sq_draining == 0, "the state is not SQD, drained")
    write(1)
    need(not any(cq.poll(1)[0] for _ in range(LOOKS)), "a request was begun in SQD")
    first.modify(QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)
    wc = await_completion(cq)
    need((wc.wr_id, wc.status) == (1, e.IBV_WC_SUCCESS), f"request {wc.wr_id} after SQD: status {wc.status}")

    attr = QPAttr()
    attr.qp_access_flags = 0
    second.modify(attr, e.IBV_QP_ACCESS_FLAGS)
    write(2)
    wc = await_completion(cq)
    need((wc.wr_id, wc.status) == (2, e.IBV_WC_REM_INV_REQ_ERR), f"a WRITE without the right: status {wc.status}")


if __name__ == "__main__":
    main()
