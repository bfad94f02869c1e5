/* Sizes and numbers of the GATT OTA profile, version 1 (docs/ota-profile.md), for ota_device.h. */
#ifndef OTA_PROFILE_H
#define OTA_PROFILE_H

enum {
    OTA_DIGEST_SIZE = 32,    /* SHA-256 */
    OTA_PREFIX_SIZE = 8,     /* a digest prefix or a key id */
    OTA_ENVELOPE_SMALLEST = 158,
    OTA_ENVELOPE_DEFAULT = 1332, /* the longest envelope of a device whose Info does not state another number */
    OTA_ENVELOPE_LARGEST = 65124,
    OTA_KEYS_LARGEST = 16,
    OTA_SIGNATURES_LARGEST = 8, /* in one envelope */
    OTA_TEXT_LARGEST = 63, /* bytes of a product name or a version */
    OTA_NOTIFICATION_LARGEST = 13,
    OTA_INFO_LARGEST = 262, /* bytes of the longest Info value of this core */
    OTA_PAGE_SMALLEST = 256,
    OTA_PAGE_LARGEST = 65536,
    OTA_WRITE_UNIT_LARGEST = 64,
    OTA_RECORD_PAGES = 2 /* erase pages of the record area */
};

/* ATT error codes for the answer to a write or a read; 0 is success. */
enum ota_att_error {
    OTA_ATT_OK = 0x00,
    OTA_ATT_READ_NOT_PERMITTED = 0x02,
    OTA_ATT_INVALID_OFFSET = 0x07,
    OTA_ATT_INVALID_LENGTH = 0x0D,         /* a Control value of fewer than 2 bytes: opcode or tag is missing */
    OTA_ATT_INSUFFICIENT_RESOURCES = 0x11, /* too many connections, or the last answer has not been sent yet */
    OTA_ATT_NOT_SUBSCRIBED = 0xFD          /* Control was written while its notifications are off */
};

enum ota_characteristic { OTA_INFO = 2, OTA_CONTROL = 3, OTA_DATA = 4, OTA_PROGRESS = 5, OTA_VERSION = 6 };

/* The 128-bit UUIDs c7e1000N-63a0-486d-9bcb-a18d79d9acd9. For the service, N is 1. For a characteristic, N is its value
 * in `enum ota_characteristic`. The least significant byte is first, as in Zephyr's BT_UUID_INIT_128 and NimBLE's
 * BLE_UUID128_INIT. */
#define OTA_UUID128(n) 0xd9, 0xac, 0xd9, 0x79, 0x8d, 0xa1, 0xcb, 0x9b, 0x6d, 0x48, 0xa0, 0x63, (n), 0x00, 0xe1, 0xc7
#define OTA_UUID128_SERVICE OTA_UUID128(0x01)
#define OTA_UUID128_INFO OTA_UUID128(0x02)
#define OTA_UUID128_CONTROL OTA_UUID128(0x03)
#define OTA_UUID128_DATA OTA_UUID128(0x04)
#define OTA_UUID128_PROGRESS OTA_UUID128(0x05)
#define OTA_UUID128_VERSION OTA_UUID128(0x06)

enum ota_opcode {
    OTA_BEGIN = 1,
    OTA_SYNC = 2,
    OTA_FINISH = 3,
    OTA_APPLY = 4,
    OTA_CONFIRM = 5,
    OTA_DISCARD = 6,
    OTA_IDENTIFY = 7
};

enum ota_object { OTA_OBJECT_ENVELOPE = 1, OTA_OBJECT_IMAGE = 2, OTA_OBJECT_ENCODED_IMAGE = 3 };

enum ota_encoding { OTA_ENCODING_LZMA2 = 1 };

enum ota_status {
    OTA_OK = 0,
    OTA_UNKNOWN_OPCODE = 1,
    OTA_BAD_ARGUMENT = 2,
    OTA_BAD_STATE = 3,
    OTA_BUSY = 4,
    OTA_MALFORMED = 5,
    OTA_UNKNOWN_CRITICAL = 6,
    OTA_UNTRUSTED = 7,
    OTA_WRONG_PRODUCT = 8,
    OTA_WRONG_HARDWARE = 9,
    OTA_TOO_OLD = 10,
    OTA_REQUIRES_NEWER = 11,
    OTA_WRONG_FORMAT = 12,
    OTA_TOO_LARGE = 13,
    OTA_BATTERY_LOW = 14,
    OTA_FLASH_FAILED = 15,
    OTA_DIGEST_MISMATCH = 16,
    OTA_REFUSED = 17,
    OTA_WRONG_BASE = 18,
    OTA_NOT_DECODED = 19
};

enum ota_state {
    OTA_STATE_IDLE = 0,
    OTA_STATE_ENVELOPE = 1,
    OTA_STATE_ACCEPTED = 2,
    OTA_STATE_IMAGE = 3,
    OTA_STATE_VERIFIED = 4,
    OTA_STATE_TRIAL = 5
};

/* The algorithms of signatures, with their numbers in an envelope. */
enum ota_algorithm { OTA_ED25519 = 1, OTA_ML_DSA_44 = 2, OTA_ML_DSA_65 = 3, OTA_ML_DSA_87 = 4 };

/* The context string of an ML-DSA signature over a manifest (FIPS 204, 5.2), without the NUL at its end. Ed25519 has no
 * context string. */
#define OTA_SIGNATURE_CONTEXT "otaflash-bundle"

enum ota_image_format {
    OTA_FORMAT_RAW = 0,
    OTA_FORMAT_ESPRESSIF = 1,
    OTA_FORMAT_MCUBOOT = 2,
    OTA_FORMAT_NORDIC_DFU = 3, /* a package for another protocol: every device refuses it with OTA_WRONG_FORMAT */
    OTA_FORMAT_ANY = 255 /* only in `ota_config.image_format`: the device accepts images of any format */
};

#endif
