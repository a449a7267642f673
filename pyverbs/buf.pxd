# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The verbs for buffers and for extensible registration, and the classes over
# them. The code of the classes is in buf.pyx, constants are in
# libibverbs_enums.pxd.

#cython: language_level=3

from libc.stdint cimport uint64_t

from pyverbs.base cimport PyverbsCM
from pyverbs.mr cimport MR
from pyverbs.pd cimport PD
cimport pyverbs.libibverbs as v


cdef extern from 'infiniband/verbs.h':

    cdef struct ibv_buf:
        pass

    cdef struct ibv_mr_init_attr:
        size_t      length
        int         access
        uint64_t    comp_mask
        uint64_t    iova
        void        *addr
        int         fd
        uint64_t    fd_offset
        ibv_buf     *buf

    void *ibv_alloc_buf(v.ibv_pd *pd, size_t size, ibv_buf **buf)
    void ibv_free_buf(ibv_buf *buf)
    ibv_buf *ibv_alloc_user_buf(v.ibv_pd *pd, void *addr, size_t size,
                                int dmabuf_fd)
    void ibv_free_user_buf(ibv_buf *buf)
    int ibv_export_buf_dmabuf_fd(ibv_buf *buf)
    v.ibv_mr *ibv_reg_mr_ex(v.ibv_pd *pd, ibv_mr_init_attr *mr_init_attr)
    v.ibv_mr *ibv_reg_buf_mr(v.ibv_pd *pd, ibv_buf *buf, void *addr,
                             size_t length, int access)


cdef class Buf(PyverbsCM):
    cdef ibv_buf *buf
    cdef void *addr
    cdef size_t size
    cdef object pd
    cdef object mrs
    cdef free(self)
    cdef free_handle(self)

cdef class UserBuf(Buf):
    pass

cdef class MREx(MR):
    cdef Buf source
    cdef set_up(self, PD pd, Buf source, address, length, access)

cdef class BufMR(MREx):
    pass
