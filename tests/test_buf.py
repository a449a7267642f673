# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
Test module for pyverbs' buf module: buffers, handles for memory of the user,
and the MRs that are registered from them or by attributes. IBV_BUF_BACKING
chooses what the buffers are made of; the tests hold for any backing. The plain
MRs are tested in test_mr.
"""
import unittest
import errno
import fcntl
import gc
import mmap
import os
import struct
import weakref

from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
from tests.base import PyverbsAPITestCase, RDMATestCase, RCResources
from pyverbs.buf import Buf, UserBuf, BufMR, MREx
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, SendWR
import pyverbs.mem_alloc as mem
import pyverbs.enums as e
import tests.utils as u

PAGE_SIZE = mmap.PAGESIZE
LOCAL_WRITE = e.IBV_ACCESS_LOCAL_WRITE
REMOTE_ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | \
                e.IBV_ACCESS_REMOTE_READ
# One that is no page, one that is, one that may be of huge pages
SIZES = [1, PAGE_SIZE, 3 * PAGE_SIZE + 1, 4 << 20]
# From linux/udmabuf.h: the ioctl and the only flag
UDMABUF_CREATE = 0x40187542
UDMABUF_FLAGS_CLOEXEC = 1


@u.skip_unsupported
def create_buf(pd, size=2 * PAGE_SIZE):
    return Buf(pd, size)


@u.skip_unsupported
def create_buf_mr(pd, buf, length, access=LOCAL_WRITE, offset=0):
    return BufMR(pd, buf, length, access, offset)


def create_cc_parent_domain(ctx, pd):
    """
    Creates a parent domain whose buffers may be shared with the host.
    """
    flag = e.IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC
    attr = ParentDomainInitAttr(pd=pd, comp_mask=flag)
    try:
        return ParentDomain(ctx, attr=attr)
    except PyverbsRDMAError as ex:
        if ex.error_code in [errno.EOPNOTSUPP, errno.EINVAL]:
            raise unittest.SkipTest('Parent Domain with unprotected memory is not supported')
        if ex.error_code == errno.ENOENT and needs_shared(ctx):
            raise unittest.SkipTest('There is no heap of shared memory')
        raise ex


def needs_shared(ctx):
    return bool(ctx.query_device_ex().device_cap_flags_ex & e._IBV_DEVICE_CC_DMA_BOUNCE)


def export_or_skip(buf):
    try:
        return buf.export_dmabuf_fd()
    except PyverbsRDMAError as ex:
        if ex.error_code == errno.ENODATA:
            raise unittest.SkipTest('Buffers are not DMA-bufs, see IBV_BUF_BACKING')
        raise ex


def create_udmabuf(size):
    """
    Creates a DMA-buf that does not come from the device.
    :return: Its file descriptor
    """
    try:
        dev = os.open('/dev/udmabuf', os.O_RDWR | os.O_CLOEXEC)
    except OSError as ex:
        raise unittest.SkipTest(f'There is no udmabuf device ({ex})')
    memfd = os.memfd_create('test_buf', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(memfd, size)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        request = struct.pack('IIQQ', memfd, UDMABUF_FLAGS_CLOEXEC, 0, size)
        return fcntl.ioctl(dev, UDMABUF_CREATE, bytearray(request))
    finally:
        os.close(memfd)
        os.close(dev)


class BufBaseTest(PyverbsAPITestCase):
    """
    The PD of the tests is one whose buffers the device reaches.
    """
    def setUp(self):
        super().setUp()
        self.pd = self.base_pd = PD(self.ctx)
        if needs_shared(self.ctx):
            self.pd = create_cc_parent_domain(self.ctx, self.base_pd)

    def assert_errno(self, error_code, func, *args, **kwargs):
        with self.assertRaises(PyverbsRDMAError) as caught:
            func(*args, **kwargs)
        self.assertEqual(errno.errorcode[caught.exception.error_code],
                         errno.errorcode[error_code])


class BufTest(BufBaseTest):
    """
    Test various functionalities of the Buf class.
    """
    def test_alloc_buf(self):
        """
        The memory is page-aligned, zero-filled and can be written to.
        """
        for size in SIZES:
            with create_buf(self.pd, size) as buf:
                self.assertNotEqual(buf.buf, 0)
                self.assertNotEqual(buf.addr, 0)
                self.assertEqual(buf.addr % PAGE_SIZE, 0)
                self.assertEqual(buf.size, size)
                self.assertEqual(mem.read(buf.addr, size), bytes(size))
                mem.write(buf.addr, 'a' * size, size)
                self.assertEqual(mem.read(buf.addr, size), b'a' * size)

    def test_alloc_buf_own_pages(self):
        """
        Buffers share no page with each other.
        """
        bufs = [create_buf(self.pd, 1) for _ in range(16)]
        self.assertEqual(len({buf.addr // PAGE_SIZE for buf in bufs}), len(bufs))
        self.assertEqual(len({buf.buf for buf in bufs}), len(bufs))

    def test_alloc_buf_again(self):
        """
        No buffer shows what was in one before it.
        """
        for _ in range(16):
            with create_buf(self.pd) as buf:
                self.assertEqual(mem.read(buf.addr, buf.size), bytes(buf.size))
                mem.write(buf.addr, 'a' * buf.size, buf.size)

    def test_alloc_buf_bad_size(self):
        create_buf(self.pd).close()
        self.assert_errno(errno.EINVAL, Buf, self.pd, 0)
        self.assert_errno(errno.ENOMEM, Buf, self.pd, (1 << 64) - 1)
        with self.assertRaises(OverflowError):
            Buf(self.pd, -1)

    def test_alloc_buf_closed_pd(self):
        create_buf(self.pd).close()
        self.pd.close()
        self.assert_errno(errno.EINVAL, Buf, self.pd, PAGE_SIZE)

    def test_close_buf_twice(self):
        """
        A closed buffer can be closed again, and is good for nothing else.
        """
        buf = create_buf(self.pd)
        buf.close()
        buf.close()
        self.assertEqual((buf.buf, buf.addr, buf.size), (0, 0, 0))
        self.assert_errno(errno.EINVAL, BufMR, self.pd, buf, PAGE_SIZE, LOCAL_WRITE)
        self.assert_errno(errno.EINVAL, buf.export_dmabuf_fd)

    def test_buf_str(self):
        with create_buf(self.pd) as buf:
            self.assertRegex(str(buf), rf'Buf:\naddr *: {buf.addr} *\nsize *: {buf.size} *\n')

    def test_export(self):
        """
        Each export is a new close-on-exec descriptor of the same DMA-buf, which
        shows the memory of the buffer.
        """
        with create_buf(self.pd) as buf:
            fds = [export_or_skip(buf), buf.export_dmabuf_fd()]
            self.assertNotEqual(*fds)
            self.assertEqual(*[os.fstat(fd).st_ino for fd in fds])
            self.assertFalse(os.get_inheritable(fds[0]))
            os.close(fds[1])
            mem.write(buf.addr, 'first', 5)
            with mmap.mmap(fds[0], buf.size) as view:
                self.assertEqual(view[:5], b'first')
                view[PAGE_SIZE:PAGE_SIZE + 6] = b'second'
            self.assertEqual(mem.read(buf.addr + PAGE_SIZE, 6), b'second')
            os.close(fds[0])


class BufMRTest(BufBaseTest):
    """
    Test various functionalities of the BufMR class.
    """
    def test_reg_buf_mr(self):
        with create_buf(self.pd) as buf:
            for access in [0, LOCAL_WRITE, REMOTE_ACCESS]:
                with create_buf_mr(self.pd, buf, buf.size, access) as mr:
                    self.assertEqual(mr.buf, buf.addr)
                    self.assertEqual(mr.length, buf.size)
                    mr.lkey, mr.rkey, mr.handle

    def test_reg_buf_mr_offset(self):
        """
        An MR that begins at any byte of the buffer covers that byte.
        """
        with create_buf(self.pd) as buf:
            whole = create_buf_mr(self.pd, buf, buf.size)
            for offset in [1, 100, PAGE_SIZE - 1, PAGE_SIZE, buf.size - 4]:
                with create_buf_mr(self.pd, buf, 4, offset=offset) as mr:
                    self.assertEqual(mr.buf, buf.addr + offset)
                    self.assertEqual(mr.length, 4)
                    mr.write('abcd', 4)
                    self.assertEqual(whole.read(4, offset), b'abcd')
                    self.assertEqual(mem.read(buf.addr + offset, 4), b'abcd')

    def test_reg_buf_mr_bad_range(self):
        with create_buf(self.pd) as buf:
            create_buf_mr(self.pd, buf, buf.size).close()
            for length, offset in [(0, 0), (buf.size + 1, 0), (buf.size, 1),
                                   (1, buf.size), (1, -1), ((1 << 64) - 1, 2)]:
                with self.subTest(length=length, offset=offset):
                    self.assert_errno(errno.EINVAL, BufMR, self.pd, buf, length,
                                      LOCAL_WRITE, offset)

    def test_reg_buf_mr_other_pd(self):
        with create_buf(self.pd) as buf, PD(self.ctx) as other:
            self.assert_errno(errno.EINVAL, BufMR, other, buf, PAGE_SIZE, LOCAL_WRITE)

    def test_reg_buf_mr_bad_args(self):
        with create_buf(self.pd) as buf:
            with self.assertRaises(TypeError):
                BufMR(self.pd, None, PAGE_SIZE, LOCAL_WRITE)
            with self.assertRaises(TypeError):
                BufMR(None, buf, PAGE_SIZE, LOCAL_WRITE)

    def test_dereg_buf_mr_twice(self):
        with create_buf(self.pd) as buf:
            mr = create_buf_mr(self.pd, buf, buf.size)
            mr.close()
            mr.close()
            self.assertEqual(mr.buf, 0)
            # The memory is the buffer's
            self.assertEqual(mem.read(buf.addr, buf.size), bytes(buf.size))


class MRExTest(BufBaseTest):
    """
    Test various functionalities of the MREx class.
    """
    def setUp(self):
        super().setUp()
        self.length = 2 * PAGE_SIZE
        self.memory = mem.mmap(length=self.length)

    def tearDown(self):
        super().tearDown()
        mem.munmap(self.memory, self.length)

    @u.skip_unsupported
    def create_mr(self, **kwargs):
        if needs_shared(self.ctx) and 'buf' not in kwargs and 'fd' not in kwargs:
            raise unittest.SkipTest('The device does not reach private memory')
        return MREx(self.pd, **kwargs)

    def test_reg_by_address(self):
        with self.create_mr(length=self.length, access=REMOTE_ACCESS, address=self.memory) as mr:
            self.assertEqual(mr.buf, self.memory)
            self.assertEqual(mr.length, self.length)
        # The memory is the user's
        self.assertEqual(mem.read(self.memory, self.length), bytes(self.length))

    def test_reg_by_address_and_iova(self):
        for iova in [0, PAGE_SIZE, self.memory]:
            with self.create_mr(length=self.length, access=LOCAL_WRITE,
                                address=self.memory, iova=iova) as mr:
                self.assertEqual(mr.buf, self.memory)
                self.assertEqual(mr.length, self.length)

    def test_reg_by_buf(self):
        with create_buf(self.pd) as buf:
            for offset in [0, 1, PAGE_SIZE]:
                length = buf.size - offset
                with self.create_mr(length=length, access=LOCAL_WRITE, buf=buf,
                                    address=buf.addr + offset) as mr:
                    self.assertEqual(mr.buf, buf.addr + offset)
                    self.assertEqual(mr.length, length)

    def test_reg_by_buf_and_iova(self):
        """
        Only a buffer that is not a DMA-buf takes another IOVA.
        """
        with create_buf(self.pd) as buf:
            args = {'length': buf.size, 'access': LOCAL_WRITE, 'buf': buf,
                    'address': buf.addr, 'iova': PAGE_SIZE}
            try:
                os.close(buf.export_dmabuf_fd())
            except PyverbsRDMAError as ex:
                self.assertEqual(ex.error_code, errno.ENODATA)
                self.create_mr(**args).close()
            else:
                self.assert_errno(errno.EINVAL, MREx, self.pd, **args)

    def test_reg_by_dmabuf(self):
        with create_buf(self.pd) as buf:
            fd = export_or_skip(buf)
            try:
                with self.create_mr(length=PAGE_SIZE, access=LOCAL_WRITE, fd=fd,
                                    fd_offset=PAGE_SIZE, iova=buf.addr) as mr:
                    self.assertEqual(mr.length, PAGE_SIZE)
                    # There is no mapping that the MR knows of.
                    self.assertEqual(mr.buf, 0)
                    with self.assertRaises(PyverbsError):
                        mr.read(1, 0)
            finally:
                os.close(fd)

    def test_reg_bad_attributes(self):
        with create_buf(self.pd) as buf:
            addr = {'address': buf.addr}
            fd = {'fd': 0, 'fd_offset': 0, 'iova': 0}
            for attrs in [{}, {'iova': 0}, {'fd': 0}, {'fd': 0, 'fd_offset': 0},
                          {'fd': 0, 'iova': 0}, {'fd_offset': 0},
                          {**addr, **fd}, {**addr, 'fd_offset': 0},
                          {'buf': buf}, {'buf': buf, **fd},
                          {'buf': buf, **addr, 'fd': 0},
                          {'buf': buf, **addr, 'fd_offset': 0},
                          {'buf': buf, 'address': buf.addr - 1}]:
                with self.subTest(attrs=attrs):
                    self.assert_errno(errno.EINVAL, MREx, self.pd, length=PAGE_SIZE,
                                      access=LOCAL_WRITE, **attrs)

    def test_reg_unknown_attributes(self):
        for bit in [e.IBV_REG_MR_MASK_DMAH, e.IBV_REG_MR_MASK_BUF << 1, 1 << 63]:
            with self.subTest(bit=bit):
                self.assert_errno(errno.EOPNOTSUPP, MREx, self.pd, length=self.length,
                                  access=LOCAL_WRITE, address=self.memory, comp_mask=bit)

    def test_reg_bad_fd(self):
        with self.assertRaises(PyverbsRDMAError) as caught:
            MREx(self.pd, length=PAGE_SIZE, access=LOCAL_WRITE, fd=-1, fd_offset=0, iova=0)
        self.assertIn(caught.exception.error_code, [errno.EBADF, errno.EOPNOTSUPP])


class BufCloseTest(BufBaseTest):
    """
    MRs are closed before the buffer that they lie in, and that before the PD.
    """
    def create_all(self, pd=None):
        pd = pd or self.pd
        buf = create_buf(pd)
        return buf, [create_buf_mr(pd, buf, buf.size), create_buf_mr(pd, buf, PAGE_SIZE)]

    def assert_closed(self, buf, mrs):
        self.assertEqual(buf.addr, 0)
        self.assertEqual([mr.buf for mr in mrs], [0, 0])
        for obj in [*mrs, buf]:
            obj.close()

    def closing(self, func):
        """
        :return: Which of MRs and buffers func closes, in order
        """
        with self.assertLogs(level='DEBUG') as caught:
            func()
        return [record.name for record in caught.records
                if record.name in ['BufMR', 'Buf'] and record.msg.startswith('Closing')]

    def test_close_buf(self):
        buf, mrs = self.create_all()
        self.assertEqual(self.closing(buf.close), ['BufMR', 'BufMR', 'Buf'])
        self.assert_closed(buf, mrs)

    def test_close_pd(self):
        buf, mrs = self.create_all()
        self.assertEqual(self.closing(self.pd.close), ['BufMR', 'BufMR', 'Buf'])
        self.assert_closed(buf, mrs)

    def test_close_context(self):
        buf, mrs = self.create_all()
        self.assertEqual(self.closing(self.ctx.close), ['BufMR', 'BufMR', 'Buf'])
        self.assert_closed(buf, mrs)

    def test_close_parent_domain(self):
        """
        Buffers of a parent domain go with it, also when its PD is closed.
        """
        for close_base in [False, True]:
            with PD(self.ctx) as pd:
                with create_cc_parent_domain(self.ctx, pd) as parent:
                    buf, mrs = self.create_all(parent)
                    (pd if close_base else parent).close()
                    self.assert_closed(buf, mrs)

    def test_close_mr(self):
        """
        Closing an MR leaves the buffer and its other MRs.
        """
        buf, mrs = self.create_all()
        mrs[0].close()
        mem.write(buf.addr, 'abcd', 4)
        self.assertEqual(mrs[1].read(4, 0), b'abcd')

    def test_forget_buf(self):
        """
        An MR keeps its buffer, which is freed when both are forgotten.
        """
        buf, mrs = self.create_all()
        mem.write(buf.addr, 'abcd', 4)
        alive = weakref.ref(buf)
        del buf
        self.assertEqual(mrs[0].read(4, 0), b'abcd')
        self.assertEqual(self.closing(mrs.clear), ['BufMR', 'BufMR', 'Buf'])
        self.assertIsNone(alive())

    def test_forget_in_a_cycle(self):
        """
        The order is the same for the garbage collector.
        """
        buf, mrs = self.create_all()
        holder = {'buf': buf, 'mrs': mrs}
        holder['holder'] = holder
        del buf, mrs, holder
        self.assertEqual(self.closing(gc.collect), ['BufMR', 'BufMR', 'Buf'])

    def test_forget_failed(self):
        """
        What could not be created leaves nothing to close.
        """
        def fail():
            for func in [lambda: Buf(self.pd, 0), lambda: UserBuf(self.pd, 0, 1),
                         lambda: MREx(self.pd)]:
                self.assertRaises(PyverbsRDMAError, func)
            self.pd.close()
            gc.collect()
        self.assertEqual(self.closing(fail), [])


class UserBufTest(BufBaseTest):
    """
    Test various functionalities of the UserBuf class.
    """
    def setUp(self):
        super().setUp()
        self.size = 2 * PAGE_SIZE
        self.addr = 0

    def tearDown(self):
        super().tearDown()
        if self.addr:
            mem.munmap(self.addr, self.size)

    @u.skip_unsupported
    def create_buf(self, dmabuf_fd=-1):
        if dmabuf_fd < 0:
            self.addr = mem.mmap(length=self.size)
        else:
            self.addr = mem.mmap(length=self.size, fd=dmabuf_fd, flags=mem.MAP_SHARED_)
        return UserBuf(self.pd, self.addr, self.size, dmabuf_fd)

    def test_user_buf(self):
        with self.create_buf() as buf:
            self.assertEqual(buf.addr, self.addr)
            self.assertEqual(buf.size, self.size)
            mem.write(self.addr, 'abcd', 4)
            self.assert_errno(errno.ENODATA, buf.export_dmabuf_fd)
        # The memory is the user's
        self.assertEqual(mem.read(self.addr, 4), b'abcd')

    def test_reg_user_buf(self):
        buf = self.create_buf()
        if needs_shared(self.ctx):
            raise unittest.SkipTest('The device does not reach private memory')
        with create_buf_mr(self.pd, buf, PAGE_SIZE, offset=PAGE_SIZE) as mr:
            mr.write('abcd', 4)
            self.assertEqual(mem.read(self.addr + PAGE_SIZE, 4), b'abcd')
        with MREx(self.pd, length=1, buf=buf, address=self.addr + 1) as mr:
            self.assertEqual(mr.buf, self.addr + 1)
        self.assert_errno(errno.EINVAL, BufMR, self.pd, buf, self.size + 1, LOCAL_WRITE)

    def test_user_buf_bytes(self):
        """
        A handle may be for any range of bytes, beside others.
        """
        self.create_buf().close()
        bufs = [UserBuf(self.pd, self.addr + i, 100) for i in range(4)]
        self.assertEqual([buf.addr - self.addr for buf in bufs], [0, 1, 2, 3])

    def test_user_buf_bad_args(self):
        self.create_buf().close()
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, 0, self.size)
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, self.addr, 0)
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, self.addr, (1 << 64) - 1)
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, self.addr, self.size, -2)
        memfd = os.memfd_create('test_buf')
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, self.addr, self.size, memfd)
        os.close(memfd)
        self.assert_errno(errno.EBADF, UserBuf, self.pd, self.addr, self.size, memfd)

    def test_user_dmabuf(self):
        """
        The handle has a descriptor of its own, and exports the same DMA-buf.
        """
        fd = create_udmabuf(self.size)
        ino = os.fstat(fd).st_ino
        buf = self.create_buf(fd)
        self.assert_errno(errno.EINVAL, UserBuf, self.pd, self.addr, self.size + 1, fd)
        os.close(fd)
        exported = buf.export_dmabuf_fd()
        self.assertEqual(os.fstat(exported).st_ino, ino)
        buf.close()
        self.assertEqual(os.fstat(exported).st_ino, ino)
        os.close(exported)

    def test_reg_user_dmabuf(self):
        fd = create_udmabuf(self.size)
        buf = self.create_buf(fd)
        os.close(fd)
        if needs_shared(self.ctx):
            raise unittest.SkipTest('The device does not reach private memory')
        with create_buf_mr(self.pd, buf, PAGE_SIZE, offset=PAGE_SIZE) as mr:
            self.assertEqual(mr.buf, self.addr + PAGE_SIZE)
            self.assertEqual(mr.length, PAGE_SIZE)
            mr.write('abcd', 4)
            self.assertEqual(mem.read(self.addr + PAGE_SIZE, 4), b'abcd')


class BufParentDomainTest(BufBaseTest):
    """
    Test buffers of a parent domain that allows memory shared with the host.
    """
    def setUp(self):
        super().setUp()
        self.parent = create_cc_parent_domain(self.ctx, self.base_pd)

    def test_alloc_buf(self):
        with create_buf(self.parent) as buf:
            self.assertEqual(mem.read(buf.addr, buf.size), bytes(buf.size))
            with create_buf_mr(self.parent, buf, PAGE_SIZE, offset=PAGE_SIZE) as mr:
                self.assertEqual(mr.buf, buf.addr + PAGE_SIZE)

    def test_other_pd(self):
        """
        A parent domain and its PD do not register each other's buffers.
        """
        pds = [self.base_pd, self.parent]
        for pd, other in [pds, reversed(pds)]:
            with create_buf(pd) as buf:
                self.assert_errno(errno.EINVAL, BufMR, other, buf, PAGE_SIZE, LOCAL_WRITE)

    def test_backing(self):
        """
        The memory is shared where the device needs that, and only there.
        """
        with create_buf(self.parent) as parents, create_buf(self.base_pd) as plain:
            def is_dmabuf(buf):
                try:
                    os.close(buf.export_dmabuf_fd())
                except PyverbsRDMAError as ex:
                    self.assertEqual(ex.error_code, errno.ENODATA)
                    return False
                return True
            expected = True if needs_shared(self.ctx) else is_dmabuf(plain)
            self.assertEqual(is_dmabuf(parents), expected)

    def test_unknown_flag(self):
        self.assert_errno(errno.EINVAL, ParentDomain, self.ctx,
                          ParentDomainInitAttr(pd=self.base_pd, comp_mask=1 << 31))


class BufRes(RCResources):
    """
    RC resources whose MR is a range of a Buf, which begins in the middle of a
    page and crosses into the next.
    """
    def create_buf(self):
        return create_buf(self.pd, PAGE_SIZE + self.msg_size)

    def create_mr(self):
        self.buf = self.create_buf()
        self.mr = create_buf_mr(self.pd, self.buf, self.msg_size, REMOTE_ACCESS,
                                PAGE_SIZE - self.msg_size // 2)

    def create_qp_attr(self):
        qp_attr = QPAttr(port_num=self.ib_port)
        qp_attr.qp_access_flags = REMOTE_ACCESS
        return qp_attr


class ParentDomainBufRes(BufRes):
    def create_pd(self):
        super().create_pd()
        self.base_pd = self.pd
        self.pd = create_cc_parent_domain(self.ctx, self.base_pd)


class UserBufRes(BufRes):
    def __init__(self, **kwargs):
        self.size = 2 * PAGE_SIZE
        self.memory = mem.mmap(length=self.size)
        super().__init__(**kwargs)

    def __del__(self):
        self.ctx.close()
        mem.munmap(self.memory, self.size)

    @u.skip_unsupported
    def create_buf(self):
        return UserBuf(self.pd, self.memory, self.size)


class IovaRes(BufRes):
    """
    RC resources whose MR has an address of its own for the device.
    """
    IOVA = 0x10000

    def create_mr(self):
        self.buf = self.create_buf()
        try:
            self.mr = MREx(self.pd, length=self.msg_size, access=REMOTE_ACCESS,
                           buf=self.buf, address=self.buf.addr, iova=self.IOVA)
        except PyverbsRDMAError as ex:
            if ex.error_code in [errno.EINVAL, errno.EOPNOTSUPP]:
                raise unittest.SkipTest('The buffer takes no other IOVA')
            raise ex


class BufTrafficTest(RDMATestCase):
    """
    Test traffic between two QPs over MRs that lie in buffers.
    """
    def all_traffic(self, resource):
        self.create_players(resource)
        u.traffic(**self.traffic_args)
        for op in [e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ]:
            u.rdma_traffic(**self.traffic_args, send_op=op)

    def test_buf_traffic(self):
        self.all_traffic(BufRes)

    def test_buf_bounds(self):
        """
        Traffic writes to the range of the MR and not beside it.
        """
        self.create_players(BufRes)
        size = self.server.msg_size
        start = PAGE_SIZE - size // 2
        u.traffic(**self.traffic_args)
        for buf, sign in [(self.server.buf, b's'), (self.client.buf, b'c')]:
            memory = mem.read(buf.addr, buf.size)
            self.assertNotEqual(memory[start], 0)
            self.assertNotEqual(memory[start + size - 1], 0)
            self.assertEqual(memory[:start], bytes(start))
            self.assertEqual(memory[start + size:], bytes(buf.size - start - size))

    def test_parent_domain_traffic(self):
        self.all_traffic(ParentDomainBufRes)

    def test_user_buf_traffic(self):
        self.all_traffic(UserBufRes)

    def test_iova_traffic(self):
        """
        Work requests name the memory of an MR by its IOVA.
        """
        self.create_players(IovaRes, sync_attrs=False)
        size = self.client.msg_size
        self.client.mr.write('c' * size, size)
        sge = SGE(IovaRes.IOVA, size, self.client.mr.lkey)
        send_wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[sge])
        send_wr.set_wr_rdma(self.server.mr.rkey, IovaRes.IOVA)
        u.send(self.client, send_wr)
        u.poll_cq(self.client.cq)
        self.assertEqual(self.server.mr.read(size, 0), b'c' * size)
