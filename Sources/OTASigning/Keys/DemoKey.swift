public import OTAFirmware

/// The demo key in `keys/`. Its private key is public, so the library treats it separately from other trusted keys.
public enum DemoKey {
    /// The id of `keys/otaflash-demo.pub.pem`.
    public static let id: KeyID = {
        guard let id = KeyID(bytes: [0xc1, 0xf0, 0x72, 0x84, 0xd5, 0xcb, 0x35, 0xf0]) else {
            preconditionFailure("a key id has 8 bytes")
        }
        return id
    }()
}
