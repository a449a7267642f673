# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Buffers whose memory the provider chooses, handles for memory of the
# application, and the MRs that are registered from either or by attributes.
# The plain MRs are in mr.pyx.
#
# An MR must go before the buffer that it lies in, and that before the PD. So
# each keeps the next alive by a reference and is known to it by a weak one, and
# the garbage collector may not take that reference away (no_gc_clear) while the
# C object is there.

import weakref

cimport cython
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from pyverbs.base import PyverbsRDMAErrno
cimport pyverbs.libibverbs_enums as e


@cython.no_gc_clear
cdef class Buf(PyverbsCM):
    """
    Memory that suits the device of a PD (ibv_buf). It is allocated in the
    c'tor, and freed by close() after the MRs that are registered from it.
    """
    def __init__(self, PD pd not None, size):
        """
        Allocates page-aligned, zero-filled memory.
        :param pd: The PD or ParentDomain that the buffer belongs to
        :param size: Bytes wanted, at least 1
        :return: The newly created Buf on success
        """
        super().__init__()
        # An inheriting class may have set up self.buf.
        if self.buf == NULL:
            self.addr = ibv_alloc_buf(pd.pd, size, &self.buf)
            if self.addr == NULL:
                raise PyverbsRDMAErrno(f'Failed to allocate a buffer of size {size}')
        self.size = size
        self.pd = pd
        self.mrs = weakref.WeakSet()
        pd.bufs.add(self)
        self.logger.debug(f'Created {self.__class__.__name__} of size {size}')

    # There is no MR any more: it would have kept the buffer.
    def __dealloc__(self):
        self.free()

    cpdef close(self):
        """
        Closes the MRs that are registered from the buffer, and the buffer.
        If an MR cannot be closed, neither is the buffer.
        :return: None
        """
        if self.buf != NULL:
            for mr in list(self.mrs):
                mr.close()
            self.free()

    cdef free(self):
        if self.buf != NULL:
            self.logger.debug(f'Closing {self.__class__.__name__}')
            self.free_handle()
            self.buf = NULL
            self.addr = NULL
            self.size = 0
            self.pd = None

    cdef free_handle(self):
        ibv_free_buf(self.buf)

    def export_dmabuf_fd(self):
        """
        Exports the DMA-buf that backs the buffer; its offset 0 is addr.
        :return: A new file descriptor, which the caller closes
        """
        fd = ibv_export_buf_dmabuf_fd(self.buf)
        if fd < 0:
            raise PyverbsRDMAErrno('Failed to export the DMA-buf of a buffer')
        return fd

    @property
    def buf(self):
        """The ibv_buf handle, as a number; 0 when the buffer is closed"""
        return <uintptr_t>self.buf

    @property
    def addr(self):
        """The address of the memory; 0 when the buffer is closed"""
        return <uintptr_t>self.addr

    @property
    def size(self):
        """The bytes asked for; 0 when the buffer is closed"""
        return self.size

    def __str__(self):
        print_format = '{:22}: {:<20}\n'
        return f'{self.__class__.__name__}:\n' + \
               print_format.format('addr', <uintptr_t>self.addr) + \
               print_format.format('size', self.size)


@cython.no_gc_clear
cdef class UserBuf(Buf):
    """
    A handle for memory that the user owns. Closing it leaves the memory alone,
    which the user must keep mapped until then.
    """
    def __init__(self, PD pd not None, addr, size, dmabuf_fd=-1):
        """
        Makes a handle; allocates no memory.
        :param pd: The PD or ParentDomain that the handle belongs to
        :param addr: Where the memory starts
        :param size: Its bytes, at least 1
        :param dmabuf_fd: A DMA-buf that is mapped at addr from its offset 0,
                          which the user may close; -1 if there is none
        :return: The newly created UserBuf on success
        """
        self.buf = ibv_alloc_user_buf(pd.pd, <void*><uintptr_t>addr, size,
                                      dmabuf_fd)
        if self.buf == NULL:
            raise PyverbsRDMAErrno(f'Failed to make a handle for {size} bytes at {addr}')
        self.addr = <void*><uintptr_t>addr
        super().__init__(pd, size)

    cdef free_handle(self):
        ibv_free_user_buf(self.buf)


