// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A C++ application: buffers and MRs that end with their scope, by every verb,
 * in what C++11 has. It runs in the guest and ends with 0 if all went well.
 */
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <infiniband/verbs.h>

namespace {

template <typename T> T *checked(T *object, const char *what)
{
	if (!object)
		throw std::runtime_error(what);
	return object;
}

template <typename T, typename R, R (*release)(T *)> struct releases {
	void operator()(T *object) const { release(object); }
};

template <typename T, typename R, R (*release)(T *)>
using owner = std::unique_ptr<T, releases<T, R, release>>;

using context = owner<ibv_context, int, ibv_close_device>;
using domain = owner<ibv_pd, int, ibv_dealloc_pd>;
using region = owner<ibv_mr, int, ibv_dereg_mr>;
using user_handle = owner<ibv_buf, void, ibv_free_user_buf>;

class buffer {
public:
	buffer(ibv_pd *pd, std::size_t size)
		: addr_(checked(ibv_alloc_buf(pd, size, &buf_),
				"ibv_alloc_buf"))
	{
	}

	~buffer() { ibv_free_buf(buf_); }
	buffer(const buffer &) = delete;
	buffer &operator=(const buffer &) = delete;

	ibv_buf *handle() const { return buf_; }
	char *data() const { return static_cast<char *>(addr_); }

private:
	ibv_buf *buf_ = nullptr;
	void *addr_;
};

context open_first()
{
	ibv_device **list = checked(ibv_get_device_list(nullptr), "list");
	ibv_context *first = list[0] ? ibv_open_device(list[0]) : nullptr;

	ibv_free_device_list(list);
	return context(checked(first, "ibv_open_device"));
}

void run()
{
	constexpr std::size_t size = 16384;
	context device = open_first();
	domain pd(checked(ibv_alloc_pd(device.get()), "ibv_alloc_pd"));
	buffer memory(pd.get(), size);

	std::memset(memory.data(), 1, size);
	region all(checked(ibv_reg_buf_mr(pd.get(), memory.handle(),
					  memory.data(), size,
					  IBV_ACCESS_LOCAL_WRITE),
			   "ibv_reg_buf_mr"));

	ibv_mr_init_attr attr = {};
	attr.length = size / 2;
	attr.access = IBV_ACCESS_LOCAL_WRITE;
	attr.comp_mask = IBV_REG_MR_MASK_BUF | IBV_REG_MR_MASK_ADDR;
	attr.addr = memory.data() + size / 2;
	attr.buf = memory.handle();
	region half(checked(ibv_reg_mr_ex(pd.get(), &attr), "ibv_reg_mr_ex"));

	if (ibv_export_buf_dmabuf_fd(memory.handle()) >= 0)
		throw std::runtime_error("a private mapping was exported");

	std::unique_ptr<char[]> own(new char[size]);
	user_handle user(checked(ibv_alloc_user_buf(pd.get(), own.get(), size,
						    -1),
				 "ibv_alloc_user_buf"));
	region mine(checked(ibv_reg_buf_mr(pd.get(), user.get(), own.get(),
					   size, IBV_ACCESS_LOCAL_WRITE),
			    "ibv_reg_buf_mr of own memory"));
}

} /* namespace */

int main()
{
	try {
		run();
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s: %s\n", e.what(),
			     std::strerror(errno));
		return 1;
	}
	return 0;
}
