import OTAFirmware
import OTASigning
import OTASimulator

/// The worked example of docs/bundle-format.md and docs/ota-profile.md. The key, the envelope and the digests are copied from those pages.
/// The image is calculated by the rule on the page: byte i is i mod 251.
enum Example {
    static let publicKey = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    static let envelope = bytes(
        """
        4f544146 02005900 58020000 00000000 07000000 00000000 00b95569 00000000
        db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
        02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010040
        0021fe31 dfa154a2 61e41b64 ab5d62cc fe4bd1df b5b7609f 00a254a3 d36fa7fc
        247090ad 30ec7f37 8f11dcb0 569e68e9 cb0ba2f9 856ebe12 f9b86597 a7ebbe61
        ee1f6165 eddb8023 05
        """)
    static let image: [UInt8] = (0..<600).map { UInt8($0 % 251) }

    /// A configuration with a small flash, which keeps the tests fast: pages of 512 bytes, slots of eight pages.
    static func configuration() throws -> VirtualDeviceConfiguration {
        var configuration = VirtualDeviceConfiguration(
            product: try unwrap(ProductName("demo")), trustedKeys: [try PublicKey(bytes: publicKey)])
        configuration.layout = FlashLayout(pageSize: 512, slotSize: 4096)
        return configuration
    }

    static func device(_ change: (inout VirtualDeviceConfiguration) -> Void = { _ in }) throws -> VirtualDevice {
        var configuration = try configuration()
        change(&configuration)
        return try VirtualDevice(configuration, version: try version("1.0.0"), securityCounter: 3)
    }

    static func version(_ text: String) throws -> SemanticVersion { try unwrap(SemanticVersion(text)) }

    static func bytes(_ hex: String) -> [UInt8] { Hex.decode(hex.filter { !$0.isWhitespace }) ?? [] }

    struct Nothing: Error {}

    static func unwrap<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw Nothing() }
        return value
    }
}

extension Example {
    /// The first 8 bytes of the SHA-256 digests, as in the profile's example.
    static let digests = (envelope: bytes("ab017464e2fa78e9"), image: bytes("db4f2ac25d140369"))
}
