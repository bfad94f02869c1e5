import OTAFirmware
import OTASigning

/// A public key as C source text, for firmware that runs the device core (`Sources/Device/COTADevice`).
///
/// The text declares `public_key`, the raw bytes that `ota_port.verify` needs, and `key_id`, the bytes for `ota_config.key_ids`.
struct KeyArray: Sendable {
    private let key: PublicKey

    /// - Throws: a usage failure for a key that the device core does not support.
    init(_ key: ImagePublicKey, of file: String) throws(Failure) {
        guard let bundleKey = key.bundleKey else {
            throw Failure.usage(
                "--c-array is for a key that signs bundles, and \(file) is a key for \(key.algorithm.name)",
                hint: "give an Ed25519 or ML-DSA key; to create one: otaflash keygen release")
        }
        self.key = bundleKey
    }

    var lines: [TerminalLine] {
        let demo = key.id == DemoKey.id ? " The demo key: its private key is public, so it is only for tests." : ""
        return [TerminalLine("/* \(key.algorithm), key id \(key.id).\(demo) By otaflash inspect --c-array. */")]
            + ["#include <stdint.h>", ""] + declaration("public_key", key.bytes) + declaration("key_id", key.id.bytes)
    }

    private func declaration(_ name: String, _ bytes: [UInt8]) -> [TerminalLine] {
        let rows = stride(from: 0, to: bytes.count, by: 16).map { start in
            let row = bytes[start...].prefix(16).map { "0x\(Hex.encode([$0]))" }.joined(separator: ", ")
            return TerminalLine("    \(row),")
        }
        return [TerminalLine("static const uint8_t \(name)[\(bytes.count)] = {")] + rows + ["};"]
    }
}
