public import OTAFirmware

/// The key in `keys/`, for trying out: its private half is known to everybody, so it is known here.
public enum DemoKey {
    /// The id of `keys/otaflash-demo.pub.pem`.
    public static let id: KeyID = {
        guard let id = KeyID(bytes: [0xc1, 0xf0, 0x72, 0x84, 0xd5, 0xcb, 0x35, 0xf0]) else {
            preconditionFailure("a key id has 8 bytes")
        }
        return id
    }()
}
