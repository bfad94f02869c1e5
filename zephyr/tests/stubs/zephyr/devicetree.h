/* Stub: a devicetree with pages of 4096 bytes and an LED. */
#ifndef ZEPHYR_DEVICETREE_H
#define ZEPHYR_DEVICETREE_H
#define DT_CHOSEN(property) property
#define DT_ALIAS(alias) alias
#define DT_NODELABEL(label) label
#define DT_NODE_EXISTS(node) 1
#define DT_REG_SIZE(node) STUB_REG_SIZE(node)
#define STUB_REG_SIZE(node) STUB_size_##node
#define STUB_size_slot1_partition 0x20000
#define STUB_size_otaflash_partition 0x2000
#define DT_GPARENT(node) STUB_flash
#define DT_SAME_NODE(a, b) 1
#define DT_PROP(node, property) STUB_##property
#define STUB_erase_block_size 4096
#define STUB_write_block_size 4
#define DT_NODE_HAS_STATUS(node, status) 1
#endif
