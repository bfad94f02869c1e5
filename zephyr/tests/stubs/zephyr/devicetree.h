/* Stub: a devicetree with pages of 4096 bytes and an LED. */
#ifndef ZEPHYR_DEVICETREE_H
#define ZEPHYR_DEVICETREE_H
#define DT_CHOSEN(property) property
#define DT_ALIAS(alias) alias
#define DT_PROP(node, property) STUB_##property
#define STUB_erase_block_size 4096
#define STUB_write_block_size 4
#define DT_NODE_HAS_STATUS(node, status) 1
#endif
