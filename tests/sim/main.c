// SPDX-License-Identifier: GPL-2.0
/*
 * The module: parameters, the platform device that carries the RDMA device (so
 * that unbinding it is how a device vanishes), and what ib_core asks of any
 * device. The parameters hold from the next time that it is bound.
 */
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/platform_device.h>

#include "sim.h"

static char *personality = "mlx5";
module_param(personality, charp, 0444);
MODULE_PARM_DESC(personality, "whose user ABI to speak: mlx5 or efa");

static bool bounce;
module_param(bounce, bool, 0644);
MODULE_PARM_DESC(bounce, "report CC_DMA_BOUNCE and refuse private memory");

unsigned int sim_max_objects = 60000;
module_param_named(max_objects, sim_max_objects, uint, 0644);
MODULE_PARM_DESC(max_objects, "of each kind");

unsigned int sim_max_cqe = (1 << 20) - 1;
module_param_named(max_cqe, sim_max_cqe, uint, 0644);
MODULE_PARM_DESC(max_cqe, "entries that a completion queue may have");

unsigned int sim_max_wr = 32768;
module_param_named(max_wr, sim_max_wr, uint, 0644);
MODULE_PARM_DESC(max_wr, "requests in a queue");

static struct platform_device *carrier;

static int sim_enable(struct ib_device *ibdev)
{
	/* After ib_core has set it by the platform, before anyone looks */
	ibdev->cc_dma_bounce = to_sim(ibdev)->bounce;
	return 0;
}

static const struct ib_device_ops sim_device_ops = {
	.owner = THIS_MODULE,
	.enable_driver = sim_enable,
};

static int sim_probe(struct platform_device *pdev)
{
	struct sim_device *dev;
	int kind, ret;

	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;

	dev = ib_alloc_device(sim_device, ib);
	if (!dev)
		return -ENOMEM;

	dev->uar = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!dev->uar) {
		ret = -ENOMEM;
		goto err_device;
	}

	dev->personality = strcmp(personality, "efa") ? &sim_mlx5 : &sim_efa;
	dev->bounce = bounce;
	mutex_init(&dev->lock);
	for (kind = 0; kind < SIM_KINDS; kind++)
		xa_init_flags(&dev->kinds[kind].objects, XA_FLAGS_ALLOC);

	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = 1;
	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.node_guid = cpu_to_be64(0x0200000000000001ULL);
	dev->ib.driver_def = dev->personality->defs;
	ib_set_device_ops(&dev->ib, &sim_device_ops);
	ib_set_device_ops(&dev->ib, &sim_common_ops);
	ib_set_device_ops(&dev->ib, dev->personality->ops);

	sim_debugfs_add(dev);
	ret = ib_register_device(&dev->ib, "sim%d", &pdev->dev);
	if (ret)
		goto err_debugfs;

	platform_set_drvdata(pdev, dev);
	return 0;

err_debugfs:
	sim_debugfs_remove(dev);
	__free_page(dev->uar);
err_device:
	ib_dealloc_device(&dev->ib);
	return ret;
}

static void sim_remove(struct platform_device *pdev)
{
	struct sim_device *dev = platform_get_drvdata(pdev);
	int kind;

	ib_unregister_device(&dev->ib);
	sim_debugfs_remove(dev);
	for (kind = 0; kind < SIM_KINDS; kind++) {
		WARN(dev->kinds[kind].count, "%u %s left",
		     dev->kinds[kind].count, sim_kind_names[kind]);
		xa_destroy(&dev->kinds[kind].objects);
	}
	__free_page(dev->uar);
	ib_dealloc_device(&dev->ib);
}

static struct platform_driver sim_driver = {
	.probe = sim_probe,
	.remove = sim_remove,
	.driver.name = "ibv_sim",
};

static int __init sim_init(void)
{
	int ret;

	if (strcmp(personality, "mlx5") && strcmp(personality, "efa")) {
		pr_err("ibv_sim: no personality %s\n", personality);
		return -EINVAL;
	}

	ret = platform_driver_register(&sim_driver);
	if (ret)
		return ret;

	carrier = platform_device_register_simple("ibv_sim",
						  PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(carrier)) {
		platform_driver_unregister(&sim_driver);
		return PTR_ERR(carrier);
	}

	return 0;
}

static void __exit sim_exit(void)
{
	platform_device_unregister(carrier);
	platform_driver_unregister(&sim_driver);
}

module_init(sim_init);
module_exit(sim_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RDMA device without hardware, for tests");
MODULE_IMPORT_NS("DMA_BUF");
