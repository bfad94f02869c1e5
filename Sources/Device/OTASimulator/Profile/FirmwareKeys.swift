import Glibc
import OTASigning

/// The trusted keys that an image contains, as text, and the text of an image that does not start.
///
/// A real device has its trusted keys in its firmware, so an update can replace them. The image of a virtual device can be any bytes. If it
/// contains the line ``marker``, followed by public keys of Ed25519 or ML-DSA (PEM), a virtual device that runs this image trusts exactly
/// these keys (docs/decisions/0035-keys-of-a-virtual-device.md).
enum FirmwareKeys {
    static let marker = "otaflash-trusted-keys:\n"
    /// An image with this text hangs at its start. The watchdog then restarts the device, and the bootloader starts the old image.
    private static let hanging = "otaflash-does-not-start"
    /// The maximum number of keys of a device.
    private static let mostKeys = 16
    private static let (begin, end) = ("-----BEGIN PUBLIC KEY-----\n", "-----END PUBLIC KEY-----\n")

    /// Returns the keys after the first marker in an image, up to the first other text. Nil if the image has no such key.
    static func keys(in image: UnsafeRawBufferPointer) -> [PublicKey]? {
        guard let offset = end(of: marker, in: image) else { return nil }
        // A key has 113 bytes (Ed25519) to 3600 bytes (ML-DSA-87).
        let text = image[offset...].prefix(mostKeys * 3600)
        var rest = String(decoding: text, as: UTF8.self)[...]
        var keys: [PublicKey] = []
        while keys.count < mostKeys, rest.hasPrefix(begin), let last = rest.firstRange(of: end) {
            guard let key = try? PublicKey(pem: SecretBytes(copying: rest[..<last.upperBound].utf8)) else { break }
            if !keys.contains(key) { keys.append(key) }
            rest = rest[last.upperBound...]
        }
        return keys.isEmpty ? nil : keys
    }

    /// Whether the firmware of an image does not start.
    static func hangs(_ image: UnsafeRawBufferPointer) -> Bool { end(of: hanging, in: image) != nil }

    /// Returns the offset after the first occurrence of a text in an image; nil: the image does not contain it.
    private static func end(of marker: String, in image: UnsafeRawBufferPointer) -> Int? {
        guard let start = image.baseAddress else { return nil }
        let text = Array(marker.utf8)
        var position = 0
        while text.count <= image.count - position,
            let found = memchr(start + position, Int32(text[0]), image.count - position - text.count + 1)
        {
            position = start.distance(to: UnsafeRawPointer(found))
            if memcmp(found, text, text.count) == 0 { return position + text.count }
            position += 1
        }
        return nil
    }
}