@cython.no_gc_clear
cdef class MREx(MR):
    """
    An MR that is described by attributes: ibv_reg_mr_ex(). It allocates no
    memory of its own.
    """
    def __init__(self, PD pd not None, length=0, access=0, Buf buf=None,
                 address=None, iova=None, fd=None, fd_offset=None, comp_mask=0):
        """
        Registers an MR by address, by a range of a DMA-buf (fd, fd_offset and
        iova), or by a range of a buffer (buf and address). An attribute whose
        argument is None is absent.
        :param pd: The PD of the MR; with buf, the one that buf belongs to
        :param length: Length (in bytes) of the MR
        :param access: Access flags, see ibv_access_flags enum
        :param buf: The Buf or UserBuf that address lies in
        :param address: Start of the memory
        :param iova: Start of the MR as the device sees it
        :param fd: File descriptor of a DMA-buf
        :param fd_offset: Byte offset from the beginning of the DMA-buf
        :param comp_mask: Bits of ibv_mr_init_attr_mask beside those that the
                          other arguments stand for
        :return: The newly created MREx on success
        """
        cdef ibv_mr_init_attr attr

        memset(&attr, 0, sizeof(attr))
        attr.length = length
        attr.access = access
        attr.comp_mask = comp_mask
        if buf is not None:
            attr.comp_mask |= e.IBV_REG_MR_MASK_BUF
            attr.buf = buf.buf
        if address is not None:
            attr.comp_mask |= e.IBV_REG_MR_MASK_ADDR
            attr.addr = <void*><uintptr_t>address
        if iova is not None:
            attr.comp_mask |= e.IBV_REG_MR_MASK_IOVA
            attr.iova = iova
        if fd is not None:
            attr.comp_mask |= e.IBV_REG_MR_MASK_FD
            attr.fd = fd
        if fd_offset is not None:
            attr.comp_mask |= e.IBV_REG_MR_MASK_FD_OFFSET
            attr.fd_offset = fd_offset
        self.mr = ibv_reg_mr_ex(pd.pd, &attr)
        self.set_up(pd, buf, address or 0, length, access)

    cdef set_up(self, PD pd, Buf source, address, length, access):
        """
        What follows the registration, or its failure.
        """
        if self.mr == NULL:
            raise PyverbsRDMAErrno(f'Failed to register a MR. length: {length}, '
                                   f'access flags: {access}')
        MR.__init__(self, pd, length, access)
        self.buf = <void*><uintptr_t>address
        self.is_user_addr = True
        self.pd = pd
        pd.add_ref(self)
        self.source = source
        if source is not None:
            source.mrs.add(self)
        self.logger.debug(f'Registered {self.__class__.__name__}. Length: {length}, '
                          f'access flags {access}')

    # Not left to the parent, which comes when source is gone.
    def __dealloc__(self):
        self.close()

    cpdef close(self):
        """
        Deregisters the MR; its memory stays as it is.
        :return: None
        """
        # Comes once more from the parent's dealloc, when source is gone.
        if self.mr != NULL:
            MR.close(self)
            self.source = None


@cython.no_gc_clear
cdef class BufMR(MREx):
    """
    An MR over a range of a buffer: ibv_reg_buf_mr()
    """
    def __init__(self, PD pd not None, Buf buf not None, length, access,
                 offset=0):
        """
        Registers a range of a buffer.
        :param pd: The PD that the buffer belongs to
        :param buf: The Buf or UserBuf
        :param length: Length (in bytes) of the MR
        :param access: Access flags, see ibv_access_flags enum
        :param offset: Byte offset of the MR from the beginning of the buffer
        :return: The newly created BufMR on success
        """
        address = <uintptr_t>buf.addr + offset
        self.mr = ibv_reg_buf_mr(pd.pd, buf.buf, <void*><uintptr_t>address,
                                 length, access)
        self.set_up(pd, buf, address, length, access)
